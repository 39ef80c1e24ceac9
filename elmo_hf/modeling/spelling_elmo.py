# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Words as rows of character ids, in two spellings: the original's UTF-8 bytes, and Unicode code points with a table of
their own, as in ELMoForManyLangs (https://github.com/HIT-SCIR/ELMoForManyLangs).

In both, a row is a begin mark, the word's characters, an end mark, and pad characters; a row of zeros is the padding of
a batch, and a boundary of a sentence is a word of one character that no text has.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from .encoding_elmo import (
    BEGIN_SENTENCE,
    CHAR_PAD,
    END_SENTENCE,
    are_char_rows,
    boundary_row,
    char_rows,
    word_of_row,
)

# The characters that every table of code points has, beside those of texts. ELMoForManyLangs puts `<eow>` before a word
# and `<bow>` after it, and was trained so.
BEGIN_WORD, END_WORD, UNKNOWN, PAD = "<eow>", "<bow>", "<oov>", "<pad>"
BOUNDARIES = ("<bos>", "<eos>")
SPECIAL_CHARACTERS = (*BOUNDARIES, UNKNOWN, PAD, BEGIN_WORD, END_WORD)
MOST_CHARACTERS = 10**6
REPLACEMENT = "\ufffd"  # in place of a character that the table does not have


class ByteSpelling:
    """UTF-8 bytes: ids 1 to 256, then the marks. See [`char_rows`]."""

    begin_sentence, end_sentence, pad, size = BEGIN_SENTENCE, END_SENTENCE, CHAR_PAD, CHAR_PAD + 1
    dtype = np.int16

    def rows(self, words: Sequence[str], slots: int) -> np.ndarray:
        """`(words, slots)`"""
        return char_rows(words, slots)

    def boundary(self, character: int, slots: int) -> np.ndarray:
        """The row of a boundary, `(slots,)`; `character` is `begin_sentence` or `end_sentence`."""
        return boundary_row(character, slots)

    def word(self, row: np.ndarray) -> str:
        """The word of a row that is neither a boundary nor padding, as far as it fits."""
        return word_of_row(row)

    def are_rows(self, ids: np.ndarray) -> bool:
        """Whether a matrix of ids holds character rows rather than a batch of word ids."""
        return are_char_rows(ids)


class SpelledVocabulary:
    """
    The character rows of a vocabulary by word id. A row is computed when it is first asked for.

    Args:
        size: Words in the vocabulary.
        word_of: id → word.
        slots: Ids per word, marks included.
        spelling: How words are spelled. Default: as bytes.
    """

    def __init__(self, size: int, word_of: Callable[[int], str], slots: int = 50, spelling: ByteSpelling | None = None):
        self._word_of = word_of
        self._spelling = spelling or ByteSpelling()
        self._rows = np.zeros((size, slots), dtype=self._spelling.dtype)  # memory is taken when it is written
        self._is_spelled = np.zeros(size, dtype=bool)

    def __getitem__(self, ids: np.ndarray) -> np.ndarray:
        """`(words,)` → `(words, slots)`"""
        if not (is_spelled := self._is_spelled[ids]).all():
            new = np.unique(ids[~is_spelled])
            words = [self._word_of(word_id) for word_id in new.tolist()]
            self._rows[new] = self._spelling.rows(words, self._rows.shape[1])
            self._is_spelled[new] = True
        return self._rows[ids]


def distinct_rows(words: Sequence[str], slots: int, spelling: ByteSpelling) -> np.ndarray:
    """As `spelling.rows`, but each distinct word is encoded once."""
    index = {word: place for place, word in enumerate(dict.fromkeys(words))}
    places = np.fromiter(map(index.__getitem__, words), dtype=np.intp, count=len(words))
    return spelling.rows(list(index), slots)[places]


class CodePointSpelling(ByteSpelling):
    """
    Code points: the id of a character is its place in the table plus one.

    Args:
        characters: The table, `SPECIAL_CHARACTERS` among its entries. Entries of several characters are marks.
    """

    dtype = np.int32

    def __init__(self, characters: Sequence[str]):
        check_characters(characters)
        ids = {character: place + 1 for place, character in enumerate(characters)}
        self.size = len(characters) + 1
        self.begin_sentence, self.end_sentence = (ids[name] for name in BOUNDARIES)
        self.begin_word, self.end_word = ids[BEGIN_WORD], ids[END_WORD]
        self.unknown, self.pad = ids[UNKNOWN], ids[PAD]
        single = sorted((ord(character), place) for character, place in ids.items() if len(character) == 1)
        self._codes, self._ids = np.array(single or [(0, self.unknown)], dtype=np.int64).T
        self._characters = ["", *(c if len(c) == 1 else REPLACEMENT for c in characters)]

    def rows(self, words: Sequence[str], slots: int) -> np.ndarray:
        words = [word[: slots - 2] for word in words]
        lengths = np.fromiter(map(len, words), dtype=np.intp, count=len(words))
        rows = np.full((len(words), slots), self.pad, dtype=self.dtype)
        rows[:, 0] = self.begin_word
        is_character = np.arange(slots - 2) < lengths[:, None]  # (words, slots - 2)
        rows[:, 1:-1][is_character] = self._lookup("".join(words))
        rows[np.arange(len(words)), lengths + 1] = self.end_word
        return rows

    def _lookup(self, text: str) -> np.ndarray:
        """The ids of a text's characters, `(characters,)`."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[places] == codes, self._ids[places], self.unknown)

    def boundary(self, character: int, slots: int) -> np.ndarray:
        row = np.full(slots, self.pad, dtype=self.dtype)
        row[:3] = self.begin_word, character, self.end_word
        return row

    def word(self, row: np.ndarray) -> str:
        end = int(np.argmax(row == self.end_word))
        return "".join(self._characters[character] for character in row[1:end].tolist())

    def are_rows(self, ids: np.ndarray) -> bool:
        if ids.ndim != 2 or ids.shape[1] < 3 or ids.size == 0:
            return False
        rows = ids[ids.any(axis=1)]  # without padding
        is_end = rows == self.end_word
        after_end = np.cumsum(is_end, axis=1) - is_end > 0
        return bool(
            len(rows)
            and (rows[:, 0] == self.begin_word).all()
            and (is_end.sum(axis=1) == 1).all()
            and (rows[after_end] == self.pad).all()
            and (rows < self.size).all()
            and (rows > 0).all()
        )


def check_characters(characters: Sequence[str]):
    """Refuses a table of characters that is none."""
    if not isinstance(characters, (list, tuple)) or not all(isinstance(entry, str) and entry for entry in characters):
        raise ValueError(f"`characters` must be a list of characters, found {characters!r:.60}.")
    if len(characters) > MOST_CHARACTERS:
        raise ValueError(f"`characters` must have {MOST_CHARACTERS} entries or less, found {len(characters)}.")
    if missing := [name for name in SPECIAL_CHARACTERS if name not in set(characters)]:
        raise ValueError(f"`characters` lacks {', '.join(missing)}.")
    double = [character for character, count in Counter(characters).items() if count > 1]
    if double:
        raise ValueError(f"`characters` holds {double[0]!r} twice.")


__all__ = [
    "BOUNDARIES",
    "SPECIAL_CHARACTERS",
    "ByteSpelling",
    "CodePointSpelling",
    "SpelledVocabulary",
    "check_characters",
    "distinct_rows",
]
