"""`elmo-hf embed`."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..data.batches import BATCH_TOKENS
from ..data.tables import kind_of
from ..data.text_sources import STANDARD_INPUT
from ..errors import RunError, counted
from ..runtime.extras import require
from .parameters import (
    DEFAULT_MODEL,
    FILES,
    Column,
    Device,
    ModelOfInputs,
    Precision,
    Pretokenized,
    Split,
    bad_parameters,
    model_and_inputs,
    quiet_transformers,
    refuse_unused_column_and_split,
)

if TYPE_CHECKING:
    from ..corpus import CorpusSummary


def embed(
    context: typer.Context,
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] INPUT",
            help=f"Model folder, or name on the Hub. {DEFAULT_MODEL} Inputs: {FILES[0].lower()}{FILES[1:]} The first "
            "argument is the model if it is a folder with a config.json, or if other arguments follow and it is "
            "neither a path nor the name of a text file.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="File to write: .safetensors (shards and an index), .parquet, .arrow, .hdf5, .npz or .npy.",
            show_default=False,
        ),
    ],
    model: ModelOfInputs = None,
    layers: Annotated[
        str,
        typer.Option(
            help="Layers to take: mix, top, average or a number (0 is the token layer) for one vector per word; all, "
            "or numbers separated by commas, such as 0,2, for one vector per word and layer."
        ),
    ] = "mix",
    pooling: Annotated[
        Literal["mean", "max", "sentence"] | None,
        typer.Option(
            help="Write one vector per record: mean or maximum of its words, or (sentence) a vector whose cosine is a "
            "measure of similarity, for models that have this pooling. Default: one vector per word.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], typer.Option(help="Data type of the stored vectors.")
    ] = "float32",
    output_format: Annotated[
        Literal["safetensors", "parquet", "arrow", "hdf5", "npz", "npy"] | None,
        typer.Option("--format", help="Format of the output. Default: by the file name.", show_default=False),
    ] = None,
    input_format: Annotated[
        Literal["text", "conll", "conllu", "jsonl", "csv", "tsv", "parquet", "fasta"] | None,
        typer.Option(
            help="Format of the inputs. Default: by the file names; standard input is text.", show_default=False
        ),
    ] = None,
    column: Column = None,
    split: Split = "train",
    pretokenized: Pretokenized = False,
    keep_columns: Annotated[
        str | None,
        typer.Option(
            "--keep-columns",
            metavar="NAMES",
            help='Other columns to copy to the output: names separated by commas, or "all". For .parquet, .arrow, '
            ".safetensors and .npz.",
            show_default=False,
        ),
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of tokens per batch.")] = BATCH_TOKENS,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing output, or start a stopped run again.")
    ] = False,
    device: Device = None,
    precision: Precision = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip lines that cannot be read, and report how many.")
    ] = False,
):
    """
    Embed a corpus.

    The corpus may have any size. Each line of the input becomes one record of the output. In FASTA files (.fasta, .faa,
    .fas) each sequence is a record with its id, and each letter is a word. A stopped run continues with --resume and
    writes the same file. Several processes share the work when launched with torchrun or accelerate.

    Example: elmo-hf embed sentences.txt --out vectors.parquet
    """
    from ..corpus import embed_corpus
    from ..corpus.formats import find_format
    from ..embedding import ElmoEmbedder
    from ..runtime.model_loading import find_device, precision_options
    from ..runtime.named_models import find_named_model
    from ..runtime.processes import shut_down, this_process

    quiet_transformers()
    model_name, inputs = model_and_inputs(arguments, model)
    output_kind = find_format(out, output_format).name.lower()
    kinds = [kind if (kind := kind_of(source)) == "dataset" else input_format or kind for source in inputs]
    refuse_unused_column_and_split(context, kinds)
    require(output_kind, *kinds)
    name, process = find_named_model(model_name), this_process()
    with bad_parameters(), _stopped_in_one_line(inputs):
        summary = embed_corpus(
            inputs,
            out,
            embedder=ElmoEmbedder.from_pretrained(
                name, device=find_device(device or process.device), **precision_options(name, precision)
            ),
            layers=_parse_layers(layers),
            pooling=pooling,
            dtype=dtype,
            output_format=output_format,
            input_format=input_format,
            column=column,
            split=split,
            pretokenized=pretokenized,
            keep_columns=keep_columns.split(",") if keep_columns else (),
            batch_tokens=batch_tokens,
            resume=resume,
            overwrite=overwrite,
            skip_bad=skip_bad,
        )
    shut_down(process)
    if process.is_main_process:
        _print_summary(summary)


def _print_summary(summary: "CorpusSummary"):
    """The lines that were skipped, and what was written."""
    for message in summary.bad:
        typer.echo(f"skipped: {message}", err=True)
    skipped = f", {counted(summary.skipped, 'bad line')} skipped" if summary.skipped else ""
    typer.echo(f"{summary.path}: {counted(summary.records, 'record')}, {counted(summary.words, 'word')}{skipped}")


def _parse_layers(layers: str) -> str | int | list[int]:
    """A name, a number, or numbers separated by commas."""
    try:
        indices = [int(index) for index in layers.split(",")]
    except ValueError:
        return layers
    return indices if "," in layers else indices[0]


@contextmanager
def _stopped_in_one_line(inputs: list[str]) -> Generator[None]:
    """Within it, Ctrl-C and SIGTERM stop the command at once, with a message that says how to continue."""

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        same_input = " and the same input" if STANDARD_INPUT in inputs else ""
        raise RunError(f"stopped; to continue, run the same command with --resume{same_input}") from None
    finally:
        signal.signal(signal.SIGTERM, before)


__all__ = ["embed"]
