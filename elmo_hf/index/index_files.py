"""The files of an index: vectors, the words they belong to, and the sentences. They are mapped, and read on demand."""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import FolderError

VECTORS, OCCURRENCES, SENTENCES, TEXT = "vectors.npy", "occurrences.npy", "sentences.npy", "sentences.txt"

# An occurrence: the row of its sentence, the key of the word, its position in the sentence and its offsets.
OCCURRENCE = np.dtype([("sentence", "<u8"), ("word", "<u8"), ("position", "<u4"), ("start", "<u4"), ("end", "<u4")])
# A sentence: its bytes in the text file, and its index in the corpus.
SENTENCE = np.dtype([("start", "<u8"), ("end", "<u8"), ("number", "<u8")])


def word_key(word: str) -> int:
    """A 64-bit hash that represents a word in the index. Case is ignored."""
    return int.from_bytes(blake2b(_encode(word.casefold()), digest_size=8).digest(), "little")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# ---- writing


class ArrayWriter:
    """
    Writes a `.npy` file row by row. The number of rows need not be known in advance.

    Args:
        path: The file; an existing one is replaced.
        dtype: The dtype of the values.
        shape: The shape of a row.
    """

    def __init__(self, path: Path, dtype: np.dtype, shape: tuple[int, ...] = ()):
        self._dtype, self._shape = dtype, shape
        self._file = open(path, "wb")  # noqa: SIM115 (closed by `close`)
        self.rows = 0
        self._write_header()

    def append(self, rows: np.ndarray):
        """Writes rows, `(rows, *shape)`."""
        self._file.write(rows.astype(self._dtype, copy=False).tobytes())
        self.rows += len(rows)

    def close(self):
        """Writes the final number of rows into the header, and closes the file."""
        with self._file:
            self._file.seek(0)
            self._write_header()

    def _write_header(self):
        # NumPy leaves room for more digits in the first dimension, so that the header can be overwritten.
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.rows, *self._shape),
        }
        np.lib.format.write_array_header_1_0(self._file, header)


class IndexWriter:
    """
    Writes sentences and the vectors of their words. Nothing stays in memory.

    Args:
        folder: The folder to write to.
        size: The size of a vector.
        dtype: The dtype of the stored vectors.
    """

    def __init__(self, folder: Path, size: int, dtype: np.dtype):
        with ExitStack() as files:
            self._text = files.enter_context(open(folder / TEXT, "wb"))
            self._sentences = ArrayWriter(folder / SENTENCES, SENTENCE)
            files.callback(self._sentences.close)
            self._occurrences = ArrayWriter(folder / OCCURRENCES, OCCURRENCE)
            files.callback(self._occurrences.close)
            self._vectors = ArrayWriter(folder / VECTORS, dtype, (size,))
            files.callback(self._vectors.close)
            self._files = files.pop_all()
        self._bytes = 0

    @property
    def occurrences(self) -> int:
        """The number of occurrences written."""
        return self._occurrences.rows

    @property
    def sentences(self) -> int:
        """The number of sentences written."""
        return self._sentences.rows

    def add(self, sentence: str, sentence_index: int, words: list[tuple[int, int, int]], vectors: np.ndarray):
        """
        Adds the words of a sentence.

        Args:
            sentence: The text of the sentence.
            sentence_index: The index of the sentence in the corpus.
            words: The position, start and end of each word in the sentence.
            vectors: The unit vectors of the words, `(words, size)`.
        """
        places = [(self.sentences, word_key(sentence[start:end]), place, start, end) for place, start, end in words]
        self._occurrences.append(np.array(places, OCCURRENCE))
        self._vectors.append(vectors)
        line = _encode(sentence)
        self._sentences.append(np.array([(self._bytes, self._bytes + len(line), sentence_index)], SENTENCE))
        self._bytes += self._text.write(line + b"\n")

    def close(self):
        """Completes and closes the files."""
        self._files.close()


# ---- reading


class Place(NamedTuple):
    """
    The place of an occurrence in the corpus.

    Attributes:
        sentence: The text of the sentence.
        sentence_index: The index of the sentence in the corpus.
        position: The index of the word in the sentence.
        start, end: The offsets of the word in the sentence.
    """

    sentence: str
    sentence_index: int
    position: int
    start: int
    end: int


class IndexFiles:
    """
    The files that [`IndexWriter`] has written, mapped into memory.

    Args:
        folder: The folder of the files.
        occurrences, sentences, size, dtype: The shapes and the dtype that the files must have.

    Attributes:
        vectors (`np.ndarray` of shape `(occurrences, size)`): The unit vectors.
        keys (`np.ndarray` of shape `(occurrences,)`): The [`word_key`] of each occurrence.
    """

    def __init__(self, folder: Path, occurrences: int, sentences: int, size: int, dtype: np.dtype):
        self._folder = folder
        self.vectors = self._open(VECTORS, dtype, (occurrences, size))
        self._places = self._open(OCCURRENCES, OCCURRENCE, (occurrences,))
        self.keys = self._places["word"]
        self._sentences = self._open(SENTENCES, SENTENCE, (sentences,))
        with self._damage(TEXT):
            self._text = np.memmap(folder / TEXT, np.uint8, "r")
            if len(self._text) != int(self._sentences[-1]["end"]) + 1:
                raise ValueError("its length")

    def place(self, row: int) -> Place:
        """The place of the occurrence in a row."""
        _, _, position, start, end = self._places[row].item()
        with self._damage(OCCURRENCES):
            first, last, sentence_index = self._sentences[int(self._places[row]["sentence"])].item()
        with self._damage(TEXT):
            sentence = self._text[first:last].tobytes().decode("utf-8", "surrogatepass")
            if not start <= end <= len(sentence):
                raise ValueError("the place of a word")
        return Place(sentence, sentence_index, position, start, end)

    def _open(self, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        with self._damage(name):
            # "c" maps privately: nothing is ever written, but torch warns about read-only arrays.
            array: Any = np.load(self._folder / name, mmap_mode="c", allow_pickle=False)
            if array.dtype != dtype or array.shape != shape:
                raise ValueError(f"{array.dtype} {array.shape}")
            return array

    @contextmanager
    def _damage(self, name: str) -> Generator[None]:
        try:
            yield
        except Exception as error:  # NumPy parses the header as Python: SyntaxError, TokenError, MemoryError ...
            path = os.path.join(self._folder, name)
            raise FolderError(f"{path} is missing or damaged: build the index again ({error}).") from error


__all__ = ["ArrayWriter", "IndexFiles", "IndexWriter", "Place", "word_key"]
