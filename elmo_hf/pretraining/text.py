"""
Streams text for pretraining: documents of sentences from files, folders, globs and datasets.

A text file, plain or compressed, has one sentence per line and a blank line between documents. Each row of a table
(JSON lines, CSV, TSV, Parquet) or a dataset is a document. Only the current document and the block it was read from are
in memory.
"""

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ..corpus.readers import ReadingOptions
from ..data.tables import kind_of, without_errors
from ..data.text_sources import (
    LONGEST_LINE,
    DatasetColumns,
    Report,
    in_one_line,
    is_saved_dataset,
    load_named_dataset,
    load_saved_dataset,
    may_be_dataset,
    one_line_errors,
    read_lines,
    split_words,
)
from ..errors import TextError

Source = str | os.PathLike[str]

COLUMNS = ("text", "sentence")  # usual names of the column with the text
TABLES = ("jsonl", "csv", "tsv", "parquet")
FINGERPRINT_BLOCKS, FINGERPRINT_BYTES = 16, 1 << 16


class Corpus:
    """
    Documents from files, folders, globs and datasets.

    Args:
        sources: One or more sources. A source is a file of text or a table (`.jsonl`, `.csv`, `.tsv`, `.parquet`),
            plain or compressed with gzip, xz, bzip2 or Zstandard; a folder, for all files below it except those whose
            name, or whose folder's name, starts with `.` or `_`; a glob pattern, which may contain `**`; a folder
            written by `save_to_disk` of the `datasets` library; or, if there is no such path, the name of a dataset on
            the Hub, as `name` or `name:config`, whose rows are streamed.
        column: The column of a table or a dataset that holds the text. Default: "text" or "sentence".
        split: The split of a dataset that has several.
        max_sentences: The maximum number of sentences per document. Longer documents are split, and in files of text
            also those of more than 4 MiB, so that a file without blank lines can be streamed too.

    Attributes:
        shards (`list[str]`): The names of the files and datasets, sorted and without duplicates. This is the order of
            the text.
        kinds (`set[str]`): The kinds of the shards, as in [`kind_of`].
    """

    def __init__(
        self,
        sources: Source | Sequence[Source],
        *,
        column: str | None = None,
        split: str = "train",
        max_sentences: int = 1000,
    ):
        if max_sentences < 1:
            raise ValueError(f"`max_sentences` must be 1 or more, found {max_sentences}.")
        source_list: list[Source] = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
        if not source_list:
            raise TextError("No text was given: name files, folders, glob patterns or datasets.")
        all_shards = [shard for source in source_list for shard in _find_shards(source, column, split)]
        shards: dict[object, _Shard] = {}
        for shard in sorted(all_shards, key=lambda shard: shard.name):
            shards.setdefault(shard.identity, shard)
        self._shards = list(shards.values())
        self._sources = ", ".join(os.fspath(source) for source in source_list)
        self._max_sentences = max_sentences
        self.shards = [shard.name for shard in self._shards]
        self.kinds = {shard.kind for shard in self._shards}

    @property
    def size(self) -> int | None:
        """The size in bytes, for a progress bar. `None` if the length of a dataset is unknown."""
        sizes = [shard.size for shard in self._shards]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def fingerprints(self) -> list[str | None]:
        """
        A fingerprint of each shard, to detect that its text has changed: for a file its size and a digest of blocks
        spread over it, for a dataset its own fingerprint. `None` if there is none, as for a stream.
        """
        return [shard.fingerprint() for shard in self._shards]

    def documents(self, shard: int, start: int = 0, *, report: Report | None = None) -> Iterator[list[str]]:
        """
        Yields the documents of a shard, each a list of one or more sentences, stripped of white space.

        Args:
            shard: The index of the shard in `shards`.
            start: The number of documents to skip at the beginning.
            report: Called with the number of bytes read since the last call, out of `size`.
        """
        documents = self._shards[shard].documents(self._max_sentences, report or (lambda _: None))
        return islice(documents, start, None)

    def sentences(self, *, report: Report | None = None) -> Iterator[str]:
        """Yields all sentences, in the order of the shards. Raises a `TextError` if there is none."""
        empty = True
        for shard in range(len(self.shards)):
            for document in self.documents(shard, report=report):
                yield from document
                empty = False
        if empty:
            raise TextError(f"There is not a single sentence in {self._sources}: only empty files, or blank lines.")


# ---- files


