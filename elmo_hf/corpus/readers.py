"""
Records of a corpus, streamed from text, CoNLL, JSON lines, CSV, TSV, Parquet, FASTA, datasets and standard input.

One line in, one record out: a blank line is an empty record. Of CoNLL a sentence is one, of FASTA a sequence.
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
COLUMNS = ("text", "sentence", "words", "tokens")  # names that are known
ROWS = 100  # of Parquet read at a time; a row may be a book

Kind = Literal["text", "conll", "conllu", "jsonl", "csv", "tsv", "parquet", "fasta"]
FASTA_COLUMNS = ("id", "description")  # the first one is always kept


class Record(NamedTuple):
    """
    What becomes one record of the output.

    Args:
        text: As it was given; words with blanks between them.
        words: `None` where the tokenizer is to find them.
        columns: What is kept beside the text, by the name of its column; plain values. `None` where nothing is.
    """

    text: str
    words: list[str] | None = None
    columns: dict[str, Any] | None = None


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
        keep_columns: Other columns to keep beside the text: their names (of CoNLL numbers, from 0; of CoNLL-U fields,
            as "upos"), or `ALL_COLUMNS`.
    """

    kind: Kind | None = None
    column: str | None = None
    split: str = "train"
    words: bool = False
    keep_columns: tuple[str, ...] = ()

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
            kept = None if self.keep_columns == ALL_COLUMNS else self._kept_numbers(name, kind)
            return Source(name, size, lambda report: _from_columns(name, column, kept, kind == "conllu", report))
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

    def _column_number(self, name: str) -> int:
        if self.column is None:
            return 0
        if not self.column.isdigit():
            raise TextError(f"{name} has columns by number, from 0, and none {self.column!r}.")
        return int(self.column)

    def _kept_numbers(self, name: str, kind: str) -> dict[str, int]:
        """The numbers of the columns of CoNLL to keep, by name."""
        if kind == "conllu":
            names = {field: number for number, field in enumerate(CONLLU_FIELDS)}
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
        return Record(text, split_words(text) if self.words else None)

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
        wanted = FASTA_COLUMNS if self.keep_columns == ALL_COLUMNS else ("id", *self.keep_columns)
        for found in fasta_records(name, report):
            if isinstance(found, TextError):
                yield found
            else:
                columns = {column: getattr(found, column) for column in FASTA_COLUMNS if column in wanted}
                yield Record(found.sequence, list(found.sequence), columns)

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
        chosen, *kept = self._choose(list(values), where)
        record = self._of_value(values[chosen], where)
        return record._replace(columns={name: _plain(values[name]) for name in kept}) if self.keep_columns else record

    def _choose(self, names: Sequence[str], where: str) -> list[str]:
        """The column of the text, and those to keep."""
        chosen = find_column(dict.fromkeys(names), self.column, COLUMNS, where)
        wanted = [name for name in names if name != chosen] if self.keep_columns == ALL_COLUMNS else self.keep_columns
        for name in wanted:
            find_column(dict.fromkeys(names), name, (), where)
            if name in OUTPUT_COLUMNS and name != chosen:
                raise TextError(f"{where}: the column {name!r} cannot be kept, as the output has one of this name.")
        return list(dict.fromkeys([chosen, *wanted]))

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
    """The value as JSON has it; dates, decimals and the like as text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return without_surrogates(value) if isinstance(value, str) else value
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return str(value)


def _from_columns(
    name: str, column: int, kept: dict[str, int] | None, conllu: bool, report: Report
) -> Iterator[Record | TextError]:
    """
    Args:
        kept: The numbers of further columns to keep, by name; `None` keeps all.
    """
    for sentence in column_sentences(name, conllu=conllu, report=report):
        yield sentence if isinstance(sentence, TextError) else _of_lines(sentence, column, kept, conllu)


def _of_lines(
    lines: Sequence[ColumnLine], column: int, kept: dict[str, int] | None, conllu: bool
) -> Record | TextError:
    where, first = lines[0]
    if kept is None:
        names = CONLLU_FIELDS if conllu else tuple(map(str, range(len(first))))
        kept = {name: number for number, name in enumerate(names) if number != column}
    for number in (column, *kept.values()):
        if number >= len(first):  # all lines have as many
            return TextError(f"{where}: there is no column {number} (from 0), only {counted(len(first), 'column')}.")
    values = {name: [columns[number] for _, columns in lines] for name, number in kept.items()}
    return _of_words([columns[column] for _, columns in lines])._replace(columns=values or None)


def _parquet_values(name: str, columns: list[str], report: Report) -> Iterator[dict[str, list]]:
    """Columns of a file, some rows at a time."""
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
    """The sources of a corpus, in order; what is plainly wrong with one of them is found before any is read."""
    if not sources:
        raise TextError("No text was given: name files, datasets, or - for standard input.")
    if list(sources).count(STANDARD_INPUT) > 1:
        raise TextError(f"{source_name(STANDARD_INPUT).capitalize()} can be read only once.")
    return [options.open(name) for name in sources]


__all__ = ["ALL_COLUMNS", "Kind", "ReadingOptions", "Record", "Source", "open_corpus"]
