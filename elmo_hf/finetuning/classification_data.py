"""Reads texts, or pairs of texts, with labels from JSON lines, CSV, TSV, sentiment trees and datasets."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from transformers.utils import logging

from ..data.sentiment_trees import sentiment_trees
from ..data.tables import Row, dataset_rows, find_column, json_rows, kind_of, numbered_lines, table_rows, without_errors
from ..errors import TextError, counted

logger = logging.get_logger(__name__)

# Usual names of columns.
TEXT = ("text", "sentence", "sentence1", "premise", "question")
PAIRS = [("text", "text_pair"), ("text", "pair"), ("sentence1", "sentence2"), ("premise", "hypothesis")]
PAIRS += [("question", "sentence"), ("question1", "question2")]
LABEL = ("label", "labels", "gold_label", "score")
# SNLI and MultiNLI have this in `gold_label` where the annotators did not agree.
GOLD_LABEL, NO_AGREEMENT = "gold_label", "-"

TREE = re.compile(r"\s*\([0-4]\s+\(")

Label = str | int | float | list[str]


class LabelledText(NamedTuple):
    """
    A text, or a pair of texts, and its label.

    Args:
        text, pair: The text, and the second text of a pair or `None`.
        label: A name or an id, several names, or a score; `None` if it is to be predicted.
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
    phrases: bool = False,
) -> list[LabelledText]:
    """
    Reads the texts of a file (`.jsonl`, `.csv`, `.tsv`; trees of the Stanford Sentiment Treebank) or a dataset. Either
    all texts have a pair or none has, and all labels are of one kind. Pairs of SNLI and MultiNLI whose `gold_label` is
    "-", because the annotators did not agree, are left out, with a warning that counts them.

    Args:
        source: A file, a folder or a name on the Hub.
        split: The split of a dataset.
        text_name, pair_name, label_name: The names of the columns. In CSV and TSV the first line holds the names.
            Default: usual names; a pair is read if there is one.
        text_column, pair_column, label_column: The indices of the columns in CSV and TSV files without a line of names,
            from 0, or from -1 backward.
        with_labels: Whether there must be labels. Otherwise a blank line is an empty text.
        phrases: Whether, in the split "train" of sentiment trees, every phrase is a text too. Other data have none.
    """
    kind = kind_of(source)
    if kind == "text" and _first_line(source).lstrip().startswith("("):
        return _read_trees(source, phrases and split == "train")
    if phrases and with_labels and split == "train":
        raise TextError(f"{source}: only the trees of the Stanford Sentiment Treebank have phrases: leave it out.")
    indices = text_column, pair_column, label_column
    has_names = indices == (None, None, None)
    columns = _Columns(text_name, pair_name, label_name) if has_names else _Columns(*indices)
    if kind == "dataset":
        rows: Iterable[Row | TextError] = dataset_rows(source, split)
    elif kind == "jsonl":
        rows = json_rows(source)
    elif kind in ("csv", "tsv"):
        columns = columns._replace(names_at=f"{source}, line 1" if has_names else None)
        rows = table_rows(source, "," if kind == "csv" else "\t", has_names=has_names)
        if not has_names:
            rows = _refuse_names(rows, columns)
    else:
        raise TextError(f"{source}: the name should end in .jsonl, .csv or .tsv, and say what is inside.")
    if not has_names and kind not in ("csv", "tsv"):
        raise TextError(f"{source}: only columns of .csv and .tsv have numbers: give names.")
    if not has_names and (text_column is None or (with_labels and label_column is None)):
        raise TextError(f"{source}: a file without names of columns needs the numbers of both text and label.")
    texts = list(_texts(rows, columns, with_labels))
    if not texts:
        raise TextError(f"There is not a single text in {source}.")
    return texts


def _refuse_names(rows: Iterable[Row | TextError], columns: "_Columns") -> Iterator[Row | TextError]:
    """Yields the rows of a table whose columns have numbers. Raises an error if the first row holds usual names."""
    usual = {"text": {*TEXT, *(text for text, _ in PAIRS)}, "pair": {pair for _, pair in PAIRS}, "label": {*LABEL}}
    for index, row in enumerate(rows):
        if index == 0 and isinstance(row, Row) and row.values is not None:
            values = list(row.values.values())
            for part, names in usual.items():
                column = getattr(columns, part)
                if isinstance(column, int) and -len(values) <= column < len(values):
                    name = values[column]
                    if name.strip().lower() in names:
                        raise TextError(
                            f"{row.where}: {name!r} is the name of a column: choose columns by name, not by number, or "
                            "remove the line."
                        )
        yield row


def are_trees(source: str) -> bool:
    """Whether the first line that is not blank begins as a sentiment tree of several words."""
    return TREE.match(_first_line(source)) is not None


def _first_line(source: str) -> str:
    """The first line that is not blank."""
    return next((line for _, line in islice(numbered_lines(source), 100) if line.strip()), "")


def _read_trees(source: str, with_phrases: bool) -> list[LabelledText]:
    texts: dict[LabelledText, None] = {}  # the same phrase with the same class counts once, as in the paper's model
    sentences = []
    for tree in without_errors(sentiment_trees(source)):
        sentences.append(LabelledText(" ".join(tree[0].words), None, tree[0].label))
        if with_phrases:
            texts |= dict.fromkeys(LabelledText(" ".join(words), None, label) for words, label in tree)
    return list(texts) if with_phrases else sentences


class _Columns(NamedTuple):
    """
    The columns to read.

    Args:
        text, pair, label: The given names or indices.
        names_at: The file and line that hold the names of a table, for messages.
    """

    text: str | int | None
    pair: str | int | None
    label: str | int | None
    names_at: str | None = None

    def value(self, row: dict[str, Any], column: str | int | None, usual: Sequence[str], where: str) -> Any:
        """The value of a row in a column."""
        if isinstance(column, int):
            if not -len(row) <= column < len(row):
                raise TextError(f"{where}: there is no column {column}, only {len(row)}, counted from 0.")
            return list(row.values())[column]
        try:
            return row[find_column(row, column, usual, self.names_at or where)]
        except TextError as error:
            if self.names_at is None:
                raise
            raise TextError(
                f"{error} If the file has no header line, give numbers: --column 0 --label-column 1."
            ) from error


def _texts(rows: Iterable[Row | TextError], columns: _Columns, with_labels: bool) -> Iterator[LabelledText]:
    first: tuple[str, LabelledText] | None = None
    without_agreement = 0
    for where, row in without_errors(rows):
        if row is None:
            if not with_labels:
                yield LabelledText("")
            continue
        example = _example(where, row, columns, with_labels)
        if example.label == NO_AGREEMENT and row.get(GOLD_LABEL) == NO_AGREEMENT:
            without_agreement += 1
            continue
        first = first or (where.rpartition(", ")[2], example)
        if (example.pair is None) != (first[1].pair is None):
            raise TextError(f"{where}: some texts have a pair and some have none; {first[0]} is different.")
        if _kind(example) != _kind(first[1]):
            raise TextError(f"{where}: the label is {_kind(example)}, and in {first[0]} it is {_kind(first[1])}.")
        yield example
    if without_agreement:
        pairs = counted(without_agreement, "text")
        logger.warning(f"{pairs} of {where.rpartition(', ')[0]} left out: the gold_label is {NO_AGREEMENT!r}.")


def _kind(example: LabelledText) -> str:
    """The kind of the label, for messages."""
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


__all__ = ["Label", "LabelledText", "are_trees", "read_labelled"]
