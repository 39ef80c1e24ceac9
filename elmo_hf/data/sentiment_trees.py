"""
Reads the trees of the Stanford Sentiment Treebank, one per line: `(3 (2 It) (4 (2 's) (4 lovely)))`.

Each bracket has a class from 0 (very negative) to 4 (very positive), and holds a word or further brackets.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import TextError
from .text_sources import Report, lines_or_errors, source_name

CLASSES = ("0", "1", "2", "3", "4")
# How the treebank writes brackets and slashes among the words.
ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
PART = re.compile(r"\(|\)|[^\s()]+")


class Phrase(NamedTuple):
    """
    A phrase of a tree.

    Args:
        words: Its words.
        label: Its class, "0" to "4".
    """

    words: list[str]
    label: str


def sentiment_trees(source: str, report: Report = lambda _: None) -> Iterator[list[Phrase] | TextError]:
    """
    Yields the phrases of each tree of a file: the whole sentence first, the others in the order of their opening
    brackets. A line that is not a tree is replaced by its error. Blank lines are skipped.
    """
    for line_number, line in lines_or_errors(source, report):
        if isinstance(line, TextError):
            yield line
        elif line.strip():
            try:
                yield _phrases(line)
            except ValueError as error:
                yield TextError(f"{source_name(source)}, line {line_number}: {error}")


def _phrases(line: str) -> list[Phrase]:
    parts = list(PART.finditer(line))
    phrases: list[Phrase] = []
    starts: list[int] = []  # of the words, by phrase
    words: list[str] = []
    opened: list[tuple[int, int]] = []  # open brackets: phrase, column
    place = 0
    while place < len(parts):
        text, column = parts[place][0], parts[place].start() + 1
        place += 1
        if place > 1 and not opened:
            raise ValueError(f"a tree ends before column {column}, but {line[column - 1 :]!r:.40} follows.")
        if text == "(":
            label = parts[place][0] if place < len(parts) else "nothing"
            if label not in CLASSES:
                raise ValueError(
                    f"a class from 0 to 4 should follow the bracket of column {column}, found {label!r:.40}."
                )
            opened.append((len(phrases), column))
            phrases.append(Phrase([], label))
            starts.append(len(words))
            place += 1
        elif text == ")":
            phrase, _ = opened.pop()
            phrases[phrase].words.extend(words[starts[phrase] :])
            if not phrases[phrase].words:
                raise ValueError(f"the bracket that closes in column {column} has no word.")
        elif not opened:
            raise ValueError(f"a tree such as (3 (2 a) (4 word)) should be here, found {line!r:.60}.")
        else:
            words.append(ESCAPED.get(text, text.replace("\\/", "/")))
    if opened:
        raise ValueError(f"the bracket of column {opened[-1][1]} never closes.")
    return phrases


__all__ = ["CLASSES", "Phrase", "sentiment_trees"]
