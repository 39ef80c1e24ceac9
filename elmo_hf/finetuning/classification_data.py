"""Texts, or pairs of texts, with a label: JSON lines, CSV, TSV, datasets."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import TextError
from ..records import dataset_rows, filled_rows, find_column, json_rows, kind_of, table_rows

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
    with_labels: bool = True,
) -> list[LabelledText]:
    """
    The texts of a file (`.jsonl`; `.csv` and `.tsv` with a line of names at the top) or a dataset.

    Args:
        split: Of a dataset.
        text_name, pair_name, label_name: Of columns. Default: names that are usual; a pair if there is one.
        with_labels: Whether there must be labels.
    """
    kind = kind_of(source)
    if kind == "dataset":
        rows = dataset_rows(source, split)
    elif kind == "jsonl":
        rows = json_rows(source)
    elif kind in ("csv", "tsv"):
        rows = table_rows(source, "," if kind == "csv" else "\t")
    else:
        raise TextError(f"{source}: the name should end in .jsonl, .csv or .tsv, and say what is inside.")
    found = list(_texts(filled_rows(rows), text_name, pair_name, label_name, with_labels))
    if not found:
        raise TextError(f"There is not a single text in {source}.")
    return found


def _texts(
    rows: Iterable[tuple[str, dict[str, Any]]],
    text_name: str | None,
    pair_name: str | None,
    label_name: str | None,
    with_labels: bool,
) -> Iterator[LabelledText]:
    for where, row in rows:
        names = text_name, pair_name
        if names == (None, None):
            names = next((usual for usual in PAIRS if usual[0] in row and usual[1] in row), names)
        text = _text(where, row[find_column(row, names[0], TEXT, where)])
        pair = None if names[1] is None else _text(where, row[find_column(row, names[1], (), where)])
        label = None
        if with_labels:
            label = _label(where, row[find_column(row, label_name, LABEL, where)])
        yield LabelledText(text, pair, label)


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
