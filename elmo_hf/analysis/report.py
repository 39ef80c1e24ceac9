"""Results as text for a terminal, and as JSON."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.staging import write_atomically


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """
    A table in plain text. The first column is left-aligned, all others are right-aligned.

    Args:
        notes: Sentences after the table, one per line.
    """
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    shown = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*shown, *([""] if notes else []), *notes])


def per_cent(share: float) -> str:
    """`93.5` for 0.935; a dash for `nan`."""
    return "-" if math.isnan(share) else f"{100 * share:.1f}"


def mean_and_range(values: Sequence[float] | np.ndarray) -> str:
    """The mean in per cent; if there are several values, also the smallest and the largest."""
    values = np.asarray(values)
    if len(values) == 1 or np.isnan(values).all():
        return per_cent(float(values[0]))
    return f"{per_cent(float(values.mean()))} ({per_cent(float(values.min()))}–{per_cent(float(values.max()))})"


def as_plain(value: Any) -> Any:
    """Converts a result to JSON values: dataclasses to objects, arrays to lists, and `nan` to `null`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field for field in dataclasses.fields(value) if field.metadata.get("json", True)]
        return {field.name: as_plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(name): as_plain(part) for name, part in value.items()}
    if hasattr(value, "_asdict"):
        return as_plain(value._asdict())
    if isinstance(value, (np.ndarray, np.generic)):
        return as_plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [as_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: str | PathLike, result: Any):
    """Writes a result to a file atomically."""
    write_atomically(Path(path), json.dumps(as_plain(result), indent=2, ensure_ascii=False) + "\n")


__all__ = ["as_plain", "mean_and_range", "per_cent", "text_table", "write_json"]
