"""
TensorFlow checkpoints (version 2, `model.ckpt-N.index` and `.data-*`), read without TensorFlow.

The index is a sorted string table as in LevelDB: blocks of key-value pairs whose keys leave out what they share with
the key before, each block with a checksum, and a footer that says where the block of blocks is. A value is a
`BundleEntryProto`: type, shape, place and checksum of a variable, whose numbers are in a data file, in C order.
"""

import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from elmo_hf.errors import ConversionError

from .crc32c import masked_crc32c

FOOTER_BYTES = 48
MAGIC = 0xDB4775248B80FB57
TRAILER_BYTES = 5  # of a block: how it is compressed, and its checksum
HEADER_KEY = b""
MOST_DIMENSIONS = 16
# `DataType` of TensorFlow → NumPy. Variables of other types are listed, and cannot be read.
FLOATS = {1: "<f4", 2: "<f8", 19: "<f2"}
BFLOAT16 = 14
TYPE_NAMES = {
    1: "float32",
    2: "float64",
    3: "int32",
    7: "string",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    19: "float16",
}


class Variable(NamedTuple):
    """
    Where the numbers of a variable are.

    Attributes:
        dtype: TensorFlow's number of the type.
        shape: Its dimensions.
        shard: Which of the data files.
        offset, size: Bytes in that file.
        checksum: CRC-32C of those bytes, masked.
        is_sliced: Whether it is stored in slices, under other names.
    """

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    is_sliced: bool


class TensorFlowCheckpoint:
    """
    The variables of a checkpoint. The index is read and checked now, numbers when they are asked for.

    Args:
        prefix: The common part of the names of its files, such as `model.ckpt-400`.
    """

    def __init__(self, prefix: str | os.PathLike):
        self.prefix = Path(prefix)
        self.index = self.prefix.with_name(self.prefix.name + ".index")
        self.variables: dict[str, Variable] = {}
        self.num_shards = 1
        try:
            data = self.index.read_bytes()
        except OSError as error:
            raise ConversionError(f"{self.index} cannot be read: {error.strerror}.") from error
        try:
            for key, value in _table(data, self.index):
                if key == HEADER_KEY:
                    self._read_header(value)
                else:
                    self.variables[key.decode("utf-8", "surrogateescape")] = _variable(value)
        except ConversionError:
            raise
        except (IndexError, ValueError, struct.error) as error:  # by the place of the damage
            raise ConversionError(
                f"{self.index} is no index of a TensorFlow checkpoint, or damaged: {error}."
            ) from error

    def _read_header(self, value: bytes):
        fields = _message(value)
        self.num_shards = fields.get(1, [1])[-1]
        if not isinstance(self.num_shards, int):
            raise ValueError("the number of data files is missing")
        if fields.get(2, [0])[-1] != 0:
            raise ConversionError(f"{self.index}: the numbers are big-endian, which is not read.")

    @property
    def files(self) -> list[Path]:
        """The data files that its variables are in."""
        return [self._data_file(shard) for shard in sorted({variable.shard for variable in self.variables.values()})]

    def _data_file(self, shard: int) -> Path:
        return self.prefix.with_name(f"{self.prefix.name}.data-{shard:05d}-of-{self.num_shards:05d}")

    def read(self, name: str) -> torch.Tensor:
        """A variable of floats in fp32, after its checksum was compared."""
        variable = self.variables[name]
        if variable.is_sliced:
            raise ConversionError(f"{self.index}: {name} is stored in slices, which are not read: save it whole.")
        if variable.dtype not in FLOATS and variable.dtype != BFLOAT16:
            kind = TYPE_NAMES.get(variable.dtype, f"type {variable.dtype}")
            raise ConversionError(f"{self.index}: {name} should hold floats, found {kind}.")
        dtype = np.dtype(FLOATS.get(variable.dtype, "<u2"))
        if variable.size != math.prod(variable.shape) * dtype.itemsize:
            raise ConversionError(f"{self.index}: {name} has shape {variable.shape}, and {variable.size} bytes.")
        data = self._bytes(name, variable)
        if masked_crc32c(data) != variable.checksum:
            path = self._data_file(variable.shard)
            raise ConversionError(f"{path} is damaged: the checksum of {name} is wrong. Copy the checkpoint again.")
        values = data.view(dtype).reshape(variable.shape)
        if variable.dtype == BFLOAT16:
            return torch.from_numpy(values.view("<i2").astype(np.int16)).view(torch.bfloat16).float()
        return torch.from_numpy(values.astype(np.float32))

    def _bytes(self, name: str, variable: Variable) -> np.ndarray:
        """`(size,)`, uint8."""
        path = self._data_file(variable.shard)
        try:
            with open(path, "rb") as file:
                available = os.fstat(file.fileno()).st_size
                if variable.offset + variable.size > available:
                    raise ConversionError(
                        f"{path} is cut short: {name} ends at byte {variable.offset + variable.size:,}, the file at "
                        f"{available:,}. Copy the checkpoint again."
                    )
                return np.fromfile(file, dtype=np.uint8, count=variable.size, offset=variable.offset)
        except OSError as error:
            raise ConversionError(f"{path} cannot be read: {error.strerror}.") from error


