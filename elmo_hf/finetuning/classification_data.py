"""Texts, or pairs of texts, with a label: JSON lines, CSV, TSV, datasets."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..data.tables import Row, dataset_rows, find_column, json_rows, kind_of, table_rows, without_errors
from ..errors import TextError

# Names of columns that are known.
TEXT = ("text", "sentence", "sentence1", "premise", "question")
PAIRS = [("text", "text_pair"), ("text", "pair"), ("sentence1", "sentence2"), ("premise", "hypothesis")]
PAIRS += [("question", "sentence"), ("question1", "question2")]
LABEL = ("label", "labels", "score")

Label = str | int | float | list[str]


class LabelledText(NamedTuple):
    """
    Args:
        text, pair: What is classified; no pair: `None`.
        label: A name or its number, several names, or a score; `None` where it is to be found.
    """

    text: str
    pair: str | None = None
    label: Label | None = None


def read_labelled(
    source: str,
    *,
    split: str = "train",
    text_name: str | None = None,
    pair_name: str | None = None,
    label_name: str | None = None,
    text_column: int | None = None,
    pair_column: int | None = None,
    label_column: int | None = None,
    with_labels: bool = True,
) -> list[LabelledText]:
    """
    The texts of a file (`.jsonl`, `.csv`, `.tsv`) or a dataset. All have a pair or none, and labels of one kind.

    Args:
        split: Of a dataset.
        text_name, pair_name, label_name: Of columns; in CSV and TSV they are the first line. Default: names that are
            usual; a pair if there is one.
        text_column, pair_column, label_column: Of CSV and TSV without a line of names, counted from 0, or from -1 at
            the end.
        with_labels: Whether there must be labels. Where they are to be found, a blank line is an empty text.
    """
    kind = kind_of(source)
    numbers = text_column, pair_column, label_column
    has_names = numbers == (None, None, None)
    columns = _Columns(text_name, pair_name, label_name) if has_names else _Columns(*numbers)
    if kind == "dataset":
        rows: Iterable[Row | TextError] = dataset_rows(source, split)
    elif kind == "jsonl":
        rows = json_rows(source)
    elif kind in ("csv", "tsv"):
        columns = columns._replace(names_at=f"{source}, line 1" if has_names else None)
        rows = table_rows(source, "," if kind == "csv" else "\t", has_names=has_names)
    else:
        raise TextError(f"{source}: the name should end in .jsonl, .csv or .tsv, and say what is inside.")
    if not has_names and kind not in ("csv", "tsv"):
        raise TextError(f"{source}: only columns of .csv and .tsv have numbers: give names.")
    if not has_names and (text_column is None or (with_labels and label_column is None)):
        raise TextError(f"{source}: a file without names of columns needs the numbers of both text and label.")
    found = list(_texts(rows, columns, with_labels))
    if not found:
        raise TextError(f"There is not a single text in {source}.")
    return found


class _Columns(NamedTuple):
    """
    Args:
        text, pair, label: Names or numbers that were given.
        names_at: File and line where a table has its names.
    """

    text: str | int | None
    pair: str | int | None
    label: str | int | None
    names_at: str | None = None

    def value(self, row: dict[str, Any], wanted: str | int | None, usual: Sequence[str], where: str) -> Any:
        """What a row has in a column."""
        if isinstance(wanted, int):
            if not -len(row) <= wanted < len(row):
                raise TextError(f"{where}: there is no column {wanted}, only {len(row)}, counted from 0.")
            return list(row.values())[wanted]
        try:
            return row[find_column(row, wanted, usual, self.names_at or where)]
        except TextError as error:
            if self.names_at is None:
                raise
            raise TextError(
                f"{error} If the file has no header line, give numbers: --column 0 --label-column 1."
            ) from error


def _texts(rows: Iterable[Row | TextError], columns: _Columns, with_labels: bool) -> Iterator[LabelledText]:
    first: tuple[str, LabelledText] | None = None
    for where, row in without_errors(rows):
        if row is None:
            if not with_labels:
                yield LabelledText("")
            continue
        example = _example(where, row, columns, with_labels)
        first = first or (where.rpartition(", ")[2], example)
        if (example.pair is None) != (first[1].pair is None):
            raise TextError(f"{where}: some texts have a pair and some have none; {first[0]} is different.")
        if _kind(example) != _kind(first[1]):
            raise TextError(f"{where}: the label is {_kind(example)}, and in {first[0]} it is {_kind(first[1])}.")
        yield example


def _kind(example: LabelledText) -> str:
    """Of the label."""
    if isinstance(example.label, list):
        return "a list"
    return "a text" if isinstance(example.label, str) else "a number"


def _example(where: str, row: dict[str, Any], columns: _Columns, with_labels: bool) -> LabelledText:
    names: tuple[str | int | None, str | int | None] = columns.text, columns.pair
    if names == (None, None):
        names = next((usual for usual in PAIRS if usual[0] in row and usual[1] in row), names)
    text = _text(where, columns.value(row, names[0], TEXT, where))
    pair = None if names[1] is None else _text(where, columns.value(row, names[1], (), where))
    label = _label(where, columns.value(row, columns.label, LABEL, where)) if with_labels else None
    return LabelledText(text, pair, label)


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TextError(f"{where}: a text should be here, found {value!r:.60}.")
    return value


def _label(where: str, value: Any) -> Label:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return value
    if isinstance(value, bool) or value is None or value == "" or isinstance(value, (list, dict)):
        raise TextError(f"{where}: a label should be here, found {value!r:.60}.")
    return value


__all__ = ["Label", "LabelledText", "read_labelled"]
