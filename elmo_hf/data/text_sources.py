"""
Reads text from files line by line, plain or compressed, and from datasets on disk or on the Hub. Every problem with
them is an error of one line.
"""

import bz2
import codecs
import gzip
import importlib
import io
import lzma
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ..errors import TextError, did_you_mean, in_one_line
from ..runtime.extras import import_extra

STANDARD_INPUT = "-"
BLOCK = 1 << 16  # bytes of text read at a time
# Bytes. A line is in memory as a whole, and a small compressed file may hold an enormous one. Embedding a line of this
# length that consists of short words takes 2.5 GB.
LONGEST_LINE = 1 << 22
OVERLONG = b"\0longer\0"  # replaces a longer line; it is not text, since it holds NUL
XZ_MEMORY = 1 << 28  # bytes for the window of a decompressor; `xz -9` needs a quarter of it
ROWS = 100  # rows of a dataset read at a time; a row may be a whole book
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
GUESSED_FROM = 10_000  # bytes of a line from which its encoding is guessed
GZIP, XZ, ZSTANDARD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
# `BZh9` on its own could be a word; the magic number of a block, or of the end, follows it.
BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")

# Python treats these as white space; Unicode and the tokenizer do not.
SEPARATORS = re.compile("[\x1c-\x1f]")
PRETOKENIZED_WORD = re.compile("[\\S\x1c-\x1f]+")

SAVED_DATASET = ({"dataset_info.json", "state.json"}, {"dataset_dict.json"})  # files of `save_to_disk`
HUB_NAME = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)?(?::[^:/\\]+)?", re.ASCII)
FILE_NAME = re.compile(
    r"\.(?:te?xt|tok|gz|xz|bz2|zst|md|html?|xml|csv|tsv|conllu?|jsonl?|parquet|arrow|zip|tar)", re.ASCII
)

Report = Callable[[int], object]


def split_words(sentence: str) -> list[str]:
    """The words of a pretokenised sentence, separated by blanks, as the tokenizer's "whitespace" splitting does."""
    if sentence.isprintable() or not SEPARATORS.search(sentence):  # the first test is cheap, and nearly always enough
        return sentence.split()
    return PRETOKENIZED_WORD.findall(sentence)


# ---- files


def read_lines(path: str, report: Report) -> Iterator[list[str]]:
    """Yields the lines of a file, many at a time. Only `\\n` ends a line: other breaks are part of a sentence."""
    done = 0  # lines read so far
    for text in _whole_lines(path, report):
        lines = _decode(text, source_name(path), done)
        yield lines
        done += len(lines)


def read_text(path: str) -> str:
    """The whole text of a file, plain or compressed."""
    return "\n".join(_decode(b"".join(_read_blocks(path, lambda _: None)), source_name(path), 0))


def lines_or_errors(path: str, report: Report = lambda _: None) -> Iterator[tuple[int, str | TextError]]:
    """
    Yields the lines of a file one at a time, with their numbers from 1 and without their line ends. A line that is not
    text is replaced by its error.
    """
    done = 0
    for text in _whole_lines(path, report):
        for line in _decode_each(text, source_name(path), done):
            done += 1
            yield done, line if isinstance(line, TextError) else line.rstrip("\r")


def source_name(path: str) -> str:
    """The name of a source in messages."""
    return "standard input" if path == STANDARD_INPUT else path


def _whole_lines(path: str, report: Report) -> Iterator[bytes]:
    """
    Yields one or more lines at a time, without the end of the last. A line that is too long starts with `OVERLONG`.
    """
    unfinished: list[bytes] = []  # the pieces of the last line, whose end has not been read yet
    size = 0  # bytes of these pieces
    for block in _read_blocks(path, report):
        whole, newline, rest = block.rpartition(b"\n")
        if newline:
            yield b"".join([*unfinished, whole])
            unfinished = [rest]
        elif 0 in block:
            unfinished = [b"\0"]  # not text, and perhaps endless: only this fact is kept
        elif size + len(block) > LONGEST_LINE:
            unfinished = [OVERLONG]
        else:
            unfinished.append(block)
            size += len(block)
            continue
        size = len(unfinished[0])
    if last := b"".join(unfinished):
        yield last


def _decode(text: bytes, name: str, done: int) -> list[str]:
    """Decodes lines; `done` lines of the file come before them."""
    if done == 0:
        text = text.removeprefix(BYTE_ORDER_MARK)
    if (nul := text.find(0)) >= 0:
        line = done + 1 + text.count(b"\n", 0, nul)
        if text.startswith(OVERLONG, nul):
            raise TextError(
                f"{name}, line {line}, has more than {LONGEST_LINE >> 20} MiB: begin a new line with each sentence, or "
                "with each document."
            )
        raise _not_text(name, line, "it holds a NUL byte", _likely_encoding(text))
    try:
        return text.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = done + 1 + text.count(b"\n", 0, error.start)
        begin = text.rfind(b"\n", 0, error.start) + 1
        is_cut = error.reason == "unexpected end of data" and error.end - error.start > 1  # one may be é in Latin-1
        encoding = None if is_cut else _likely_encoding(text[begin:].partition(b"\n")[0][:GUESSED_FROM])
        raise _not_text(name, line, f"{error.reason}, {text[error.start]:#04x}", encoding) from error


