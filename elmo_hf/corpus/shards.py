"""
Shards: files that hold the vectors of a few records each. They are written atomically.

A shard is a safetensors file of three tensors: `lengths` (records,), the number of words of each record; `vectors`
(words, size) or (words, layers, size), one record after the other, and for pooled vectors (records, ...); and
`records`, UTF-8 text with one JSON object per line, which has `text` and `words`.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import ModelError
from .readers import Record

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}  # with their names in safetensors
NUMPY_DTYPES = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2"), "bfloat16": np.dtype("<u2")}  # bf16 as bits
ALIGNMENT = 8  # bytes
ENDING = ".safetensors"


@dataclass(frozen=True)
class Layout:
    """
    The layout of the vectors of a corpus.

    Args:
        size: The size of a vector.
        layers: The number of layers; `None` for one vector per word, without a dimension for layers.
        pooled: Whether there is one vector per record instead of one per word.
        dtype: "float32", "float16" or "bfloat16".
    """

    size: int
    layers: int | None = None
    pooled: bool = False
    dtype: str = "float32"

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a row: what a word, or a pooled record, has. `(size,)` or `(layers, size)`."""
        return (self.size,) if self.layers is None else (self.layers, self.size)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return int(np.prod(self.row)) * NUMPY_DTYPES[self.dtype].itemsize

    def rows(self, lengths: np.ndarray) -> np.ndarray:
        """The number of rows of each record, `(records,)`, from its number of words."""
        return np.ones_like(lengths) if self.pooled else lengths

    def stored(self, layers: Sequence[np.ndarray]) -> np.ndarray:
        """Converts a record's vectors, `(words, size)` or `(size,)` per layer, to the stored form, `(rows, *row)`."""
        if self.pooled:
            layers = [layer[None] for layer in layers]
        vectors = layers[0] if self.layers is None else np.stack(layers, axis=1)
        if self.dtype == "bfloat16":
            return torch.from_numpy(np.ascontiguousarray(vectors)).to(torch.bfloat16).view(torch.uint16).numpy()
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(vectors, dtype=NUMPY_DTYPES[self.dtype])
        if self.dtype == "float16" and not np.isfinite(stored).all():
            raise ModelError("A vector of this model is too large for float16: use --dtype bfloat16 or float32.")
        return stored

    def as_embedded(self, stored: np.ndarray) -> np.ndarray:
        """The inverse of [`stored`], except for the precision."""
        if self.pooled:
            return stored[0]
        return stored if self.layers is None else stored.transpose(1, 0, 2)


class EmbeddedRecord(NamedTuple):
    """
    A record of the output, without its vectors.

    Args:
        text: The text as given.
        words: The words that have vectors.
        columns: The values of the kept columns by name; `None` if no columns are kept.
    """

    text: str
    words: list[str]
    columns: dict[str, Any] | None = None

    def to_json(self) -> str:
        """One line of JSON. It has `columns` only if columns are kept."""
        return json.dumps({name: value for name, value in self._asdict().items() if value is not None}) + "\n"


def digest(records: Iterable[Record]) -> str:
    """A digest of records, which a shard stores to recognise its input."""
    sha256 = hashlib.sha256()
    for record in records:
        sha256.update(json.dumps(record).encode() + b"\n")
    return sha256.hexdigest()


