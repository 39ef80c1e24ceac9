"""
Where text comes from: files line by line, plain or compressed, and datasets on disk or by name. What is wrong with them
is one line for the user.
"""

import bz2
import gzip
import importlib
import io
import lzma
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from .errors import TextError

BLOCK = 1 << 16  # bytes of text read at a time
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP, XZ, ZSTANDARD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
# `BZh9` alone could be a word; what follows is the mark of a block, or of the end.
BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")

SAVED_DATASET = ({"dataset_info.json", "state.json"}, {"dataset_dict.json"})  # files of `save_to_disk`
HUB_NAME = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)?(?::[^:/\\]+)?", re.ASCII)
FILE_NAME = re.compile(
    r"\.(?:te?xt|tok|gz|xz|bz2|zst|md|html?|xml|csv|tsv|conllu?|jsonl?|parquet|arrow|zip|tar)", re.ASCII
)

Report = Callable[[int], object]


# ---- files


def read_lines(path: str, report: Report) -> Iterator[list[str]]:
    """The lines of a file, many at a time. They end with `\\n` only: other breaks are characters of a sentence."""
    done = 0  # lines
    unfinished: list[bytes] = []  # the pieces of the last line, whose end is not read yet
    for block in _read_blocks(path, report):
        if (nul := block.find(0)) >= 0:
            raise _not_text(path, done + 1 + block.count(b"\n", 0, nul), "it holds a NUL byte")
        whole, newline, rest = block.rpartition(b"\n")
        if newline:
            lines = _decode(b"".join([*unfinished, whole]), path, done)
            yield lines
            done += len(lines)
            unfinished = [rest]
        else:
            unfinished.append(block)
    yield _decode(b"".join(unfinished), path, done)


def _decode(text: bytes, path: str, done: int) -> list[str]:
    """The lines of a text that begins after `done` others."""
    if done == 0:
        text = text.removeprefix(BYTE_ORDER_MARK)
    try:
        return text.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = done + 1 + text.count(b"\n", 0, error.start)
        raise _not_text(path, line, f"{error.reason}, {text[error.start]:#04x}") from error


def _not_text(path: str, line: int, reason: str) -> TextError:
    return TextError(f"{path}, line {line}, is not UTF-8 text: a binary file? ({reason})")


def _read_blocks(path: str, report: Report) -> Iterator[bytes]:
    """The bytes of a file, decompressed."""
    with one_line_errors(f"{path} cannot be read", OSError):
        raw = open(path, "rb")  # noqa: SIM115 (closed below, with the errors of others left alone)
    with raw:
        with one_line_errors(f"{path} cannot be read", OSError):
            file = _decompressed(raw, path)
        position, block = 0, b"..."
        while block:
            # Each library has errors of its own for damaged data.
            with one_line_errors(f"{path} is damaged or was cut short, fetch it again", Exception):
                block = file.read(BLOCK)
            if raw.seekable():
                report(raw.tell() - position)
                position = raw.tell()
            yield block


def _decompressed(raw: io.BufferedReader, path: str) -> io.BufferedIOBase:
    """The file, seen through what its first bytes ask for, whatever its name says."""
    start = raw.peek(16)
    if start.startswith(GZIP):
        return gzip.GzipFile(fileobj=raw)
    if start.startswith(XZ):
        return lzma.LZMAFile(raw)
    if BZIP2.match(start):
        return bz2.BZ2File(raw)
    if start.startswith(ZSTANDARD):
        library = _import_zstandard(path)
        if library.__name__ == "zstandard":
            return io.BufferedReader(_ZstandardFrames(library, raw))
        return library.ZstdFile(raw)
    return raw


def _import_zstandard(path: str) -> ModuleType:
    for name in ("compression.zstd", "backports.zstd", "zstandard"):  # the first since Python 3.14
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise TextError(f"{path} is compressed with Zstandard, which needs a package: pip install backports.zstd")


class _ZstandardFrames(io.RawIOBase):
    """Reads with the `zstandard` package, of which the own reader takes a file that was cut short for complete."""

    def __init__(self, library: ModuleType, raw: io.BufferedReader):
        self._raw = raw
        self._new_frame = library.ZstdDecompressor().decompressobj
        self._frame = self._new_frame()
        self._is_fresh = True  # at the end of a frame, where the file may end
        self._text = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._text:
            if self._frame.eof:
                data, self._frame, self._is_fresh = self._frame.unused_data, self._new_frame(), True
            else:
                data = b""
            data = data or self._raw.read(1 << 16)
            if not data:
                if not self._is_fresh:
                    raise EOFError("the last frame is not complete")
                return 0
            self._text, self._is_fresh = memoryview(self._frame.decompress(data)), False
        length = min(len(buffer), len(self._text))
        buffer[:length] = self._text[:length]
        self._text = self._text[length:]
        return length


# ---- datasets


def is_saved_dataset(folder: str) -> bool:
    """Whether `save_to_disk` of the `datasets` library has written it."""
    with one_line_errors(f"{folder} cannot be read", OSError):
        names = set(os.listdir(folder))
    return any(names >= files for files in SAVED_DATASET)


def load_saved_dataset(folder: str, split: str) -> Any:
    """A split of a dataset on disk; the dataset itself if it has none."""
    datasets = _import_datasets(folder)
    with one_line_errors(f"The dataset {folder} cannot be loaded", Exception):
        dataset = datasets.load_from_disk(folder)
    if isinstance(dataset, dict):
        if split not in dataset:
            raise TextError(f"The dataset {folder} has no split {split!r}: choose one of {', '.join(dataset)}.")
        dataset = dataset[split]
    return dataset


def load_named_dataset(name: str, split: str, *, streaming: bool) -> Any:
    """A split of a dataset on the Hub, by `name` or `name:config`."""
    datasets = _import_datasets(name)
    path, _, config = name.partition(":")
    problem = f"{name} is no file and no folder, and a dataset of this name cannot be loaded"
    with one_line_errors(problem, Exception):
        return datasets.load_dataset(path, config or None, split=split, streaming=streaming)


def _import_datasets(source: str) -> ModuleType:
    try:
        return importlib.import_module("datasets")
    except ImportError as error:
        raise TextError(f"To read {source} as a dataset a package is needed: pip install datasets") from error


def may_be_dataset(name: str) -> bool:
    """Whether a path that does not exist could be a dataset on the Hub, rather than a misspelt file."""
    if not HUB_NAME.fullmatch(name) or FILE_NAME.fullmatch(os.path.splitext(name)[1].lower()):
        return False
    folder = os.path.dirname(name)
    return not (folder and os.path.exists(folder))


# ---- errors


@contextmanager
def one_line_errors(problem: str, kind: type[Exception]) -> Generator[None]:
    """Turns errors of a kind into a [`TextError`] that says what the problem is."""
    try:
        yield
    except TextError:
        raise
    except kind as error:
        raise TextError(f"{problem}: {in_one_line(error)}") from error


def in_one_line(error: Exception) -> str:
    """What an error says."""
    return " ".join(str(error).split())[:300] or type(error).__name__


__all__ = [
    "FILE_NAME",
    "Report",
    "in_one_line",
    "is_saved_dataset",
    "load_named_dataset",
    "load_saved_dataset",
    "may_be_dataset",
    "one_line_errors",
    "read_lines",
]
