"""
Streams the records of a corpus from text, CoNLL, JSON lines, CSV, TSV, Parquet, FASTA, datasets and standard input.

Each line is one record, and a blank line is an empty record. In CoNLL files each sentence is one record, in FASTA files
each sequence.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..data.conll import CONLLU_FIELDS, FORM, ColumnLine, column_sentences
from ..data.fasta import fasta_records
from ..data.tables import Row, find_column, json_rows, kind_of, table_rows
from ..data.text_sources import (
    STANDARD_INPUT,
    DatasetColumns,
    Report,
    lines_or_errors,
    load_named_dataset,
    load_saved_dataset,
    one_line_errors,
    source_name,
    split_words,
)
from ..errors import TextError, counted, did_you_mean
from ..modeling.encoding_elmo import without_surrogates
from ..runtime.extras import import_extra

ALL_COLUMNS = ("all",)  # as `keep_columns`
OUTPUT_COLUMNS = ("text", "words", "vectors")
COLUMNS = ("text", "sentence", "words", "tokens")  # usual names of the column with the text
ROWS = 100  # rows of Parquet read at a time; a row may be a whole book

Kind = Literal["text", "conll", "conllu", "jsonl", "csv", "tsv", "parquet", "fasta"]
FASTA_COLUMNS = ("id", "description")  # the first one is always kept


class Record(NamedTuple):
    """
    One record of the input, which becomes one record of the output.

    Args:
        text: The text as given, or the given words joined by blanks.
        words: The given words; `None` if the tokenizer splits the text.
        columns: The values of the kept columns by name, as plain values. `None` if no columns are kept.
    """

    text: str
    words: list[str] | None = None
    columns: dict[str, Any] | None = None


class Source(NamedTuple):
    """
    A source of records.

    Args:
        name: A file, a folder, a dataset, or "-" for standard input.
        size: The size in bytes; `None` if it is unknown.
        read: Yields the records, and the error in place of each bad line. It reports the bytes read, out of `size`.
    """

    name: str
    size: int | None
    read: Callable[[Report], Iterator[Record | TextError]]


@dataclass(frozen=True)
class ReadingOptions:
    """
    Options for reading a corpus.

    Args:
        kind: The format of the files. Default: by the endings of their names.
        column: The column with the texts or lists of words: a name in JSON lines, CSV, TSV, Parquet and datasets, an
            index (from 0) in CoNLL. Default: a column with a usual name; in CoNLL the first column.
        split: The split of a dataset.
        pretokenized: Whether the words of the texts are separated by blanks. Otherwise the tokenizer splits them.
        keep_columns: Other columns to keep beside the text: names (in CoNLL indices from 0, in CoNLL-U fields such as
            "upos"), or `ALL_COLUMNS`.
    """

    kind: Kind | None = None
    column: str | None = None
    split: str = "train"
    pretokenized: bool = False
    keep_columns: tuple[str, ...] = ()

    def open(self, name: str) -> Source:
        """Opens a file, a dataset on disk or on the Hub, or standard input. Errors may also come when it is read."""
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
            column = self._column_index(name) if kind == "conll" else FORM
            kept_columns = None if self.keep_columns == ALL_COLUMNS else self._kept_indices(name, kind)
            return Source(
                name, size, lambda report: _from_columns(name, column, kept_columns, kind == "conllu", report)
            )
        if kind == "text":
            if self.keep_columns:
                raise TextError(f"{source_name(name)} is text, which has no columns to keep.")
            return Source(name, size, lambda report: self._from_lines(name, report))
        if kind == "fasta":
            self._check_fasta_columns(name)
            return Source(name, size, lambda report: self._from_sequences(name, report))
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

    def _column_index(self, name: str) -> int:
        if self.column is None:
            return 0
        if not self.column.isdigit():
            raise TextError(f"{name} has columns by number, from 0, and none {self.column!r}.")
        return int(self.column)

    def _kept_indices(self, name: str, kind: str) -> dict[str, int]:
        """The indices of the CoNLL columns to keep, by name."""
        if kind == "conllu":
            names = {field: index for index, field in enumerate(CONLLU_FIELDS)}
        else:
            names = {column: int(column) for column in self.keep_columns if column.isdigit()}
        for column in self.keep_columns:
            if column not in names:
                there = ", ".join(CONLLU_FIELDS) if kind == "conllu" else "numbers, from 0"
                suggestion = did_you_mean(column, names)
                raise TextError(f"{name} has no column {column!r}{suggestion} to keep: its columns are {there}.")
        return {column: names[column] for column in self.keep_columns}

    # ---- lines

    def _from_lines(self, name: str, report: Report) -> Iterator[Record | TextError]:
        for _, line in lines_or_errors(name, report):
            yield line if isinstance(line, TextError) else self._of_text(line)

    def _of_text(self, text: str) -> Record:
        return Record(text, split_words(text) if self.pretokenized else None)

    # ---- sequences

    def _check_fasta_columns(self, name: str):
        for column in self.keep_columns if self.keep_columns != ALL_COLUMNS else ():
            if column not in FASTA_COLUMNS:
                suggestion = did_you_mean(column, FASTA_COLUMNS)
                raise TextError(
                    f"{name} has no column {column!r}{suggestion} to keep: choose from {', '.join(FASTA_COLUMNS)}."
                )

    def _from_sequences(self, name: str, report: Report) -> Iterator[Record | TextError]:
        """Every letter is a word."""
        names = FASTA_COLUMNS if self.keep_columns == ALL_COLUMNS else ("id", *self.keep_columns)
        for record in fasta_records(name, report):
            if isinstance(record, TextError):
                yield record
            else:
                columns = {column: getattr(record, column) for column in FASTA_COLUMNS if column in names}
                yield Record(record.sequence, list(record.sequence), columns)

    # ---- rows

    def _from_rows(self, rows: Iterable[Row | TextError]) -> Iterator[Record | TextError]:
        for row in rows:
            try:
                if isinstance(row, TextError):
                    raise row
                yield self._of_row(row.values, row.where)
            except TextError as error:
                yield error

    def _of_row(self, values: Mapping[str, Any] | None, where: str) -> Record:
        if values is None:  # a blank line
            return Record("", [], {} if self.keep_columns else None)
        chosen, *kept_names = self._choose(list(values), where)
        record = self._of_value(values[chosen], where)
        if not self.keep_columns:
            return record
        return record._replace(columns={name: _plain(values[name]) for name in kept_names})

    def _choose(self, names: Sequence[str], where: str) -> list[str]:
        """The column with the text, then the columns to keep."""
        try:
            chosen = find_column(dict.fromkeys(names), self.column, COLUMNS, where)
        except TextError as error:
            if self.column is not None:
                raise
            raise TextError(f"{error} Choose one of them with --column.") from error
        kept_names = (
            [name for name in names if name != chosen] if self.keep_columns == ALL_COLUMNS else self.keep_columns
        )
        for name in kept_names:
            find_column(dict.fromkeys(names), name, (), where)
            if name in OUTPUT_COLUMNS and name != chosen:
                raise TextError(f"{where}: the column {name!r} cannot be kept, as the output has one of this name.")
        return list(dict.fromkeys([chosen, *kept_names]))

    def _of_value(self, value: Any, where: str) -> Record:
        """The record of a text, a list of words, or a missing value."""
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
        columns = DatasetColumns(name, dataset, lambda names: self._choose(names, name))
        return Source(name, columns.size, lambda report: self._from_values(columns.read(report), name))

    def _parquet(self, name: str) -> Source:
        parquet = import_extra("pyarrow.parquet", "parquet")
        with one_line_errors(f"{name} cannot be read", Exception):
            size = os.path.getsize(name)
            with parquet.ParquetFile(name) as file:
                names = file.schema_arrow.names
        columns = self._choose(names, name)
        return Source(name, size, lambda report: self._from_values(_parquet_values(name, columns, report), name))

    def _from_values(self, batches: Iterable[dict[str, list]], name: str) -> Iterator[Record | TextError]:
        row = 0
        for columns in batches:
            for values in zip(*columns.values(), strict=True):
                try:
                    yield self._of_row(dict(zip(columns, values, strict=True)), f"{name}, row {row}")
                except TextError as error:
                    yield error
                row += 1


def _of_words(words: list[str]) -> Record:
    return Record(" ".join(words), words)


def _plain(value: Any) -> Any:
    """The value as JSON can represent it; dates, decimals and the like as text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return without_surrogates(value) if isinstance(value, str) else value
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return str(value)


