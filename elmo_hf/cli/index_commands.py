"""`elmo-hf index` and `elmo-hf neighbors`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from tqdm import tqdm
from transformers.utils import logging

from ..embedding import ElmoEmbedder, ElmoIndex, Neighbour
from ..embedding.readers import ReadingOptions, open_corpus
from ..embedding.sentences import Sentence
from ..errors import ModelError, TextError
from ..extras import require
from ..model_loading import Precision as PrecisionName
from ..model_loading import find_device, precision_options
from .models import find_named_model
from .parameters import Device, Precision, bad_parameters


def index(
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help="Files, plain or compressed: text (one sentence a line), .conll, .conllu, .jsonl, .csv, .tsv, "
            ".parquet; datasets on disk or by name; - for standard input.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder to write; new or empty.", show_default=False)],
    model: Annotated[
        str | None,
        typer.Option("--model", help="Default: the model that comes with elmo-hf.", show_default=False),
    ] = None,
    layers: Annotated[str, typer.Option(metavar="mix|top|average|N", help="Which vectors; 0 is the token layer.")] = (
        "mix"
    ),
    words: Annotated[
        str | None,
        typer.Option(metavar="WORD,WORD,...", help="Only these words, whatever their case.", show_default=False),
    ] = None,
    dtype: Annotated[Literal["float16", "float32"], typer.Option(help="Of the vectors in the folder.")] = "float16",
    approximate: Annotated[
        bool | None,
        typer.Option(
            "--approximate/--exact",
            help="Whether to build a graph that is searched in milliseconds and finds nearly all. Default: from a "
            "million words on, if usearch is installed.",
            show_default=False,
        ),
    ] = None,
    device: Device = None,
    precision: Precision = None,
):
    """
    An index of every word of a text by its vector, to be searched with `elmo-hf neighbors`.

    Example: elmo-hf index corpus/*.txt.gz --out my-index
    """
    if approximate:
        require("approximate index")
    logging.set_verbosity_error()
    reading = _Reading(text)  # what is not there is found before the model is loaded
    embedder = _load_embedder(model, device, precision)
    with reading, bad_parameters():
        made = ElmoIndex.build(
            embedder,
            reading.sentences(),
            out,
            layers=int(layers) if layers.lstrip("-").isdigit() else layers,
            words=None if words is None else [word for word in words.split(",") if word],
            dtype=dtype,
            approximate=approximate,
            progress=reading.count,
        )
    size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    typer.echo(f"{out}: {len(made):,} occurrences in {made.sentences:,} sentences, {size:,.1f} MB")


def neighbors(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An index.", show_default=False)],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help='A sentence with one word marked: "they sat on the **bank**".', show_default=False
        ),
    ],
    k: Annotated[int, typer.Option("-k", help="How many neighbours.")] = 10,
    same_word: Annotated[bool, typer.Option("--same-word", help="Only occurrences of the marked word.")] = False,
    distinct: Annotated[bool, typer.Option("--distinct", help="Of each word only the nearest occurrence.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Compare with all words, even if there is a graph.")] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="Default: the model of the index.", show_default=False)
    ] = None,
    device: Device = None,
    precision: Precision = None,
):
    """
    The words of an index that are most like a word in its sentence: the cosine, and the sentence.

    Example: elmo-hf neighbors my-index "they sat on the **bank** and watched the boats"
    """
    logging.set_verbosity_error()
    opened = ElmoIndex.load(folder)
    if not (model or opened.model):
        raise typer.BadParameter("the index was built with a model that has no name.", param_hint="--model")
    with bad_parameters():
        embedder = _load(opened, model, device, precision)
        found = embedder.neighbors(text, opened, k, same_word=same_word, distinct=distinct, exact=exact or None)
    for neighbour in found:
        typer.echo(_line(neighbour))


def _load_embedder(model: str | None, device: str | None, precision: PrecisionName | None) -> ElmoEmbedder:
    name = find_named_model(model)
    return ElmoEmbedder.from_pretrained(name, device=find_device(device), **precision_options(name, precision))


def _load(opened: ElmoIndex, model: str | None, device: str | None, precision: PrecisionName | None) -> ElmoEmbedder:
    """The model that is named, or that of the index."""
    try:
        return _load_embedder(model or opened.model, device, precision)
    except ModelError as error:
        if model is not None:
            raise
        raise ModelError(f"The model of the index is not there, name it with --model: {error}") from error


def _line(neighbour: Neighbour) -> str:
    occurrence = neighbour.occurrence
    before, after = occurrence.sentence[: occurrence.start], occurrence.sentence[occurrence.end :]
    return f"{neighbour.similarity:.3f}  " + " ".join(f"{before}[{occurrence.word}]{after}".split())


class _Reading:
    """The sentences of files, and a bar that shows how far they are read and how fast they are embedded."""

    def __init__(self, texts: list[str]):
        self._sources = open_corpus(texts, ReadingOptions())
        self._bar: tqdm | None = None

    def __enter__(self) -> "_Reading":
        return self

    def __exit__(self, *error):
        if self._bar is not None:  # the last lines are embedded after they are read
            self._bar.close()

    def sentences(self) -> Iterator[Sentence]:
        sizes = [source.size for source in self._sources]
        total = None if None in sizes else sum(size for size in sizes if size is not None)
        self._bar = tqdm(total=total, desc="indexing", unit="B", unit_scale=True, smoothing=0, disable=None)
        for source in self._sources:
            for record in source.read(self._bar.update):
                if isinstance(record, TextError):
                    raise record
                yield record.text if record.words is None else record.words

    def count(self, sentences: int, tokens: int):
        if self._bar is not None:
            speed = tokens / max(self._bar.format_dict["elapsed"] or 0, 1e-9)
            self._bar.set_postfix_str(f"{speed:,.0f} tokens/s")


__all__ = ["index", "neighbors"]
