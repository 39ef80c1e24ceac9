"""`elmo-hf convert …`"""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from ..runtime.extras import require
from .parameters import DEFAULT_MODEL, NewFolder, quiet_transformers

AUTOMATIC = "path"  # the command for a path of any format; users may leave out its name


class ConvertGroup(TyperGroup):
    """The commands of the formats. Without one of them, the argument is a path of any format."""

    def parse_args(self, ctx, args: list[str]) -> list[str]:
        """Takes anything that looks like a path, or an option of one, for the argument of the automatic command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            first = args[0]
            is_path = os.path.exists(first) or os.path.exists(first + ".index") or os.sep in first or "." in first
            if first.startswith("-") or is_path:
                args = [AUTOMATIC, *args]
        return super().parse_args(ctx, args)


convert = typer.Typer(cls=ConvertGroup)

Vocab = Annotated[
    Path | None,
    typer.Option(
        help="The original vocab.txt, which gives words their ids. The vectors do not depend on it.", show_default=False
    ),
]
Dtype = Annotated[Literal["float32", "float16", "bfloat16"], typer.Option(help="Data type of the stored weights.")]
Check = Annotated[
    str | None,
    typer.Option(
        metavar="SENTENCES",
        help="A sentence, or a file with one sentence per line: print the norm of each word's vector in each layer, "
        "to compare with the original.",
        show_default=False,
    ),
]


@convert.callback(invoke_without_command=True)
def convert_group(context: typer.Context):
    """
    Convert other ELMo checkpoints, and back.

    elmo-hf convert PATH --out FOLDER detects the format; with --dry-run it prints what would be written. The result
    loads with AutoModel.from_pretrained.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@convert.command(AUTOMATIC, hidden=True)
def convert_path(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A folder, one of its files, or the prefix of a checkpoint.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write; must be new or empty.", show_default=False)
    ] = None,
    options: Annotated[
        Path | None, typer.Option(help="options.json of the biLM, if it is elsewhere.", show_default=False)
    ] = None,
    vocab: Vocab = None,
    dtype: Dtype = "float32",
    check: Check = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the configuration, sizes and files; write nothing.")
    ] = False,
):
    """
    Convert a checkpoint of any known format.

    The format is detected by the files and their first bytes.

    Example: elmo-hf convert zhs.model --out elmo-zhs --dry-run
    """
    if out is None and not dry_run:
        raise typer.BadParameter("name the folder to write, or ask for a --dry-run.", param_hint="--out")
    from .. import conversion

    quiet_transformers()
    sentences = _sentences(check)
    detected = conversion.detect(path, options, vocab)
    if detected.format == "bilm-hdf5":
        require("original weights")
    typer.echo(f"found: {detected}")
    if dry_run:
        _print_plan(conversion.plan_conversion(path, options, vocab, dtype), out)
    elif out is not None:
        _report(conversion.convert_path(path, out, options, vocab, dtype), sentences)


def _print_plan(plan: Any, out: Path | None):
    """Prints the configuration, sizes and files of a conversion that is not made."""
    for name, value in plan.fields.items():
        typer.echo(f"  {name}: {json.dumps(value)}")
    for part, count in plan.parameters.items():
        typer.echo(f"{part}: {count:,} parameters")
    typer.echo(f"{plan.model_class.__name__}: {sum(plan.parameters.values()):,} parameters, {plan.size:,} bytes")
    files = ", ".join(plan.files)
    typer.echo(f"would write{'' if out is None else f' {out}'}: {files}, and the code")


@convert.command("bilm-hdf5")
def convert_bilm_hdf5(
    options: Annotated[
        Path, typer.Argument(metavar="OPTIONS_JSON", help="The original options.json.", show_default=False)
    ],
    weights: Annotated[
        Path, typer.Argument(metavar="WEIGHTS_HDF5", help="The original weights (.hdf5).", show_default=False)
    ],
    out: NewFolder,
    vocab: Vocab = None,
    dtype: Dtype = "float32",
    check: Check = None,
):
    """
    Convert options and HDF5 weights.

    bilm-tf and AllenNLP write and read these files. The result is a complete model folder.

    Example: elmo-hf convert bilm-hdf5 options.json weights.hdf5 --out elmo-original
    """
    require("original weights")
    from .. import conversion

    quiet_transformers()
    sentences = _sentences(check)
    _report(conversion.convert_bilm_hdf5(options, weights, out, vocab=vocab, dtype=dtype), sentences)


@convert.command("allennlp")
def convert_allennlp(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="best.th, weights.th or model.tar.gz.", show_default=False)
    ],
    out: NewFolder,
    options: Annotated[
        Path | None,
        typer.Option(
            help="options.json of the biLM. A state dict lacks its clipping, skip connections and activation. Default: "
            "the one in the archive, else the values of all released models.",
            show_default=False,
        ),
    ] = None,
    vocab: Vocab = None,
    dtype: Dtype = "float32",
    check: Check = None,
):
    """
    Convert an AllenNLP state dict or archive.

    The file contains an ELMo, or is the archive of a language model with an LSTM that AllenNLP trained. The result is a
    complete model folder. The first scalar mix becomes the model's mixer; if there are several, scalar_mixes.json holds
    all of them.

    Example: elmo-hf convert allennlp model.tar.gz --out elmo-tagger
    """
    from .. import conversion

    quiet_transformers()
    sentences = _sentences(check)
    _report(conversion.convert_allennlp(path, out, options=options, vocab=vocab, dtype=dtype), sentences)


