"""
Text for pretraining, streamed: documents of sentences from files, folders, globs and datasets.

A file holds a sentence a line and a blank line between documents, plain or compressed. The rows of a dataset are its
documents. Nothing but the document being read, and the block it came in, is in memory.
"""

import bz2
import glob
import gzip
import importlib
import io
import lzma
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from types import ModuleType
from typing import Any

BLOCK = 1 << 16  # bytes of text read at a time
ROWS = 100  # of a dataset read at a time; a row may be a book
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP, XZ, ZSTANDARD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
# `BZh9` alone could be a word; what follows is the mark of a block, or of the end.
BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")

SAVED_DATASET = ({"dataset_info.json", "state.json"}, {"dataset_dict.json"})  # files of `save_to_disk`
HUB_NAME = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)?(?::[^:/\\]+)?", re.ASCII)
FILE_NAME = re.compile(r"\.(?:te?xt|tok|gz|xz|bz2|zst|md|html?|xml|csv|tsv|jsonl?|parquet|arrow|zip|tar)", re.ASCII)

# Python takes these for white space, Unicode and the tokenizer do not.
SEPARATORS = re.compile("[\x1c-\x1f]")
PRETOKENIZED_WORD = re.compile("[\\S\x1c-\x1f]+")

Source = str | os.PathLike[str]
Report = Callable[[int], object]


class TextError(ValueError):
    """What is wrong with a text, in one line for the user."""


def split_words(sentence: str) -> list[str]:
    """The words of a pretokenised sentence: what blanks separate, as the tokenizer's "whitespace" splitting has it."""
    if sentence.isprintable() or not SEPARATORS.search(sentence):  # the first test is cheap, and nearly always enough
        return sentence.split()
    return PRETOKENIZED_WORD.findall(sentence)


class Corpus:
    """
    Documents from files, folders, globs and datasets.

    Args:
        sources: One or more. A source is a file, plain or compressed with gzip, xz, bzip2 or Zstandard; a folder, which
            stands for all files below it but those whose name, or whose folder's, starts with `.` or `_`; a glob
            pattern, `**` allowed; a folder written by `save_to_disk` of the `datasets` library; or, if there is no
            such path, the name of a dataset, as `name` or `name:config`, of which the rows are streamed.
        column: The column of a dataset that holds the text.
        split: The split of a dataset that has several.
        max_sentences: A longer document is cut into several, so that a file without blank lines is streamed too.

    Attributes:
        shards (`list[str]`): Names of the files and datasets, sorted, each once: the order is that of the text.
    """

    def __init__(
        self,
        sources: Source | Sequence[Source],
        *,
        column: str = "text",
        split: str = "train",
        max_sentences: int = 1000,
    ):
        if max_sentences < 1:
            raise ValueError(f"`max_sentences` must be 1 or more, found {max_sentences}.")
        given: list[Source] = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
        if not given:
            raise TextError("No text was given: name files, folders, glob patterns or datasets.")
        found = [shard for source in given for shard in _find_shards(source, column, split)]
        shards: dict[object, _Shard] = {}
        for shard in sorted(found, key=lambda shard: shard.name):
            shards.setdefault(shard.identity, shard)
        self._shards = list(shards.values())
        self._sources = ", ".join(os.fspath(source) for source in given)
        self._max_sentences = max_sentences
        self.shards = [shard.name for shard in self._shards]

    @property
    def size(self) -> int | None:
        """Bytes on disk, for progress; `None` if the length of a dataset is not known."""
        sizes = [shard.size for shard in self._shards]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def documents(self, shard: int, start: int = 0, *, report: Report | None = None) -> Iterator[list[str]]:
        """
        The documents of a shard, each a list of one or more sentences: lines without the white space around them.

        Args:
            shard: Its index in `shards`.
            start: How many documents to leave out at the beginning.
            report: Is called with the bytes of `size` that were read since the last call.
        """
        documents = self._shards[shard].documents(self._max_sentences, report or (lambda _: None))
        return islice(documents, start, None)

    def sentences(self, *, report: Report | None = None) -> Iterator[str]:
        """All sentences, in the order of the shards. If there is none, a `TextError` is the end."""
        empty = True
        for shard in range(len(self.shards)):
            for document in self.documents(shard, report=report):
                yield from document
                empty = False
        if empty:
            raise TextError(f"There is not a single sentence in {self._sources}: only empty files, or blank lines.")


# ---- files


class _FileShard:
    def __init__(self, path: str):
        self.name = path
        self.identity = os.path.realpath(path)

    @property
    def size(self) -> int:
        with _one_line_errors(f"{self.name} cannot be read", OSError):
            return os.path.getsize(self.name)

    def documents(self, max_sentences: int, report: Report) -> Iterator[list[str]]:
        document: list[str] = []
        for lines in _read_lines(self.name, report):
            for sentence in map(str.strip, lines):
                if sentence:
                    document.append(sentence)
                    if len(document) < max_sentences:
                        continue
                if document:
                    yield document
                    document = []
        if document:
            yield document


def _read_lines(path: str, report: Report) -> Iterator[list[str]]:
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
    with _one_line_errors(f"{path} cannot be read", OSError):
        raw = open(path, "rb")  # noqa: SIM115 (closed below, with the errors of others left alone)
    with raw:
        with _one_line_errors(f"{path} cannot be read", OSError):
            file = _decompressed(raw, path)
        position, block = 0, b"..."
        while block:
            # Each library has errors of its own for damaged data.
            with _one_line_errors(f"{path} is damaged or was cut short, fetch it again", Exception):
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