class _FileShard:
    kind = "text"

    def __init__(self, path: str):
        self.name = path
        self.identity = os.path.realpath(path)

    @property
    def size(self) -> int:
        with one_line_errors(f"{self.name} cannot be read", OSError):
            return os.path.getsize(self.name)

    def fingerprint(self) -> str:
        digest, size = hashlib.sha256(), self.size
        with one_line_errors(f"{self.name} cannot be read", OSError), open(self.name, "rb") as file:
            for block in range(FINGERPRINT_BLOCKS):  # the first one at the start, the last one at the end
                file.seek(max(size - FINGERPRINT_BYTES, 0) * block // (FINGERPRINT_BLOCKS - 1))
                digest.update(file.read(FINGERPRINT_BYTES))
        return f"{size}:{digest.hexdigest()[:32]}"

    def documents(self, max_sentences: int, report: Report) -> Iterator[list[str]]:
        document: list[str] = []
        size = 0  # characters of the document
        for lines in read_lines(self.name, report):
            for sentence in map(str.strip, lines):
                if sentence:
                    document.append(sentence)
                    size += len(sentence)
                    if len(document) < max_sentences and size < LONGEST_LINE:
                        continue
                if document:
                    yield document
                    document, size = [], 0
        if document:
            yield document


# ---- tables and datasets


class _TableShard(_FileShard):
    def __init__(self, path: str, kind: str, column: str | None):
        super().__init__(path)
        self.kind, self._column = kind, column

    def documents(self, max_sentences: int, report: Report) -> Iterator[list[str]]:
        for record in without_errors(ReadingOptions(column=self._column).open(self.name).read(report)):
            if record.words:
                raise TextError(f"{self.name} has lists of words where texts should be: choose another column.")
            yield from _documents_of(record.text, max_sentences)


class _DatasetShard:
    kind = "dataset"

    def __init__(self, name: str, identity: str, dataset: Any, column: str | None):
        self.name = name
        self.identity = ("dataset", identity)
        self._column = column
        self._values = DatasetColumns(name, dataset, self._choose)
        self._fingerprint: str | None = getattr(dataset, "_fingerprint", None)  # `datasets` computes it for its cache
        self.size = self._values.size

    def fingerprint(self) -> str | None:
        return self._fingerprint

    def _choose(self, columns: Sequence[str]) -> list[str]:
        usual = COLUMNS if self._column is None else (self._column,)
        chosen = next((name for name in usual if name in columns), None)
        if chosen is None:
            names = " or ".join(map(repr, usual))
            raise TextError(f"{self.name} has no column {names}: choose one of {', '.join(columns)}.")
        return [chosen]

    def documents(self, max_sentences: int, report: Report) -> Iterator[list[str]]:
        row = 0
        for columns in self._values.read(report):
            ((column, texts),) = columns.items()
            for text in texts:
                if isinstance(text, str):
                    yield from _documents_of(text, max_sentences)
                elif text is not None:
                    raise TextError(f"{self.name}, row {row}: the column {column!r} holds no text but {text!r:.60}.")
                row += 1


def _documents_of(text: str, max_sentences: int) -> Iterator[list[str]]:
    """The lines of a row's text, as one document or, if there are too many, several."""
    sentences = [sentence for line in text.split("\n") if (sentence := line.strip())]
    for first in range(0, len(sentences), max_sentences):
        yield sentences[first : first + max_sentences]


# ---- sources

# A unit of text that is read from beginning to end. Two shards with the same identity are one text under two names.
_Shard = _FileShard | _DatasetShard


def _find_shards(source: Source, column: str | None, split: str) -> list[_Shard]:
    """The shards of a source: at least one."""
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
    if isinstance(source, str) and may_be_dataset(path):
        return [_DatasetShard(path, path, load_named_dataset(path, split, streaming=True), column)]
    raise TextError(f"No such file or folder: {path or repr(path)}.")


def _shards_at(path: str, column: str | None, split: str) -> list[_Shard]:
    """The shards at an existing path."""
    if not os.path.isdir(path):
        return [_file_shard(path, column)]
    if is_saved_dataset(path):
        return [_DatasetShard(path, os.path.realpath(path), load_saved_dataset(path, split), column)]
    return [_file_shard(file, column) for file in _files_below(path)]


def _file_shard(path: str, column: str | None) -> _FileShard:
    kind = kind_of(path)
    if kind in TABLES:
        return _TableShard(path, kind, column)
    if kind != "text":
        raise TextError(
            f"{path} holds words or sequences ({kind}), not text: write one sentence per line into a .txt file."
        )
    return _FileShard(path)


def _files_below(folder: str) -> Iterator[str]:
    seen = {os.path.realpath(folder)}  # symbolic links may form a cycle

    def is_new(path: str) -> bool:
        before = len(seen)
        seen.add(os.path.realpath(path))
        return len(seen) > before

    def fail(error: OSError):
        raise TextError(f"{folder} cannot be read: {in_one_line(error)}") from error

    for root, folders, files in os.walk(folder, onerror=fail, followlinks=True):
        folders[:] = [name for name in sorted(folders) if name[0] not in "._" and is_new(os.path.join(root, name))]
        yield from (os.path.join(root, name) for name in files if name[0] not in "._")


__all__ = ["Corpus", "TextError", "split_words"]
