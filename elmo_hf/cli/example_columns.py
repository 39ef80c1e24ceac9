"""
Which columns of the examples hold words, tags, texts and labels: options that take a name or a number, as
[`read_tagged`] and [`read_labelled`] take them.
"""

import re
from typing import Any

import typer

from ..data.conll import CONLLU_FIELDS
from ..data.tables import kind_of
from ..errors import did_you_mean

NUMBER = re.compile(r"-?\d+")
NAMED = ("jsonl", "dataset")  # kinds of sources whose columns have names


def tagging_columns(train: str | None, column: str | None, tag_column: str | None) -> dict[str, Any]:
    """
    The options of [`read_tagged`].

    Args:
        train: The training data, whose columns have names or numbers.
        column, tag_column: Name or number of the columns with the words and the tags.
    """
    options: dict[str, Any] = {
        "field": "upos",
        "word_column": 0,
        "tag_column": -1,
        "words_name": None,
        "tags_name": None,
    }
    if train is not None and not (column is None and tag_column is None):
        options |= _tagging_columns(train, kind_of(train), column, tag_column)
    return options


def _tagging_columns(train: str, kind: str, column: str | None, tag_column: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if column is not None:
        if kind == "conllu":
            raise typer.BadParameter("the words of CoNLL-U are in the field form: leave it out.", param_hint="--column")
        if kind in NAMED:
            options["words_name"] = column
        else:
            options["word_column"] = _number(column, "--column", train)
    if tag_column is not None:
        if kind == "conllu":
            if tag_column not in CONLLU_FIELDS:
                raise typer.BadParameter(
                    f"CoNLL-U has no field {tag_column!r}{did_you_mean(tag_column, CONLLU_FIELDS)}: choose one of "
                    f"{', '.join(CONLLU_FIELDS)}.",
                    param_hint="--tag-column",
                )
            options["field"] = tag_column
        elif kind in NAMED:
            options["tags_name"] = tag_column
        else:
            options["tag_column"] = _number(tag_column, "--tag-column", train)
    return options


def classification_columns(
    train: str | None, column: str | None, pair_column: str | None, label_column: str | None
) -> dict[str, Any]:
    """
    The options of [`read_labelled`].

    Args:
        train: The training data. Columns of CSV and TSV without a header line have numbers, all others names.
        column, pair_column, label_column: Name or number of the columns with the text, the second text of a pair, and
            the label.
    """
    columns = {"text": column, "pair": pair_column, "label": label_column}
    options: dict[str, Any] = {f"{part}_{form}": None for form in ("name", "column") for part in columns}
    has_numbers = train is not None and any(columns.values()) and kind_of(train) in ("csv", "tsv")
    numbers = {part: value for part, value in columns.items() if value and has_numbers and NUMBER.fullmatch(value)}
    names = {part: value for part, value in columns.items() if value is not None and part not in numbers}
    if numbers and names:
        raise typer.BadParameter(
            f"give names of columns, or numbers for a file without a header line, not both: found "
            f"{', '.join(repr(value) for value in (numbers | names).values())}.",
            param_hint="--column",
        )
    options |= {f"{part}_column": int(value) for part, value in numbers.items()}
    options |= {f"{part}_name": value for part, value in names.items()}
    return options


def _number(value: str, option: str, train: str) -> int:
    if not NUMBER.fullmatch(value):
        raise typer.BadParameter(
            f"the columns of {train} have no names: give a number, counted from 0, found {value!r}.", param_hint=option
        )
    return int(value)


__all__ = ["classification_columns", "tagging_columns"]