# ---- The sorted string table


def _table(data: bytes, source: Path) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values of a table."""
    if len(data) < FOOTER_BYTES or struct.unpack_from("<Q", data, len(data) - 8)[0] != MAGIC:
        raise ConversionError(f"{source} is no index of a TensorFlow checkpoint, or cut short: its end is not marked.")
    footer = data[-FOOTER_BYTES:]
    _, _, place = _handle(footer, 0)  # of the block of other information, which is empty
    offset, size, _ = _handle(footer, place)
    for _, value in _entries(_block(data, offset, size, source)):
        offset, size, _ = _handle(value, 0)
        yield from _entries(_block(data, offset, size, source))


def _handle(data: bytes, place: int) -> tuple[int, int, int]:
    """Offset and size of a block, and the place after them."""
    offset, place = _varint(data, place)
    size, place = _varint(data, place)
    return offset, size, place


def _block(data: bytes, offset: int, size: int, source: Path) -> bytes:
    """The content of a block, checked."""
    end = offset + size
    if end + TRAILER_BYTES > len(data) - FOOTER_BYTES:
        raise ValueError(f"a block ends at byte {end}")
    compression, checksum = struct.unpack_from("<BI", data, end)
    if masked_crc32c(data[offset : end + 1]) != checksum:
        raise ConversionError(f"{source} is damaged: the checksum of a block is wrong. Copy the checkpoint again.")
    if compression != 0:
        raise ConversionError(
            f"{source} is compressed (kind {compression}), which TensorFlow does not do: it is not read."
        )
    return data[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block. The places of whole keys at its end are not needed to read all of them."""
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block is shorter than its list of keys")
    place, key = 0, b""
    while place < end:
        shared, place = _varint(block, place)
        own, place = _varint(block, place)
        length, place = _varint(block, place)
        if shared > len(key) or place + own + length > end:
            raise ValueError("an entry is longer than its block")
        key = key[:shared] + block[place : place + own]
        place += own
        yield key, block[place : place + length]
        place += length


# ---- Protocol buffers


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits per byte, and the place after it."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
        if shift > 63:
            raise ValueError("a number is too long")


def _message(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number: integers, or bytes. These messages have no fields of another kind."""
    fields: dict[int, list[Any]] = {}
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind, value = key & 7, None
        if kind == 0:
            value, place = _varint(data, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value = int.from_bytes(data[place : place + size], "little")
            place += size
        elif kind == 2:
            size, place = _varint(data, place)
            value = data[place : place + size]
            place += size
        else:
            raise ValueError(f"a field is of kind {kind}")
        if place > len(data):
            raise ValueError("a field is longer than its message")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _variable(value: bytes) -> Variable:
    """A `BundleEntryProto`."""
    fields = _message(value)
    dimensions = [
        _message(_bytes(part)).get(1, [0])[-1] for part in _message(_bytes(fields.get(2, [b""])[-1])).get(2, [])
    ]
    if len(dimensions) > MOST_DIMENSIONS:
        raise ValueError(f"a variable has {len(dimensions)} dimensions")
    values = [fields.get(field, [0])[-1] for field in (1, 3, 4, 5, 6)]
    if not all(isinstance(value, int) for value in (*dimensions, *values)):
        raise ValueError("a number is missing")
    dtype, shard, offset, size, checksum = values
    return Variable(dtype, tuple(dimensions), shard, offset, size, checksum, is_sliced=7 in fields)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a message is missing")
    return value


__all__ = ["TensorFlowCheckpoint", "Variable"]
