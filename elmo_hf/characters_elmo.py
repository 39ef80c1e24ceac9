# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Words as rows of character ids, as the original has them.

A word is its UTF-8 bytes (ids 1 to 256) between a begin and an end mark, filled up with a pad character:
`[begin, byte, ..., byte, end, pad, ..., pad]`. What does not fit is cut after encoding, so that a character may be
split. A row of zeros is no word. Lone surrogates have no bytes and are left out.
"""

from collections.abc import Callable, Sequence

import numpy as np

# The original's 256 to 260 plus one: 0 is the padding of a whole word.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, CHAR_PAD = 257, 258, 259, 260, 261


def char_rows(words: Sequence[str], slots: int = 50) -> np.ndarray:
    """
    Character ids of `words`.

    Args:
        words: Any strings; an empty one has its two marks.
        slots: Ids per word, marks included.

    Returns:
        `(len(words), slots)`, int16.
    """
    pieces = [word.encode("utf-8", "ignore")[: slots - 2] for word in words]
    lengths = np.fromiter(map(len, pieces), dtype=np.intp, count=len(pieces))
    rows = np.full((len(pieces), slots), CHAR_PAD, dtype=np.int16)
    rows[:, 0] = BEGIN_WORD
    within = np.arange(slots - 2) < lengths[:, None]
    rows[:, 1:-1][within] = np.frombuffer(b"".join(pieces), dtype=np.uint8).astype(np.int16) + 1
    rows[np.arange(len(pieces)), lengths + 1] = END_WORD
    return rows


class SpelledVocabulary:
    """
    The rows of a vocabulary's words by their ids, each spelled when it is first asked for.

    Args:
        size: Number of words.
        word_of: id → word.
        slots: Ids per word, marks included.
    """

    def __init__(self, size: int, word_of: Callable[[int], str], slots: int = 50):
        self._word_of = word_of
        self._rows = np.zeros((size, slots), dtype=np.int16)  # costs no memory before it is written
        self._is_spelled = np.zeros(size, dtype=bool)

    def __getitem__(self, ids: np.ndarray) -> np.ndarray:
        """`(words,)` → `(words, slots)`, int16."""
        if not (is_spelled := self._is_spelled[ids]).all():
            new = np.unique(ids[~is_spelled])
            self._rows[new] = char_rows([self._word_of(number) for number in new.tolist()], self._rows.shape[1])
            self._is_spelled[new] = True
        return self._rows[ids]


def boundary_row(character: int, slots: int = 50) -> np.ndarray:
    """The row of `<S>` (`BEGIN_SENTENCE`) or `</S>` (`END_SENTENCE`): that character as a word, `(slots,)`."""
    row = np.full(slots, CHAR_PAD, dtype=np.int16)
    row[:3] = BEGIN_WORD, character, END_WORD
    return row


def word_of_row(row: np.ndarray) -> str:
    """
    The word of a row made by [`char_rows`]. Of a word that was cut, the part that fits, whole characters only.

    Args:
        row: `(slots,)`, neither a boundary nor padding.
    """
    end = int(np.argmax(row == END_WORD))
    return (row[1:end] - 1).astype(np.uint8).tobytes().decode("utf-8", "ignore")


def are_char_rows(ids: np.ndarray) -> bool:
    """
    Whether a matrix of ids has the form of character rows: each is padding, or a begin mark, bytes or a boundary, one
    end mark, and pads. This tells them from a batch of word ids.

    Args:
        ids: `(rows, columns)`, integers.
    """
    if ids.ndim != 2 or ids.shape[1] < 3 or ids.size == 0:
        return False
    rows = ids[ids.any(axis=1)]  # without padding
    ends = rows == END_WORD
    after = np.cumsum(ends, axis=1) - ends > 0  # behind the end mark
    return bool(
        len(rows)
        and (rows[:, 0] == BEGIN_WORD).all()
        and (ends.sum(axis=1) == 1).all()
        and (rows[after] == CHAR_PAD).all()
        and ((rows[:, 1:] < BEGIN_WORD) & (rows[:, 1:] > 0) | ends[:, 1:] | after[:, 1:]).all()
    )


__all__ = ["SpelledVocabulary", "are_char_rows", "boundary_row", "char_rows", "word_of_row"]
