"""
Records of a corpus, streamed from text, CoNLL, JSON lines, CSV, TSV, Parquet, datasets and standard input.

One line in, one record out: a blank line is an empty record. Of CoNLL a sentence is one.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..conll import FORM, ColumnLine, column_sentences
from ..errors import TextError
from ..extras import import_extra
from ..records import Row, find_column, json_rows, kind_of, table_rows
from ..text_inputs_elmo import without_surrogates
from ..text_sources import (
    STANDARD_INPUT,
    DatasetColumn,
    Report,
    lines_or_errors,
    load_named_dataset,
    load_saved_dataset,
    one_line_errors,
    source_name,
    split_words,
)

COLUMNS = ("text", "sentence", "words", "tokens")  # names that are known
ROWS = 100  # of Parquet read at a time; a row may be a book

Kind = Literal["text", "conll", "conllu", "jsonl", "csv", "tsv", "parquet"]


class Record(NamedTuple):
    """
    What becomes one record of the output.

    Args:
        text: As it was given; words with blanks between them.
        words: `None` where the tokenizer is to find them.
    """

    text: str
    words: list[str] | None = None


class Source(NamedTuple):
    """
    Args:
        name: A file, a folder, a dataset, or "-".
        size: Bytes, where they are known.
        read: Gives the records, and in the place of a bad line its error; it reports the bytes of `size` that it read.
    """

    name: str
    size: int | None
    read: Callable[[Report], Iterator[Record | TextError]]


@dataclass(frozen=True)
class ReadingOptions:
    """
    How a corpus is read.

    Args:
        kind: What is in the files. Default: what their names say.
        column: Of JSON lines, CSV, TSV, Parquet and datasets, by name; it holds texts or lists of words. Of CoNLL, by
            number, from 0. Default: one whose name is usual; the first of CoNLL.
        split: Of datasets.
        words: Whether the words of a text are what blanks separate. Else the tokenizer finds them.
    """

    kind: Kind | None = None
    column: str | None = None
    split: str = "train"
    words: bool = False

    def open(self, name: str) -> Source:
        """A file, a dataset on disk or on the Hub, or standard input; what cannot be read is refused here, or later."""
        kind = self._kind(name)
        if kind == "dataset":
            return self._dataset(name)
        if kind == "parquet":
            return self._parquet(name)
        size = None
        if name != STANDARD_INPUT:
            with one_line_errors(f"{name} cannot be read", OSError):
                size = os.path.getsize(name)
        if kind in ("conll", "conllu"):
            column = self._column_number(name) if kind == "conll" else FORM
            return Source(name, size, lambda report: _from_columns(name, column, kind == "conllu", report))
        if kind == "text":
            return Source(name, size, lambda report: self._from_lines(name, report))
        if kind == "jsonl":
            return Source(name, size, lambda report: self._from_rows(json_rows(name, report)))
        delimiter = "," if kind == "csv" else "\t"
        return Source(name, size, lambda report: self._from_rows(table_rows(name, delimiter, report)))

    def _kind(self, name: str) -> str:
        kind = kind_of(name)
        if self.kind is not None and kind != "dataset":
            kind = self.kind
        if kind == "parquet" and name == STANDARD_INPUT:
            raise TextError("Parquet cannot be read from standard input: its index is at the end. Name a file.")
        return kind

    def _column_number(self, name: str) -> int:
        if self.column is None:
            return 0
        if not self.column.isdigit():
            raise TextError(f"{name} has columns by number, from 0, and none {self.column!r}.")
        return int(self.column)

    # ---- lines

    def _from_lines(self, name: str, report: Report) -> Iterator[Record | TextError]:
        for _, line in lines_or_errors(name, report):
            yield line if isinstance(line, TextError) else self._of_text(line)

    def _of_text(self, text: str) -> Record:
        return Record(text, split_words(text) if self.words else None)

    # ---- rows

    def _from_rows(self, rows: Iterable[Row | TextError]) -> Iterator[Record | TextError]:
        for row in rows:
            try:
                if isinstance(row, TextError):
                    raise row
                yield self._of_value(self._choose(row.values, row.where), row.where)
            except TextError as error:
                yield error

    def _choose(self, values: Mapping[str, Any] | None, where: str) -> Any:
        return None if values is None else values[find_column(values, self.column, COLUMNS, where)]

    def _of_value(self, value: Any, where: str) -> Record:
        """A text, a list of words, or nothing."""
        if value is None:
            return Record("", [])
        if isinstance(value, str):
            return self._of_text(without_surrogates(value))
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return _of_words([without_surrogates(word) for word in value])
        raise TextError(f"{where}: a text or a list of words should be here, found {value!r:.60}.")

    # ---- columns

    def _dataset(self, name: str) -> Source:
        if os.path.isdir(name):
            dataset = load_saved_dataset(name, self.split)
        else:
            dataset = load_named_dataset(name, self.split, streaming=True)
        column = DatasetColumn(name, dataset, lambda names: self._find(names, name))
        return Source(name, column.size, lambda report: self._from_values(column.read(report), name))

    def _parquet(self, name: str) -> Source:
        parquet = import_extra("pyarrow.parquet", "parquet")
        with one_line_errors(f"{name} cannot be read", Exception):
            size = os.path.getsize(name)
            with parquet.ParquetFile(name) as file:
                names = file.schema_arrow.names
        column = self._find(names, name)
        return Source(name, size, lambda report: self._from_values(_parquet_values(name, column, report), name))

    def _find(self, names: Sequence[str], where: str) -> str:
        return find_column(dict.fromkeys(names), self.column, COLUMNS, where)

    def _from_values(self, batches: Iterable[Sequence[Any]], name: str) -> Iterator[Record | TextError]:
        row = 0
        for values in batches:
            for value in values:
                try:
                    yield self._of_value(value, f"{name}, row {row}")
                except TextError as error:
                    yield error
                row += 1


def _of_words(words: list[str]) -> Record:
    return Record(" ".join(words), words)


def _from_columns(name: str, column: int, conllu: bool, report: Report) -> Iterator[Record | TextError]:
    for sentence in column_sentences(name, conllu=conllu, report=report):
        yield sentence if isinstance(sentence, TextError) else _of_lines(sentence, column)


def _of_lines(lines: Sequence[ColumnLine], column: int) -> Record | TextError:
    where, first = lines[0]
    if column >= len(first):  # all lines have as many
        return TextError(f"{where}: there is no column {column} (from 0), only {len(first)} columns.")
    return _of_words([columns[column] for _, columns in lines])


def _parquet_values(name: str, column: str, report: Report) -> Iterator[list[Any]]:
    """A column of a file, many rows at a time."""
    parquet = import_extra("pyarrow.parquet", "parquet")
    reading = f"{name} cannot be read"
    with one_line_errors(reading, Exception):
        size = os.path.getsize(name)
        file = parquet.ParquetFile(name)
    with file:
        rows, batches, done = file.metadata.num_rows, file.iter_batches(ROWS, columns=[column]), 0
        while True:
            with one_line_errors(reading, Exception):
                batch = next(batches, None)
            if batch is None:
                return
            report((done + len(batch)) * size // rows - done * size // rows)
            done += len(batch)
            yield batch.column(0).to_pylist()


def open_corpus(sources: Sequence[str], options: ReadingOptions) -> list[Source]:
    """The sources of a corpus, in order; what is plainly wrong with one of them is found before any is read."""
    if not sources:
        raise TextError("No text was given: name files, datasets, or - for standard input.")
    if list(sources).count(STANDARD_INPUT) > 1:
        raise TextError(f"{source_name(STANDARD_INPUT).capitalize()} can be read only once.")
    return [options.open(name) for name in sources]


__all__ = ["Kind", "ReadingOptions", "Record", "Source", "open_corpus"]
