"""`elmo-hf embed`."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from transformers.utils import logging

from ..embedding import ElmoEmbedder, embed_corpus
from ..embedding.batches import BATCH_TOKENS
from ..embedding.formats import find_format
from ..errors import RunError
from ..extras import require
from ..model_loading import find_device, precision_options
from ..processes import part, this_process
from ..records import kind_of
from ..text_sources import STANDARD_INPUT
from .models import find_named_model
from .parameters import Device, Precision, bad_parameters, model_and_texts


def embed(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] INPUT...",
            help="A model folder or a name on the Hub (default: the model that comes with elmo-hf), and files, plain "
            "or compressed: text (one sentence a line), .conll, .conllu, .jsonl, .csv, .tsv, .parquet; datasets on "
            "disk or by name; - for standard input. The first argument is the model if it is a folder with a "
            "config.json, or if others follow and it is neither a path nor named as a text file.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The file to write: .safetensors (shards and an index), .parquet, .arrow, .hdf5, .npz or .npy.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="The model; all arguments are then inputs.", show_default=False)
    ] = None,
    layers: Annotated[
        str, typer.Option(help="mix, top, average, a number (0: the token layer); all, or numbers, as 0,2.")
    ] = "mix",
    pooling: Annotated[
        Literal["mean", "max"] | None,
        typer.Option(help="One vector a record, not one a word.", show_default=False),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], typer.Option(help="Precision of the stored vectors.")
    ] = "float32",
    output_format: Annotated[
        Literal["safetensors", "parquet", "arrow", "hdf5", "npz", "npy"] | None,
        typer.Option("--format", help="Of the output. Default: what the name of --out says.", show_default=False),
    ] = None,
    input_format: Annotated[
        Literal["text", "conll", "conllu", "jsonl", "csv", "tsv", "parquet"] | None,
        typer.Option(help="Default: what the names of the files say; standard input is text.", show_default=False),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="The column of texts or of lists of words; of CoNLL its number, from 0. Default: text, sentence, "
            "words or tokens; 0.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="The split of a dataset.")] = "train",
    words: Annotated[
        bool, typer.Option("--words", help="Words are what blanks separate; else the tokenizer finds them.")
    ] = False,
    keep_columns: Annotated[
        str | None,
        typer.Option(
            "--keep-columns",
            metavar="NAMES",
            help='Other columns to write beside the vectors: names with commas between them, or "all". For .parquet, '
            ".arrow, .safetensors and .npz.",
            show_default=False,
        ),
    ] = None,
    batch_tokens: Annotated[int, typer.Option(help="Tokens that go through the model together.")] = BATCH_TOKENS,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an output that is there; begin a stopped run anew.")
    ] = False,
    device: Device = None,
    precision: Precision = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out lines that cannot be read, and count them.")
    ] = False,
):
    """
    The vectors of a corpus, of any size: one line in, one record out.

    Stopped at any moment, it goes on with --resume to the same file. Several processes share the work when launched
    with torchrun or accelerate.

    Example: elmo-hf embed sentences.txt --out vectors.parquet
    """
    logging.set_verbosity_error()  # of transformers: what is wrong is in our own message
    named, inputs = model_and_texts(arguments, model)
    output_kind = find_format(out, output_format).name.lower()
    require(output_kind, *(input_format or kind_of(source) for source in inputs))
    name, process = find_named_model(named), this_process()
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
            words=words,
            keep_columns=keep_columns.split(",") if keep_columns else (),
            batch_tokens=batch_tokens,
            resume=resume,
            overwrite=overwrite,
            skip_bad=skip_bad,
        )
    part(process)
    if process.is_main_process:
        for message in summary.bad:
            typer.echo(f"skipped: {message}", err=True)
        skipped = f", {summary.skipped:,} bad lines skipped" if summary.skipped else ""
        typer.echo(f"{summary.path}: {summary.records:,} records, {summary.words:,} words{skipped}")


def _parse_layers(layers: str) -> str | int | list[int]:
    """A name, a number, or numbers with commas between them."""
    try:
        numbers = [int(number) for number in layers.split(",")]
    except ValueError:
        return layers
    return numbers if "," in layers else numbers[0]


@contextmanager
def _stopped_in_one_line(inputs: list[str]) -> Generator[None]:
    """Within, Ctrl-C and SIGTERM stop at once, and say how to go on."""

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        again = ", given the same input again," if STANDARD_INPUT in inputs else ""
        raise RunError(f"stopped; the same command with --resume{again} goes on") from None
    finally:
        signal.signal(signal.SIGTERM, before)


__all__ = ["embed"]
