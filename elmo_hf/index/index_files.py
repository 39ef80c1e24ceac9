"""The files of an index: vectors, the words they are of, and their sentences, each read in place when asked for."""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import FolderError

VECTORS, OCCURRENCES, SENTENCES, TEXT = "vectors.npy", "occurrences.npy", "sentences.npy", "sentences.txt"

# A word's place: the row of its sentence, its number there and its characters; and which word it is.
OCCURRENCE = np.dtype([("sentence", "<u8"), ("word", "<u8"), ("position", "<u4"), ("start", "<u4"), ("end", "<u4")])
# A sentence's bytes in the text, and its number in the corpus.
SENTENCE = np.dtype([("start", "<u8"), ("end", "<u8"), ("number", "<u8")])


def word_key(word: str) -> int:
    """A number for a word, whatever its case. It stands in the index for the word, of which there may be any number."""
    return int.from_bytes(blake2b(_encode(word.casefold()), digest_size=8).digest(), "little")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# ---- writing


class ArrayWriter:
    """
    A `.npy` file that is written row by row, however many there will be.

    Args:
        path: The file; it is replaced.
        dtype: Of the rows' numbers.
        shape: Of a row.
    """

    def __init__(self, path: Path, dtype: np.dtype, shape: tuple[int, ...] = ()):
        self._dtype, self._shape = dtype, shape
        self._file = open(path, "wb")  # noqa: SIM115 (closed by `close`)
        self.rows = 0
        self._write_header()

    def append(self, rows: np.ndarray):
        """Writes rows `(number, *shape)`."""
        self._file.write(rows.astype(self._dtype, copy=False).tobytes())
        self.rows += len(rows)

    def close(self):
        """Writes what is not written yet, the number of rows among it."""
        with self._file:
            self._file.seek(0)
            self._write_header()

    def _write_header(self):
        # NumPy leaves room for more digits in the first number of the shape, so that the header can be written again.
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.rows, *self._shape),
        }
        np.lib.format.write_array_header_1_0(self._file, header)


class IndexWriter:
    """
    Writes sentences and the vectors of their words, of which none stays in memory.

    Args:
        folder: Where the files are written.
        size: Numbers in a vector.
        dtype: Of the vectors in the file.
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
        """How many are written."""
        return self._occurrences.rows

    @property
    def sentences(self) -> int:
        """How many are written."""
        return self._sentences.rows

    def add(self, sentence: str, number: int, words: list[tuple[int, int, int]], vectors: np.ndarray):
        """
        Args:
            sentence: Its text.
            number: In the corpus.
            words: Position, first character and end of each.
            vectors: Theirs, `(words, size)`, of length one.
        """
        places = [(self.sentences, word_key(sentence[start:end]), place, start, end) for place, start, end in words]
        self._occurrences.append(np.array(places, OCCURRENCE))
        self._vectors.append(vectors)
        line = _encode(sentence)
        self._sentences.append(np.array([(self._bytes, self._bytes + len(line), number)], SENTENCE))
        self._bytes += self._text.write(line + b"\n")

    def close(self):
        """Makes the files whole."""
        self._files.close()


# ---- reading


class Place(NamedTuple):
    """
    Where a word stands.

    Attributes:
        sentence: Its text.
        number: The sentence's, in the corpus.
        position: The word's, in the sentence.
        start, end: Its characters.
    """

    sentence: str
    number: int
    position: int
    start: int
    end: int


class IndexFiles:
    """
    What [`IndexWriter`] has written, mapped into memory.

    Args:
        folder: Where the files are.
        occurrences, sentences, size, dtype: What was written.

    Attributes:
        vectors (`np.ndarray` of shape `(occurrences, size)`)
        keys (`np.ndarray` of shape `(occurrences,)`): The words' [`word_key`]s.
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
        """Where the word of a row stands."""
        _, _, position, start, end = self._places[row].item()
        with self._damage(OCCURRENCES):
            first, last, number = self._sentences[int(self._places[row]["sentence"])].item()
        with self._damage(TEXT):
            sentence = self._text[first:last].tobytes().decode("utf-8", "surrogatepass")
            if not start <= end <= len(sentence):
                raise ValueError("the place of a word")
        return Place(sentence, number, position, start, end)

    def _open(self, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        with self._damage(name):
            # "c" is private: nothing is ever written, but torch warns about arrays that could not be.
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