@convert.command("bilm-checkpoint")
def convert_bilm_checkpoint(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="Prefix of the checkpoint's files (model.ckpt-400), or their folder.",
            show_default=False,
        ),
    ],
    out: NewFolder,
    options: Annotated[
        Path | None,
        typer.Option(help="The original options.json. Default: the one beside the checkpoint.", show_default=False),
    ] = None,
    vocab: Annotated[
        Path | None,
        typer.Option(help="The original vocab.txt. Default: the one beside the checkpoint.", show_default=False),
    ] = None,
    dtype: Dtype = "float32",
    check: Check = None,
):
    """
    Convert a TensorFlow checkpoint.

    Written by bilm-tf or simple_elmo_training. TensorFlow is not needed. The result is a complete model folder
    with the softmax: it scores texts and can be trained further. All checksums are compared.

    Example: elmo-hf convert bilm-checkpoint model.ckpt-400 --options options.json --vocab vocab.txt --out my-elmo
    """
    from .. import conversion

    quiet_transformers()
    sentences = _sentences(check)
    folder = conversion.convert_bilm_checkpoint(checkpoint, out, options=options, vocab=vocab, dtype=dtype)
    _report(folder, sentences)


@convert.command("elmoformanylangs")
def convert_elmoformanylangs(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="The folder with config.json, char.dic, word.dic and the .pkl files.",
            show_default=False,
        ),
    ],
    out: NewFolder,
    splitting: Annotated[
        Literal["whitespace", "treebank"],
        typer.Option(help="How the tokenizer splits raw text. The original was given words, separated by white space."),
    ] = "whitespace",
    dtype: Dtype = "float32",
    check: Check = None,
):
    """
    Convert a model of ELMoForManyLangs.

    The result is a complete model folder, whose tokenizer has the characters and words of the original. With a
    classifier.pkl it also predicts words.

    Example: elmo-hf convert elmoformanylangs zhs.model --out elmo-zhs
    """
    from .. import conversion

    quiet_transformers()
    sentences = _sentences(check)
    _report(conversion.convert_elmoformanylangs(folder, out, dtype=dtype, splitting=splitting), sentences)


@convert.command("original")
def convert_original(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="For example elmo-small, or 2x1024_128_2048cnn_1xhighway.", show_default=False
        ),
    ],
    out: NewFolder,
    weights: Annotated[
        Path | None,
        typer.Option(help="The original weights (.hdf5), with --options. Default: download them.", show_default=False),
    ] = None,
    options: Annotated[Path | None, typer.Option(help="The original options.json.", show_default=False)] = None,
    from_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Download from this base address instead of the one in the model's card; the file names are the same.",
            show_default=False,
        ),
    ] = None,
    vocab: Vocab = None,
    with_vocab: Annotated[bool, typer.Option("--with-vocab", help="Download the vocabulary too.")] = False,
    dtype: Dtype = "float32",
    check: Check = None,
):
    """
    Convert a published original model.

    The result is a repository for the Hub, checked and with a model card. Files that are not given are downloaded to
    the Hub's cache. Checksums, the number of parameters and vectors are compared with the published ones; the output
    lists what could not be compared.

    Example: elmo-hf convert original elmo-small --out elmo-small
    """
    require("original weights")
    from .. import conversion

    quiet_transformers()
    sentences = _sentences(check)
    folder = conversion.convert_original(
        name, out, weights, options, vocab=vocab, dtype=dtype, from_url=from_url, with_vocab=with_vocab
    )
    _report(folder, sentences)
    for title in ("checked", "not_checked"):
        for line in conversion.read_provenance(folder)[title]:
            typer.echo(f"{title.replace('_', ' ')}: {line}")


@convert.command("to-bilm-hdf5")
def convert_to_bilm_hdf5(
    out: NewFolder,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help=f"A model folder, or a name on the Hub. {DEFAULT_MODEL}", show_default=False
        ),
    ] = None,
):
    """
    Convert a model folder to HDF5 weights.

    bilm-tf and AllenNLP read the files: options.json, weights.hdf5 and vocab.txt.

    Example: elmo-hf convert to-bilm-hdf5 my-elmo --out my-elmo-hdf5
    """
    require("original weights")
    from .. import conversion
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    _report(conversion.export_bilm_hdf5(find_named_model(model), out), [])


def _sentences(check: str | None) -> list[str]:
    """The lines of the file with this name, or, if there is no such file, the sentence itself."""
    if check is None:
        return []
    if not os.path.isfile(check):  # unlike `Path.is_file`, accepts a long sentence
        return [check]
    try:
        return [line for line in Path(check).read_text("utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{check} is not UTF-8 text ({error}).", param_hint="--check") from error


def _report(folder: Path, sentences: list[str]):
    """Prints the files that were written, and the norms of the vectors of the sentences' words."""
    from .. import conversion

    typer.echo(f"{folder}: " + ", ".join(sorted(path.name for path in folder.iterdir() if path.suffix != ".py")))
    for row, (word, norms) in enumerate(conversion.layer_norms(folder, sentences) if sentences else ()):
        if row == 0:
            typer.echo("word".ljust(20) + "".join(f"layer {layer}".rjust(12) for layer in range(len(norms))))
        typer.echo(word.ljust(20) + "".join(f"{norm:12.6f}" for norm in norms))


__all__ = ["convert"]
