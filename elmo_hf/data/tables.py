"""
Reads rows of JSON lines, CSV, TSV and datasets, each with its file and line for messages.

A line that cannot be read is replaced by its error; the caller decides whether to stop there.
"""

import csv
import json
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..errors import TextError, counted, did_you_mean
from .text_sources import (
    LONGEST_LINE,
    STANDARD_INPUT,
    Report,
    is_saved_dataset,
    lines_or_errors,
    load_named_dataset,
    load_saved_dataset,
    may_be_dataset,
    source_name,
)

KINDS = {".conllu": "conllu", ".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
KINDS |= dict.fromkeys((".conll", ".bio", ".iob", ".iob2"), "conll")
KINDS |= dict.fromkeys((".fasta", ".faa", ".fas"), "fasta")  # `kind_of` looks into .fa, which may be text in Persian
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
LONGEST_FIELD = 1 << 20  # characters of a CSV field; a missing closing quote is noticed after this many

Item = TypeVar("Item")

NO_COLUMN = re.compile(r"[\t\n\r]|^\s*$")


class Row(NamedTuple):
    """
    A row of a table.

    Args:
        where: The file and line, or the dataset and row, for messages.
        values: The values by the names of their columns; `None` for a blank line.
    """

    where: str
    values: dict[str, Any] | None


def kind_of(source: str) -> str:
    """
    The kind of a source: "conllu", "conll", "jsonl", "csv", "tsv", "parquet", "fasta", "dataset", or "text" for any
    other name.
    """
    if source == STANDARD_INPUT:
        return "text"
    if os.path.isdir(source):
        if is_saved_dataset(source):
            return "dataset"
        raise TextError(f"{source} is a folder, but not a dataset that was saved with `save_to_disk`: name a file.")
    if not os.path.exists(source):
        if may_be_dataset(source):
            return "dataset"
        raise TextError(f"No such file or folder: {source}.")
    name, suffix = os.path.splitext(source.lower())
    if suffix in COMPRESSED:
        suffix = os.path.splitext(name)[1]
    if suffix == ".fa" and next((line for _, line in numbered_lines(source) if line.strip()), "").startswith(">"):
        return "fasta"
    return KINDS.get(suffix, "text")


# ---- lines and rows


def numbered_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a file, plain or compressed, with their numbers from 1 and without their line ends."""
    for line_number, line in lines_or_errors(source):
        if isinstance(line, TextError):
            raise line
        yield line_number, line


def refuse_broken_columns(words: Iterable[str]):
    """Raises an error for a word that a line of columns cannot hold."""
    for word in words:
        if NO_COLUMN.search(word):
            raise TextError(f"The word {word!r:.60} cannot stand in a column: write JSON lines with --format jsonl.")


def json_rows(source: str, report: Report = lambda _: None) -> Iterator[Row | TextError]:
    """Yields the objects of a JSON lines file."""
    for line_number, line in lines_or_errors(source, report):
        yield line if isinstance(line, TextError) else _json_row(line, f"{source_name(source)}, line {line_number}")


def _json_row(line: str, where: str) -> Row | TextError:
    if not line.strip():
        return Row(where, None)
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        return TextError(f"{where}: not JSON ({_json_problem(error)}).")
    if not isinstance(values, dict):
        return TextError(f"{where}: a JSON object should be here, found {line!r:.60}.")
    return Row(where, values)


def _json_problem(error: Exception) -> str:
    """What is wrong with a line of JSON, without the number of the line, which would always be 1."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return f"{error.msg.removesuffix(' starting at').removesuffix(' at')} at column {error.colno}"


def table_rows(
    source: str, delimiter: str, report: Report = lambda _: None, *, has_names: bool = True
) -> Iterator[Row | TextError]:
    """
    Yields the rows of a CSV (`","`) or TSV (`"\\t"`) file. The first line holds the names of the columns.

    Args:
        has_names: Whether there is a line of names. Otherwise the columns are named "0", "1" and so on.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))
    lines = _TableLines(source, report)
    # Quotes are special in CSV; in TSV they are ordinary characters.
    quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    names: list[str] | None = None
    while True:
        lines.begin_row()
        try:
            values = next(reader)
            if names is None and has_names:
                if not values:
                    raise TextError(f"{lines.where}: the names of the columns should be here, found a blank line.")
                names = values
            elif values:
                names = names or list(map(str, range(len(values))))
                yield _table_row(values, names, lines.where, has_names)
            else:
                yield Row(lines.where, None)
        except StopIteration:
            return
        except csv.Error as error:
            if names is None:
                raise TextError(f"{lines.where}: {error}.") from error
            yield TextError(f"{lines.where}: {error}.")
            lines.go_back()
        except TextError as error:
            if names is None:
                raise
            yield error


def _table_row(values: list[str], names: list[str], where: str, has_names: bool) -> Row:
    if len(values) != len(names):
        first = f"{counted(len(names), 'name')} at the top" if has_names else f"{len(names)} in the first line"
        raise TextError(f"{where}: {counted(len(values), 'column')}, but {first}.")
    return Row(where, dict(zip(names, values, strict=True)))


class _TableLines:
    """
    Lines for `csv.reader`. A stray quote can join many lines into one row before an error is raised; the lines after
    the first one are then read again.
    """

    def __init__(self, source: str, report: Report):
        self._name = source_name(source)
        self._lines = lines_or_errors(source, report)
        self._row: list[tuple[int, str | TextError]] = []
        self._size = 0  # characters of the row
        self._again: deque[tuple[int, str | TextError]] = deque()

    @property
    def where(self) -> str:
        """The first line of the row."""
        return f"{self._name}, line {self._row[0][0]}"

    def begin_row(self):
        self._row, self._size = [], 0

    def go_back(self):
        """Goes back to the second line of the row."""
        self._again.extendleft(reversed(self._row[1:]))

    def __iter__(self) -> "_TableLines":
        return self

    def __next__(self) -> str:
        line_number, line = self._again.popleft() if self._again else next(self._lines)
        self._row.append((line_number, line))
        if isinstance(line, TextError):
            if len(self._row) > 1:  # it is read again as a row of its own
                raise csv.Error("a quote that opens here is not closed before a line that is not text")
            raise line
        self._size += len(line)
        if self._size > LONGEST_LINE:
            raise TextError(
                f"{self.where}: a row of more than {LONGEST_LINE >> 20} MiB begins here: is a quote missing?"
            )
        return line + "\n"


def dataset_rows(source: str, split: str) -> Iterator[Row]:
    """Yields the rows of a dataset on disk or on the Hub. Labels are replaced by their names."""
    is_saved = os.path.isdir(source)
    dataset = load_saved_dataset(source, split) if is_saved else load_named_dataset(source, split, streaming=False)
    named = {name: _label_names(feature) for name, feature in dataset.features.items()}
    for index, row in enumerate(dataset):
        where = f"{source}, row {index}"
        yield Row(where, {name: _with_names(value, named[name], where) for name, value in row.items()})


def _label_names(feature: Any) -> Sequence[str] | None:
    """The names of a `ClassLabel`, or of a list of them."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _with_names(value: Any, names: Sequence[str] | None, where: str) -> Any:
    if names is None or value is None:
        return value
    if isinstance(value, list):
        return [_with_names(part, names, where) for part in value]
    if not 0 <= value < len(names):
        raise TextError(f"{where}: there is no label (it is {value}): name a split that has them.")
    return names[value]


# ---- errors and columns
def without_errors(items: Iterable[Item | TextError]) -> Iterator[Item]:
    """Yields the items, and raises the first error among them."""
    for item in items:
        if isinstance(item, TextError):
            raise item
        yield item


def find_column(row: Mapping[str, Any], column: str | None, usual: Sequence[str], where: str) -> str:
    """The name of the wanted column, or the first of the usual names that the row has."""
    for name in [column] if column is not None else usual:
        if name in row:
            return name
    expected = repr(column) if column is not None else " or ".join(map(repr, usual))
    suggestion = "" if column is None else did_you_mean(column, row)
    raise TextError(f"{where}: there is no {expected}{suggestion}, only {', '.join(map(repr, row)) or 'nothing'}.")


def refuse_empty_words(words: Iterable[str], where: str, column: str):
    """Raises an error if a word is empty. `where` and `column` are its place, for the message."""
    if not all(word.strip() for word in words):
        raise TextError(f"{where}: an empty word in {column}: correct it, or leave it out.")


__all__ = [
    "Row",
    "dataset_rows",
    "find_column",
    "json_rows",
    "kind_of",
    "numbered_lines",
    "refuse_broken_columns",
    "refuse_empty_words",
    "table_rows",
    "without_errors",
]
