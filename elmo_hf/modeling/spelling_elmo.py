# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Words as rows of character ids, in two spellings: the original's UTF-8 bytes, and Unicode code points with a table of
their own, as in ELMoForManyLangs (https://github.com/HIT-SCIR/ELMoForManyLangs).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

# The characters that every table of code points has, beside those of texts. ELMoForManyLangs puts `<eow>` before a word
# and `<bow>` after it, and was trained so.
BEGIN_WORD, END_WORD, UNKNOWN, PAD = "<eow>", "<bow>", "<oov>", "<pad>"
BOUNDARIES = ("<bos>", "<eos>")
SPECIAL_CHARACTERS = (*BOUNDARIES, UNKNOWN, PAD, BEGIN_WORD, END_WORD)
MAX_CHARACTERS = 10**6
REPLACEMENT = "\ufffd"  # in place of a character that the table does not have


class Spelling:
    """
    The base class of spellings. A word is the row `[begin_word, character, ..., character, end_word, pad, ..., pad]`;
    characters that do not fit are cut off. A sentence boundary is a word with a single character that no text has. A
    row of zeros is the padding of a batch.

    Attributes:
        begin_sentence, end_sentence, begin_word, end_word, pad (`int`): The ids of the marks.
        size (`int`): The number of ids, 0 included.
        dtype: The type of the rows.
    """

    begin_sentence: int
    end_sentence: int
    begin_word: int
    end_word: int
    pad: int
    size: int
    dtype: type[np.signedinteger]

    def _spell(self, words: Sequence[str], max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """The number of characters of each word `(words,)`, at most `max_length`, and all their ids `(characters,)`."""
        raise NotImplementedError

    def word(self, row: np.ndarray) -> str:
        """The word of a row `(slots,)` that is neither a boundary nor padding; the part that fits into the row."""
        raise NotImplementedError

    def rows(self, words: Sequence[str], slots: int) -> np.ndarray:
        """
        Args:
            words: Any strings; the row of an empty one has only the two marks.
            slots: Ids per word, marks included.

        Returns:
            `(words, slots)`
        """
        lengths, ids = self._spell(words, slots - 2)
        rows = np.full((len(words), slots), self.pad, dtype=self.dtype)
        rows[:, 0] = self.begin_word
        is_character = np.arange(slots - 2) < lengths[:, None]  # (words, slots - 2)
        rows[:, 1:-1][is_character] = ids
        rows[np.arange(len(words)), lengths + 1] = self.end_word
        return rows

    def boundary(self, character: int, slots: int) -> np.ndarray:
        """The row of a boundary, `(slots,)`; `character` is `begin_sentence` or `end_sentence`."""
        row = np.full(slots, self.pad, dtype=self.dtype)
        row[:3] = self.begin_word, character, self.end_word
        return row

    def are_rows(self, ids: np.ndarray) -> bool:
        """
        Whether a matrix of ids holds character rows rather than a batch of word ids: each row is padding, or a begin
        mark, characters, one end mark, and pad characters.

        Args:
            ids: `(rows, columns)`, integers.
        """
        if ids.ndim != 2 or ids.shape[1] < 3 or ids.size == 0:
            return False
        rows = ids[ids.any(axis=1)]  # without padding
        is_end = rows == self.end_word
        after_end = np.cumsum(is_end, axis=1) - is_end > 0
        is_character = (rows > 0) & (rows < self.size) & (rows != self.begin_word) & (rows != self.pad)
        return bool(
            len(rows)
            and (rows[:, 0] == self.begin_word).all()
            and (is_end.sum(axis=1) == 1).all()
            and (rows[after_end] == self.pad).all()
            and (is_character | after_end)[:, 1:].all()
        )


class ByteSpelling(Spelling):
    """
    UTF-8 bytes: the ids 1 to 256, then the marks, which are the original's plus one. Bytes that do not fit are cut off,
    possibly within a character. Lone surrogates have no bytes and are left out.
    """

    begin_sentence, end_sentence, begin_word, end_word, pad, size = 257, 258, 259, 260, 261, 262
    dtype = np.int16

    def _spell(self, words: Sequence[str], max_length: int) -> tuple[np.ndarray, np.ndarray]:
        pieces = [word.encode("utf-8", "ignore")[:max_length] for word in words]
        lengths = np.fromiter(map(len, pieces), dtype=np.intp, count=len(pieces))
        return lengths, np.frombuffer(b"".join(pieces), dtype=np.uint8).astype(self.dtype) + 1

    def word(self, row: np.ndarray) -> str:
        end = int(np.argmax(row == self.end_word))
        return (row[1:end] - 1).astype(np.uint8).tobytes().decode("utf-8", "ignore")


class CodePointSpelling(Spelling):
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

    def _spell(self, words: Sequence[str], max_length: int) -> tuple[np.ndarray, np.ndarray]:
        words = [word[:max_length] for word in words]
        lengths = np.fromiter(map(len, words), dtype=np.intp, count=len(words))
        codes = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return lengths, np.where(self._codes[places] == codes, self._ids[places], self.unknown)

    def word(self, row: np.ndarray) -> str:
        end = int(np.argmax(row == self.end_word))
        return "".join(self._characters[character] for character in row[1:end].tolist())


def character_table(words: Iterable[str]) -> list[str]:
    """The table of the characters of some words, in the order in which they occur."""
    characters = dict.fromkeys(character for word in words for character in word)
    return [*SPECIAL_CHARACTERS, *characters]


def check_characters(characters: Sequence[str]):
    """Refuses a table that is malformed or lacks a special character."""
    if not isinstance(characters, (list, tuple)) or not all(isinstance(entry, str) and entry for entry in characters):
        raise ValueError(f"`characters` must be a list of characters, found {characters!r:.60}.")
    if len(characters) > MAX_CHARACTERS:
        raise ValueError(f"`characters` must have {MAX_CHARACTERS} entries or fewer, found {len(characters)}.")
    if missing := [name for name in SPECIAL_CHARACTERS if name not in set(characters)]:
        raise ValueError(f"`characters` lacks {', '.join(missing)}.")
    double = [character for character, count in Counter(characters).items() if count > 1]
    if double:
        raise ValueError(f"`characters` holds {double[0]!r} twice.")


class SpelledVocabulary:
    """
    The character rows of a vocabulary by word id. A row is computed when it is first asked for.

    Args:
        size: Words in the vocabulary.
        word_of: id → word.
        slots: Ids per word, marks included.
        spelling: How words are spelled. Default: as bytes.
    """

    def __init__(self, size: int, word_of: Callable[[int], str], slots: int = 50, spelling: Spelling | None = None):
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


def spell_distinct(words: Sequence[str], slots: int, spelling: Spelling) -> np.ndarray:
    """As `spelling.rows`, but each distinct word is encoded once."""
    index = {word: place for place, word in enumerate(dict.fromkeys(words))}
    places = np.fromiter(map(index.__getitem__, words), dtype=np.intp, count=len(words))
    return spelling.rows(list(index), slots)[places]


def pad_char_rows(char_ids, num_words: int, length: int, side: str, slots: int) -> np.ndarray:
    """`(num_words, slots)` → `(length, slots)`, with rows of zeros on the given side."""
    rows = np.asarray(char_ids.cpu() if hasattr(char_ids, "cpu") else char_ids, dtype=np.int64)
    if num_words and rows.shape != (num_words, slots):
        raise ValueError(f"`char_ids` must have one row of {slots} for each of {num_words} words, found {rows.shape}.")
    padding = (length - num_words, 0) if side == "left" else (0, length - num_words)
    return np.pad(rows.reshape(num_words, slots), (padding, (0, 0)))


__all__ = [
    "BOUNDARIES",
    "SPECIAL_CHARACTERS",
    "ByteSpelling",
    "CodePointSpelling",
    "SpelledVocabulary",
    "Spelling",
    "character_table",
    "check_characters",
    "pad_char_rows",
    "spell_distinct",
]
