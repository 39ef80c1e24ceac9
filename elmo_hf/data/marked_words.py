"""Reads a sentence in which a word is marked: `they sat on the **bank**`."""

import re
from typing import NamedTuple

from ..errors import TextError

MARKED = re.compile(r"\*\*(.*?)\*\*", re.DOTALL)
EXAMPLE = '"they sat on the **bank** of the river"'


class MarkedWord(NamedTuple):
    """
    A word in a sentence.

    Attributes:
        sentence: The sentence without the marks.
        start, end: The offsets of the word in the sentence.
    """

    sentence: str
    start: int
    end: int


def read_marked(text: str) -> MarkedWord:
    """Finds the word between `**` and `**`. Exactly one word must be marked."""
    marked = list(MARKED.finditer(text))
    if not marked:
        raise TextError(f"No word is marked in {text!r:.200}: put ** on both sides of one, as in {EXAMPLE}.")
    if len(marked) > 1:
        raise TextError(f"{len(marked)} words are marked in {text!r:.200}: mark one, as in {EXAMPLE}.")
    before, word, after = text[: marked[0].start()], marked[0][1], text[marked[0].end() :]
    return MarkedWord(before + word + after, len(before), len(before) + len(word))


__all__ = ["MarkedWord", "read_marked"]