class _DatasetShard:
    def __init__(self, name: str, identity: str, dataset: Any, column: str):
        self.name = name
        self.identity = ("dataset", identity)
        self._column = column
        self._rows: int | None = None
        self.size: int | None = None
        if dataset.column_names is not None:  # not known of every stream
            self._check_columns(dataset.column_names)
            dataset = dataset.select_columns([column])
        if hasattr(dataset, "num_rows"):
            dataset = dataset.with_format(None)
            self._rows, self.size = dataset.num_rows, dataset.data.nbytes
        self._dataset = dataset

    def _check_columns(self, columns: Iterable[str]):
        if self._column not in columns:
            raise TextError(f"{self.name} has no column {self._column!r}: choose one of {', '.join(columns)}.")

    def documents(self, max_sentences: int, report: Report) -> Iterator[list[str]]:
        number = 0
        for texts in self._read(report):
            for text in texts:
                if isinstance(text, str):
                    sentences = [sentence for line in text.split("\n") if (sentence := line.strip())]
                    for first in range(0, len(sentences), max_sentences):
                        yield sentences[first : first + max_sentences]
                elif text is not None:
                    raise TextError(
                        f"{self.name}, row {number}: the column {self._column!r} holds no text but {text!r:.60}."
                    )
                number += 1

    def _read(self, report: Report) -> Iterator[list]:
        """The column, many rows at a time."""
        reading = f"{self.name} cannot be read"
        with _one_line_errors(reading, Exception):
            batches = iter(self._dataset.iter(batch_size=ROWS))
        position = 0
        while True:
            with _one_line_errors(reading, Exception):
                batch = next(batches, None)
            if batch is None:
                break
            self._check_columns(batch)
            texts = batch[self._column]
            if self._rows and self.size:  # rows are counted, bytes are reported
                report((position + len(texts)) * self.size // self._rows - position * self.size // self._rows)
                position += len(texts)
            else:
                report(sum(len(text) for text in texts if isinstance(text, str)))
            yield texts


def _import_datasets(source: str) -> ModuleType:
    try:
        return importlib.import_module("datasets")
    except ImportError as error:
        raise TextError(f"To read {source} as a dataset a package is needed: pip install datasets") from error


def _saved_dataset(folder: str, column: str, split: str) -> _DatasetShard:
    datasets = _import_datasets(folder)
    with _one_line_errors(f"The dataset {folder} cannot be loaded", Exception):
        dataset = datasets.load_from_disk(folder)
    if isinstance(dataset, dict):
        if split not in dataset:
            raise TextError(f"The dataset {folder} has no split {split!r}: choose one of {', '.join(dataset)}.")
        dataset = dataset[split]
    return _DatasetShard(folder, os.path.realpath(folder), dataset, column)


def _streamed_dataset(name: str, column: str, split: str) -> _DatasetShard:
    datasets = _import_datasets(name)
    path, _, config = name.partition(":")
    problem = f"{name} is no file and no folder, and a dataset of this name cannot be loaded"
    with _one_line_errors(problem, Exception):
        dataset = datasets.load_dataset(path, config or None, split=split, streaming=True)
    return _DatasetShard(name, name, dataset, column)


# ---- sources

# What is read from beginning to end. The identity of two is the same if they are one text under two names.
_Shard = _FileShard | _DatasetShard


def _find_shards(source: Source, column: str, split: str) -> list[_Shard]:
    """What a source stands for; never nothing."""
    path = os.fspath(source)
    if os.path.exists(path):
        shards = _shards_at(path, column, split)
        if not shards:
            raise TextError(f"The folder {path} holds no files (other than those that start with '.' or '_').")
        return shards
    if glob.has_magic(path):
        shards = [shard for match in glob.glob(path, recursive=True) for shard in _shards_at(match, column, split)]
        if not shards:
            raise TextError(f"No file matches {path}.")
        return shards
    if isinstance(source, str) and _may_be_dataset(path):
        return [_streamed_dataset(path, column, split)]
    raise TextError(f"No such file or folder: {path or repr(path)}.")


def _may_be_dataset(name: str) -> bool:
    """Whether a path that does not exist could be a dataset on the Hub, rather than a misspelt file."""
    if not HUB_NAME.fullmatch(name) or FILE_NAME.fullmatch(os.path.splitext(name)[1].lower()):
        return False
    folder = os.path.dirname(name)
    return not (folder and os.path.exists(folder))


def _shards_at(path: str, column: str, split: str) -> list[_Shard]:
    """What an existing path stands for."""
    if not os.path.isdir(path):
        return [_FileShard(path)]
    with _one_line_errors(f"{path} cannot be read", OSError):
        names = set(os.listdir(path))
    if any(names >= files for files in SAVED_DATASET):
        return [_saved_dataset(path, column, split)]
    return [_FileShard(file) for file in _files_below(path)]


def _files_below(folder: str) -> Iterator[str]:
    seen = {os.path.realpath(folder)}  # a link may lead into a circle

    def is_new(path: str) -> bool:
        before = len(seen)
        seen.add(os.path.realpath(path))
        return len(seen) > before

    def fail(error: OSError):
        raise TextError(f"{folder} cannot be read: {_in_one_line(error)}") from error

    for root, folders, files in os.walk(folder, onerror=fail, followlinks=True):
        folders[:] = [name for name in sorted(folders) if name[0] not in "._" and is_new(os.path.join(root, name))]
        yield from (os.path.join(root, name) for name in files if name[0] not in "._")


# ---- errors


@contextmanager
def _one_line_errors(problem: str, kind: type[Exception]) -> Generator[None]:
    try:
        yield
    except TextError:
        raise
    except kind as error:
        raise TextError(f"{problem}: {_in_one_line(error)}") from error


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


__all__ = ["Corpus", "TextError", "split_words"]