def write_shard(
    path: Path,
    layout: Layout,
    records: Sequence[EmbeddedRecord],
    vectors: Iterable[tuple[int, Sequence[np.ndarray]]],
    source: str,
):
    """
    Writes a shard atomically.

    Args:
        vectors: The index of each record, in any order, and its vectors, one array per layer.
        source: The [`digest`] of the input records.
    """
    lengths = np.array([len(record.words) for record in records], dtype="<i8")
    texts = "".join(record.to_json() for record in records).encode()
    rows = layout.rows(lengths)
    header = _header(layout, len(records), int(rows.sum()), len(texts), source)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(header)
            file.write(lengths.tobytes())
            places = (file.tell() + layout.row_bytes * np.append(0, rows.cumsum())).tolist()
            missing = set(range(len(records)))
            for record, layers in vectors:
                stored = layout.stored(layers)
                if stored.shape != (shape := (rows[record], *layout.row)):
                    raise RuntimeError(f"{path.name}: record {record} has vectors {shape}, not {stored.shape}.")
                file.seek(places[record])
                file.write(stored.data)
                missing.discard(record)
                del layers, stored  # before the next ones are computed
            if missing:
                raise RuntimeError(f"{path.name}: {len(missing)} of {len(records)} records have no vectors.")
            file.seek(places[-1])
            file.write(texts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _header(layout: Layout, records: int, rows: int, text_bytes: int, source: str) -> bytes:
    ends = np.cumsum([8 * records, rows * layout.row_bytes, text_bytes]).tolist()
    tensors: dict[str, Any] = {"__metadata__": {"source": source}}
    for name, dtype, shape, start, end in (
        ("lengths", "I64", [records], 0, ends[0]),
        ("vectors", DTYPES[layout.dtype], [rows, *layout.row], ends[0], ends[1]),
        ("records", "U8", [text_bytes], ends[1], ends[2]),
    ):
        tensors[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


class Batch(NamedTuple):
    """
    A few consecutive records of a shard.

    Args:
        records: The texts and words.
        lengths: `(records,)`, the number of words of each record.
        vectors: `(rows, *layout.row)`; bf16 values as their bits.
    """

    records: list[EmbeddedRecord]
    lengths: np.ndarray
    vectors: np.ndarray


class Shard:
    """
    A shard on disk.

    Args:
        path: The file. A truncated one (an incomplete copy, a crash of the machine) raises a `ValueError`.

    Attributes:
        num_records, num_words, num_rows (`int`): The numbers of records, of words, and of rows of `vectors`.
        source (`str`): The [`digest`] of the input records.
    """

    def __init__(self, path: Path, layout: Layout):
        self.path, self._layout = path, layout
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, 1 << 20)))
            self._start = 8 + size
            self._ends = [header[name]["data_offsets"][1] for name in ("lengths", "vectors", "records")]
            if os.fstat(file.fileno()).st_size != self._start + self._ends[-1]:
                raise ValueError(f"{path} is not complete.")
            self.source: str = header["__metadata__"]["source"]
            self.num_records: int = header["lengths"]["shape"][0]
            self.num_rows: int = header["vectors"]["shape"][0]
            self.num_words = int(self._read_lengths(file).sum())

    def lengths(self) -> np.ndarray:
        """The number of words of each record, `(records,)`."""
        with open(self.path, "rb") as file:
            return self._read_lengths(file)

    def _read_lengths(self, file) -> np.ndarray:
        file.seek(self._start)
        return np.frombuffer(file.read(self._ends[0]), dtype="<i8")

    @property
    def text_bytes(self) -> int:
        """The size of `texts()`."""
        return self._ends[2] - self._ends[1]

    def texts(self) -> bytes:
        """One JSON object per line and record: `text`, `words`, and `columns` if columns are kept."""
        with open(self.path, "rb") as file:
            file.seek(self._start + self._ends[1])
            return file.read()

    def records(self) -> list[EmbeddedRecord]:
        """All records, without their vectors."""
        return [EmbeddedRecord(**json.loads(line)) for line in self.texts().splitlines()]

    def vectors(self, at_most: int) -> Iterator[bytes]:
        """Yields all bytes of the vectors, at most `at_most` at a time."""
        with open(self.path, "rb") as file:
            file.seek(self._start + self._ends[0])
            left = self._ends[1] - self._ends[0]
            while left:
                yield (piece := file.read(min(left, at_most)))
                left -= len(piece)

    def batches(self, at_most: int) -> Iterator[Batch]:
        """Yields the records in order, in batches of at most `at_most` bytes of vectors, or of one record."""
        lengths = self.lengths()
        records = self.records()
        rows = self._layout.rows(lengths)
        dtype = NUMPY_DTYPES[self._layout.dtype]
        with open(self.path, "rb") as file:
            file.seek(self._start + self._ends[0])
            for first, end in _groups(rows, at_most // self._layout.row_bytes):
                count = int(rows[first:end].sum())
                vectors = np.frombuffer(file.read(count * self._layout.row_bytes), dtype)
                yield Batch(records[first:end], lengths[first:end], vectors.reshape(count, *self._layout.row))


def _groups(rows: np.ndarray, at_most: int) -> Iterator[tuple[int, int]]:
    """Yields ranges `first` to `end` of records with at most `at_most` rows in total, or of one larger record."""
    first = total = 0
    for place, count in enumerate(rows.tolist()):
        if place > first and total + count > at_most:
            yield first, place
            first, total = place, 0
        total += count
    if first < len(rows):
        yield first, len(rows)


__all__ = ["DTYPES", "ENDING", "Batch", "EmbeddedRecord", "Layout", "Shard", "digest", "write_shard"]