def _decode_each(text: bytes, name: str, done: int) -> Sequence[str | TextError]:
    """As [`_decode`], with an error in place of each line that is not text."""
    try:
        return _decode(text, name, done)
    except TextError as error:
        if b"\n" not in text:
            return [error]
    return [line for place, part in enumerate(text.split(b"\n")) for line in _decode_each(part, name, done + place)]


def _not_text(name: str, line: int, reason: str, encoding: str | None) -> TextError:
    remedy = "a binary file?"
    if encoding is not None:
        remedy = f"perhaps it is {encoding}; `iconv -f {encoding} -t UTF-8` converts it."
    return TextError(f"{name}, line {line}, is not UTF-8 text ({reason}): {remedy}")


def _likely_encoding(text: bytes) -> str | None:
    """The likely encoding of text that is not UTF-8, by its name in `iconv`; `None` if none is likely."""
    if text.startswith(UTF_16_MARKS):
        return "UTF-16"
    runs = [] if 0 in text else BEYOND_ASCII.findall(text)
    if not runs:
        return None
    if max(map(len, runs)) <= 2:  # letters with accents, quotation marks
        return "WINDOWS-1252" if _decodes(text, "cp1252") else None
    leads = b"".join(run[::2] for run in runs)
    common = sum(0xB0 <= lead <= 0xD7 for lead in leads)  # where GB 2312 has its 3,755 most frequent characters
    return "GB18030" if 2 * common > len(leads) and _decodes(text, "gb18030") else None