def _from_columns(
    name: str, column: int, kept_columns: dict[str, int] | None, conllu: bool, report: Report
) -> Iterator[Record | TextError]:
    """
    Yields the sentences of a CoNLL file.

    Args:
        kept_columns: The indices of the columns to keep, by name; `None` keeps all of them.
    """
    for sentence in column_sentences(name, conllu=conllu, report=report):
        yield sentence if isinstance(sentence, TextError) else _of_lines(sentence, column, kept_columns, conllu)


def _of_lines(
    lines: Sequence[ColumnLine], column: int, kept_columns: dict[str, int] | None, conllu: bool
) -> Record | TextError:
    where, first = lines[0]
    if kept_columns is None:
        names = CONLLU_FIELDS if conllu else tuple(map(str, range(len(first))))
        kept_columns = {name: index for index, name in enumerate(names) if index != column}
    for index in (column, *kept_columns.values()):
        if index >= len(first):  # all lines have the same number of columns
            return TextError(f"{where}: there is no column {index} (from 0), only {counted(len(first), 'column')}.")
    values = {name: [columns[index] for _, columns in lines] for name, index in kept_columns.items()}
    return _of_words([columns[column] for _, columns in lines])._replace(columns=values or None)


def _parquet_values(name: str, columns: list[str], report: Report) -> Iterator[dict[str, list]]:
    """Yields columns of a Parquet file, `ROWS` rows at a time."""
    parquet = import_extra("pyarrow.parquet", "parquet")
    reading = f"{name} cannot be read"
    with one_line_errors(reading, Exception):
        size = os.path.getsize(name)
        file = parquet.ParquetFile(name)
    with file:
        rows, batches, done = file.metadata.num_rows, file.iter_batches(ROWS, columns=columns), 0
        while True:
            with one_line_errors(reading, Exception):
                batch = next(batches, None)
            if batch is None:
                return
            report((done + len(batch)) * size // rows - done * size // rows)
            done += len(batch)
            yield {column: batch.column(column).to_pylist() for column in columns}


def open_corpus(sources: Sequence[str], options: ReadingOptions) -> list[Source]:
    """Opens the sources of a corpus, in order. Obvious errors in any of them are raised before the first is read."""
    if not sources:
        raise TextError("No text was given: name files, datasets, or - for standard input.")
    if list(sources).count(STANDARD_INPUT) > 1:
        raise TextError(f"{source_name(STANDARD_INPUT).capitalize()} can be read only once.")
    return [options.open(name) for name in sources]


__all__ = ["ALL_COLUMNS", "Kind", "ReadingOptions", "Record", "Source", "open_corpus"]
