"""TensorFlow checkpoints as TensorFlow writes them: a plain writer, and a CRC-32C of one bit at a time."""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

TYPES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "float16": 19}


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value: int) -> bytes:
    data = b""
    while value >= 0x80:
        data, value = data + bytes([value & 0x7F | 0x80]), value >> 7
    return data + bytes([value])


def field(field_number: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return varint(field_number << 3 | 2) + varint(len(value)) + value
    return varint(field_number << 3) + varint(value) if value else b""


def entry(array: np.ndarray, shard: int, offset: int, checksum: int | None = None, extra: bytes = b"") -> bytes:
    """A `BundleEntryProto`."""
    shape = b"".join(field(2, field(1, size)) for size in array.shape)
    data = array.tobytes()
    numbers = field(1, TYPES[array.dtype.name]) + field(2, shape) + field(3, shard) + field(4, offset)
    crc = masked(data) if checksum is None else checksum
    return numbers + field(5, len(data)) + varint(6 << 3 | 5) + struct.pack("<I", crc) + extra


def block(entries: list[tuple[bytes, bytes]], restart_interval: int = 16) -> bytes:
    data, restarts, before = b"", [], b""
    for index, (key, value) in enumerate(entries):
        shared = 0
        if index % restart_interval == 0:
            restarts.append(len(data))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        data += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    restarts = restarts or [0]
    return data + b"".join(struct.pack("<I", place) for place in (*restarts, len(restarts)))


def table(entries: Mapping[bytes, bytes], entries_per_block: int = 7, compression: int = 0) -> bytes:
    """A sorted string table."""
    data, places = b"", []

    def add(content: bytes) -> bytes:
        nonlocal data
        place = varint(len(data)) + varint(len(content))
        kind = bytes([compression])
        data += content + kind + struct.pack("<I", masked(content + kind))
        return place

    pairs = sorted(entries.items())
    for start in range(0, len(pairs), entries_per_block):
        part = pairs[start : start + entries_per_block]
        places.append((part[-1][0], add(block(part))))
    meta = add(block([]))
    footer = meta + add(block(places, restart_interval=1))
    return data + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def write_checkpoint(prefix: Path, arrays: Mapping[str, np.ndarray], shards: int = 1, **options) -> Path:
    """Writes `prefix.index` and its data files; variables go to the shards one after the other."""
    contents, entries = [b""] * shards, {b"": field(1, shards) + field(3, field(1, 1))}
    for index, (name, array) in enumerate(sorted(arrays.items())):
        shard = index % shards
        entries[name.encode()] = entry(array, shard, len(contents[shard]))
        contents[shard] += array.tobytes()
    prefix.with_name(prefix.name + ".index").write_bytes(table(entries, **options))
    for shard, content in enumerate(contents):
        prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{shards:05d}").write_bytes(content)
    return prefix