def _decodes(text: bytes, encoding: str) -> bool:
    """Whether bytes are text in an encoding. The last character may be incomplete."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(text)
    except UnicodeDecodeError:
        return False
    return True


def _read_blocks(path: str, report: Report) -> Iterator[bytes]:
    """Yields the decompressed bytes of a file."""
    name = source_name(path)
    with one_line_errors(f"{name} cannot be read", OSError):
        raw = _standard_input() if path == STANDARD_INPUT else open(path, "rb")  # noqa: SIM115 (closed below)
    with raw:
        with one_line_errors(f"{name} cannot be read", OSError):
            file = _decompressed(raw, name)
        position, block = 0, b"..."
        while block:
            # Each library raises its own errors for damaged data.
            with one_line_errors(f"{name} is damaged or was cut short, fetch it again", Exception):
                block = file.read(BLOCK)
            if raw.seekable():
                report(raw.tell() - position)
                position = raw.tell()
            yield block


def _standard_input() -> io.BufferedReader:
    """Standard input under a descriptor of its own, which can be closed like that of a file."""
    return open(os.dup(sys.stdin.fileno()), "rb")


def _decompressed(raw: io.BufferedReader, path: str) -> io.BufferedIOBase:
    """The file, decompressed as its first bytes require, whatever its name is."""
    start = raw.peek(16)
    if start.startswith(GZIP):
        return gzip.GzipFile(fileobj=raw)
    if start.startswith(XZ):
        return io.BufferedReader(_XzStreams(raw, path))
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


class _XzStreams(io.RawIOBase):
    """
    Reads xz with a limit on memory, which `lzma.LZMAFile` does not have: a small file may demand 4 GiB.

    Args:
        raw: The compressed file.
        name: The name of the file, for messages.
    """

    def __init__(self, raw: io.BufferedIOBase, name: str):
        self._raw, self._name = raw, name
        self._stream = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
        self._is_first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        text = b""
        while not text:
            data = b""
            if self._stream.eof:
                if not (data := self._next_stream()):
                    return 0
                self._stream, self._is_first = lzma.LZMADecompressor(memlimit=XZ_MEMORY), False
            elif self._stream.needs_input and not (data := self._raw.read(BLOCK)):
                raise EOFError("the last stream is not complete")
            try:
                text = self._stream.decompress(data, len(buffer))
            except lzma.LZMAError as error:
                if "limit" in str(error):
                    needed = f"needs more than {XZ_MEMORY >> 20} MiB to be decompressed"
                    raise TextError(f"{self._name} {needed}: compress it again with `xz -9` or less.") from error
                if self._is_first:
                    raise
                return 0  # data after the last stream is ignored, as `lzma.LZMAFile` does
        buffer[: len(text)] = text
        return len(text)

    def _next_stream(self) -> bytes:
        """The first bytes after a stream and its padding; none at the end of the file."""
        data = self._stream.unused_data.lstrip(b"\0")
        while not data and (block := self._raw.read(BLOCK)):
            data = block.lstrip(b"\0")
        return data


class _ZstandardFrames(io.RawIOBase):
    """Reads with the `zstandard` package, whose own reader accepts a truncated file as complete."""

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
            data = data or self._raw.read(1 << 10)  # a small block, since all of it is decompressed at once
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
    """Whether `save_to_disk` of the `datasets` library has written a folder."""
    with one_line_errors(f"{folder} cannot be read", OSError):
        names = set(os.listdir(folder))
    return any(names >= files for files in SAVED_DATASET)


def load_saved_dataset(folder: str, split: str) -> Any:
    """Loads a split of a dataset on disk, or the dataset itself if it has no splits."""
    datasets = _import_datasets(folder)
    with one_line_errors(f"The dataset {folder} cannot be loaded", Exception):
        dataset = datasets.load_from_disk(folder)
    if isinstance(dataset, dict):
        if split not in dataset:
            suggestion = did_you_mean(split, dataset)
            raise TextError(
                f"The dataset {folder} has no split {split!r}{suggestion}: choose one of {', '.join(dataset)}."
            )
        dataset = dataset[split]
    return dataset


def load_named_dataset(name: str, split: str, *, streaming: bool) -> Any:
    """Loads a split of a dataset on the Hub, named as `name` or `name:config`."""
    datasets = _import_datasets(name)
    path, _, config = name.partition(":")
    from ..runtime.named_models import look_up_dataset

    if (failure := look_up_dataset(name)) is None:
        with one_line_errors(f"The dataset {name} cannot be loaded", Exception):
            return datasets.load_dataset(path, config or None, split=split, streaming=streaming)
    try:
        with _offline(datasets):
            return datasets.load_dataset(path, config or None, split=split, streaming=streaming)
    except Exception as error:
        reason = in_one_line(failure)
        raise TextError(
            f"No such file or folder: {name}, and the Hub cannot be reached for a dataset of this name ({reason})."
        ) from error


@contextmanager
def _offline(datasets: ModuleType) -> Generator[None]:
    """Within it, `datasets` loads what was downloaded before, and does not repeat requests that fail."""
    from huggingface_hub import constants

    places = (datasets.config, "HF_HUB_OFFLINE"), (constants, "HF_HUB_OFFLINE")
    before = [getattr(*place) for place in places]
    try:
        for place in places:
            setattr(*place, True)
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            setattr(*place, value)


class DatasetColumns:
    """
    Columns of a dataset, read many rows at a time.

    Args:
        name: The name of the dataset, for messages.
        dataset: The dataset, from [`load_saved_dataset`] or [`load_named_dataset`].
        choose: Selects columns from the available names, or raises an error.

    Attributes:
        size (`int`, *optional*): The size in bytes; `None` if the length of the dataset is unknown.
    """

    def __init__(self, name: str, dataset: Any, choose: Callable[[Sequence[str]], list[str]]):
        self.name, self._choose = name, choose
        self._rows: int | None = None
        self.size: int | None = None
        if dataset.column_names is not None:  # unknown for some streams
            dataset = dataset.select_columns(choose(dataset.column_names))
        if hasattr(dataset, "num_rows"):
            dataset = dataset.with_format(None)
            self._rows, self.size = dataset.num_rows, dataset.data.nbytes
        self._dataset = dataset

    def read(self, report: Report) -> Iterator[dict[str, list]]:
        """Yields the values of each column, `ROWS` rows at a time, and reports the bytes read, out of `size`."""
        reading = f"{self.name} cannot be read"
        with one_line_errors(reading, Exception):
            batches = iter(self._dataset.iter(batch_size=ROWS))
        position = 0
        while True:
            with one_line_errors(reading, Exception):
                batch = next(batches, None)
            if batch is None:
                break
            columns = {column: batch[column] for column in self._choose(list(batch))}
            rows = len(next(iter(columns.values())))
            if self._rows and self.size:  # rows are counted, bytes are reported
                report((position + rows) * self.size // self._rows - position * self.size // self._rows)
                position += rows
            else:
                report(sum(len(value) for column in columns.values() for value in column if isinstance(value, str)))
            yield columns


def _import_datasets(source: str) -> ModuleType:
    try:
        return import_extra("datasets", "dataset")
    except ImportError as error:
        raise TextError(f"{source} is not a file: {error}") from error


def may_be_dataset(name: str) -> bool:
    """Whether a path that does not exist could be a dataset on the Hub, rather than a misspelt file."""
    if not HUB_NAME.fullmatch(name) or FILE_NAME.fullmatch(os.path.splitext(name)[1].lower()):
        return False
    folder = os.path.dirname(name)
    return not (folder and os.path.exists(folder))


# ---- errors


@contextmanager
def one_line_errors(problem: str, kind: type[Exception]) -> Generator[None]:
    """Turns errors of one kind into a [`TextError`] that names the problem."""
    try:
        yield
    except TextError:
        raise
    except kind as error:
        raise TextError(f"{problem}: {in_one_line(error)}") from error


__all__ = [
    "FILE_NAME",
    "LONGEST_LINE",
    "STANDARD_INPUT",
    "DatasetColumns",
    "Report",
    "is_saved_dataset",
    "lines_or_errors",
    "load_named_dataset",
    "load_saved_dataset",
    "may_be_dataset",
    "one_line_errors",
    "read_lines",
    "read_text",
    "source_name",
    "split_words",
]
