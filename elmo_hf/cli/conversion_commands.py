"""`elmo-hf convert …`"""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer
from transformers.utils import logging

from .. import conversion  # ty: ignore[import-not-found]  (a folder beside the package, mapped when installed)
from ..extras import require
from .models import find_named_model

convert = typer.Typer()

Out = Annotated[Path, typer.Option("--out", help="The folder to write; new or empty.", show_default=False)]
Vocab = Annotated[
    Path | None,
    typer.Option(help="The original vocab.txt, for word ids. The vectors do not depend on it.", show_default=False),
]
Dtype = Annotated[Literal["float32", "float16", "bfloat16"], typer.Option(help="Precision of the stored weights.")]
Check = Annotated[
    str | None,
    typer.Option(
        metavar="SENTENCES",
        help="A sentence, or a file with one a line: print the norms of their words' vectors in every layer.",
        show_default=False,
    ),
]


@convert.callback(invoke_without_command=True)
def convert_group(context: typer.Context):
    """Old ELMo checkpoints to folders that AutoModel.from_pretrained loads, and back."""
    logging.set_verbosity_error()  # of transformers: what is wrong with a model is in our own message
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@convert.command("bilm-hdf5")
def convert_bilm_hdf5(
    options: Annotated[Path, typer.Argument(help="The original options.json.", show_default=False)],
    weights: Annotated[Path, typer.Argument(help="The original weights (.hdf5).", show_default=False)],
    out: Out,
    vocab: Vocab = None,
    dtype: Dtype = "float32",
    check: Check = None,
):
    """
    Original options and HDF5 weights (bilm-tf, AllenNLP) to a complete model folder.

    Example: elmo-hf convert bilm-hdf5 options.json weights.hdf5 --out elmo-original
    """
    require("original weights")
    sentences = _sentences(check)
    _report(conversion.convert_bilm_hdf5(options, weights, out, vocab=vocab, dtype=dtype), sentences)


@convert.command("allennlp")
def convert_allennlp(
    path: Annotated[Path, typer.Argument(help="best.th, weights.th or model.tar.gz.", show_default=False)],
    out: Out,
    options: Annotated[
        Path | None,
        typer.Option(
            help="The biLM's options.json: clipping, skip connections and activation are not in a state dict. "
            "Default: the archive's own, else as in all released models.",
            show_default=False,
        ),
    ] = None,
    vocab: Vocab = None,
    dtype: Dtype = "float32",
    check: Check = None,
):
    """
    An AllenNLP state dict or archive with an ELMo inside to a complete model folder.

    The first scalar mix becomes the model's mixer; where there are several, scalar_mixes.json holds them all.

    Example: elmo-hf convert allennlp model.tar.gz --out elmo-tagger
    """
    sentences = _sentences(check)
    _report(conversion.convert_allennlp(path, out, options=options, vocab=vocab, dtype=dtype), sentences)


@convert.command("original")
def convert_original(
    name: Annotated[
        str, typer.Argument(help="Such as elmo-small, or 2x1024_128_2048cnn_1xhighway.", show_default=False)
    ],
    out: Out,
    weights: Annotated[
        Path | None,
        typer.Option(help="The original weights (.hdf5), with --options. Default: downloaded.", show_default=False),
    ] = None,
    options: Annotated[Path | None, typer.Option(help="The original options.json.", show_default=False)] = None,
    from_url: Annotated[
        str | None,
        typer.Option(
            metavar="BASE",
            help="Download from below this address instead of the one in the card; the files have the same names.",
            show_default=False,
        ),
    ] = None,
    vocab: Vocab = None,
    with_vocab: Annotated[bool, typer.Option("--with-vocab", help="Download the vocabulary too.")] = False,
    dtype: Dtype = "float32",
    check: Check = None,
):
    """
    A published original model to a repository ready for the Hub, checked, with its card.

    Files that are not given are downloaded, and kept in the Hub's cache. What was published as checksum, number of
    parameters and vectors is compared; what could not be is said.

    Example: elmo-hf convert original elmo-small --out elmo-small
    """
    require("original weights")
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
    out: Out,
    model: Annotated[
        str | None,
        typer.Argument(
            help="A model folder, or a name on the Hub. Default: the model that comes with elmo-hf.", show_default=False
        ),
    ] = None,
):
    """
    A model folder to options.json, weights.hdf5 and vocab.txt, as bilm-tf and AllenNLP read them.

    Example: elmo-hf convert to-bilm-hdf5 my-elmo --out my-elmo-hdf5
    """
    require("original weights")
    _report(conversion.export_bilm_hdf5(find_named_model(model), out), [])


def _sentences(check: str | None) -> list[str]:
    """The lines of the file of this name, or, where there is none, the sentence itself."""
    if check is None:
        return []
    if not os.path.isfile(check):  # unlike Path.is_file, at ease with a long sentence
        return [check]
    try:
        return [line for line in Path(check).read_text("utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{check} is not UTF-8 text ({error}).", param_hint="--check") from error


def _report(folder: Path, sentences: list[str]):
    """Says what was written, and prints the norms of the sentences' vectors."""
    typer.echo(f"{folder}: " + ", ".join(sorted(path.name for path in folder.iterdir() if path.suffix != ".py")))
    for number, (word, norms) in enumerate(conversion.layer_norms(folder, sentences) if sentences else ()):
        if number == 0:
            typer.echo("word".ljust(20) + "".join(f"layer {layer}".rjust(12) for layer in range(len(norms))))
        typer.echo(word.ljust(20) + "".join(f"{norm:12.6f}" for norm in norms))


__all__ = ["convert"]
