"""What the readers of task data share: lines with their numbers, rows of JSON lines and datasets, names of columns."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import TextError
from ..text_sources import is_saved_dataset, load_named_dataset, load_saved_dataset, may_be_dataset, read_lines

KINDS = {".conllu": "conllu", ".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"}
KINDS |= {".conll": "columns", ".bio": "columns", ".iob": "columns", ".iob2": "columns"}
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")


def kind_of(source: str) -> str:
    """ "conllu", "jsonl", "csv", "tsv", "columns", "dataset", or "text" where a file's name does not tell."""
    if os.path.isdir(source):
        if is_saved_dataset(source):
            return "dataset"
        raise TextError(f"{source} is a folder, and no dataset that was saved with `save_to_disk`: name a file.")
    if not os.path.exists(source):
        if may_be_dataset(source):
            return "dataset"
        raise TextError(f"No such file or folder: {source}.")
    name, suffix = os.path.splitext(source.lower())
    if suffix in COMPRESSED:
        suffix = os.path.splitext(name)[1]
    return KINDS.get(suffix, "text")


def numbered_lines(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a file, plain or compressed, counted from 1, without their ends."""
    number = 0
    for lines in read_lines(source, lambda _: None):
        for line in lines:
            number += 1
            yield number, line.rstrip("\r")


def json_rows(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of JSON lines, and where each of them is."""
    for number, line in numbered_lines(source):
        if line.strip():
            where = f"{source}, line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise TextError(f"{where}: no JSON ({error}).") from error
            if not isinstance(row, dict):
                raise TextError(f"{where}: a JSON object should be here, found {line!r:.60}.")
            yield where, row


def dataset_rows(source: str, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a dataset on disk or on the Hub, and where each of them is; labels as their names."""
    is_saved = os.path.isdir(source)
    dataset = load_saved_dataset(source, split) if is_saved else load_named_dataset(source, split, streaming=False)
    named = {name: _label_names(feature) for name, feature in dataset.features.items()}
    for number, row in enumerate(dataset):
        where = f"{source}, row {number}"
        yield where, {name: _with_names(value, named[name], where) for name, value in row.items()}


def _label_names(feature: Any) -> Sequence[str] | None:
    """Of a `ClassLabel`, or a list of them."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _with_names(value: Any, names: Sequence[str] | None, where: str) -> Any:
    if names is None or value is None:
        return value
    if isinstance(value, list):
        return [_with_names(part, names, where) for part in value]
    if not 0 <= value < len(names):
        raise TextError(f"{where}: there is no label (it is {value}): name a split that has them.")
    return names[value]


def find_column(row: Mapping[str, Any], wanted: str | None, usual: Sequence[str], where: str) -> str:
    """The name of a column that is wanted, or the first usual one that is there."""
    for name in [wanted] if wanted is not None else usual:
        if name in row:
            return name
    expected = repr(wanted) if wanted is not None else " or ".join(map(repr, usual))
    raise TextError(f"{where}: there is no {expected}, only {', '.join(map(repr, row)) or 'nothing'}.")


__all__ = ["dataset_rows", "find_column", "json_rows", "kind_of", "numbered_lines"]
