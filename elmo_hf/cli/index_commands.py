"""`elmo-hf index` and `elmo-hf neighbors`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..data.tables import kind_of
from ..errors import ModelError, TextError, counted
from ..runtime.extras import require
from .parameters import (
    FILES,
    Column,
    Device,
    HowMany,
    Model,
    NewFolder,
    Precision,
    Split,
    bad_parameters,
    load_embedder,
    parse_layer,
    quiet_transformers,
    refuse_unused_column_and_split,
)

if TYPE_CHECKING:
    from ..data.sentences import Sentence
    from ..embedding import ElmoEmbedder
    from ..index import ElmoIndex, Neighbour
    from ..runtime.precisions import Precision as PrecisionName


def index(
    context: typer.Context,
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT", help=FILES, show_default=False)],
    out: NewFolder,
    model: Model = None,
    layers: Annotated[
        str, typer.Option(metavar="mix|top|average|N", help="Layer to take the vectors from; 0 is the token layer.")
    ] = "mix",
    words: Annotated[
        str | None,
        typer.Option(metavar="WORD,WORD,...", help="Index only these words, in any case.", show_default=False),
    ] = None,
    dtype: Annotated[Literal["float16", "float32"], typer.Option(help="Data type of the stored vectors.")] = "float16",
    approximate: Annotated[
        bool | None,
        typer.Option(
            "--approximate/--exact",
            help="Whether to build a graph, which is searched in milliseconds and finds nearly all neighbours. "
            "Default: build it for more than a million words, if usearch is installed.",
            show_default=False,
        ),
    ] = None,
    column: Column = None,
    split: Split = "train",
    device: Device = None,
    precision: Precision = None,
):
    """
    Index the words of a text by their vectors.

    `elmo-hf neighbors` searches the index.

    Example: elmo-hf index corpus/*.txt.gz --out my-index
    """
    if approximate:
        require("approximate index")
    from ..index import ElmoIndex

    quiet_transformers()
    refuse_unused_column_and_split(context, map(kind_of, inputs))
    reading = _Reading(inputs, column, split)  # a file that does not exist is reported before the model is loaded
    embedder = load_embedder(model, device, precision)
    with reading, bad_parameters():
        built = ElmoIndex.build(
            embedder,
            reading.sentences(),
            out,
            layers=parse_layer(layers),
            words=None if words is None else [word.strip() for word in words.split(",") if word.strip()],
            dtype=dtype,
            approximate=approximate,
            progress=reading.count,
        )
    size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    where = counted(built.sentences, "sentence")
    typer.echo(f"{out}: {counted(len(built), 'occurrence')} in {where}, {size:,.1f} MB")


def neighbors(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of an index.", show_default=False)],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help='A sentence with one word marked: "they sat on the **bank**".', show_default=False
        ),
    ],
    k: HowMany = 10,
    same_word: Annotated[bool, typer.Option("--same-word", help="Only occurrences of the marked word.")] = False,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Print only the nearest occurrence of each word.")
    ] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Compare with all words, even if there is a graph.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="Model folder, or name on the Hub. Default: the model of the index.", show_default=False
        ),
    ] = None,
    device: Device = None,
    precision: Precision = None,
):
    """
    Print the words most similar to a word in context.

    Each word of the index is printed with its sentence, and preceded by the cosine.

    Example: elmo-hf neighbors my-index "they sat on the **bank** and watched the boats"
    """
    from ..index import ElmoIndex

    quiet_transformers()
    opened = ElmoIndex.load(folder)
    if not (model or opened.model):
        raise typer.BadParameter("the index was built with a model that has no name.", param_hint="--model")
    with bad_parameters():
        embedder = _load(opened, model, device, precision)
        nearest = embedder.neighbors(text, opened, k, same_word=same_word, distinct=distinct, exact=exact or None)
    for neighbour in nearest:
        typer.echo(_line(neighbour))


def _load(
    opened: "ElmoIndex", model: str | None, device: str | None, precision: "PrecisionName | None"
) -> "ElmoEmbedder":
    """The model that is named, or that of the index."""
    from ..runtime.model_loading import find_device

    find_device(device)
    try:
        return load_embedder(model or opened.model, device, precision)
    except ModelError as error:
        if model is not None:
            raise
        raise ModelError(f"The model of the index cannot be loaded: name it with --model. {error}") from error


def _line(neighbour: "Neighbour") -> str:
    occurrence = neighbour.occurrence
    before, after = occurrence.sentence[: occurrence.start], occurrence.sentence[occurrence.end :]
    return f"{neighbour.similarity:.3f}  " + " ".join(f"{before}[{occurrence.word}]{after}".split())


class _Reading:
    """The sentences of files, and a bar that shows how much of them is read and how fast they are embedded."""

    def __init__(self, inputs: list[str], column: str | None, split: str):
        from ..corpus.readers import ReadingOptions, open_corpus

        self._sources = open_corpus(inputs, ReadingOptions(column=column, split=split))
        self._bar: Any = None

    def __enter__(self) -> "_Reading":
        return self

    def __exit__(self, *error):
        if self._bar is not None:  # the last lines are embedded after they are read
            self._bar.close()

    def sentences(self) -> "Iterator[Sentence]":
        from tqdm import tqdm

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
