# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The language model's words: one a line, boundaries and the unknown word first, then by falling frequency."""

import os
from collections import Counter
from collections.abc import Iterable

# Ends the vocabularies of the original's own data; it is no word.
TERMINATOR = "!!!MAXTERMID"
# U+FFFF is no character: Unicode leaves it to programs. It is in no word of a vocabulary, and stands for what is not.
NO_CHARACTER = "\uffff"


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    """The words of an original `vocab.txt`, in the order of their ids."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            words = [line.rstrip("\r\n") for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no vocabulary: it is not UTF-8 text ({error}).") from error
    return [word for word in words if word != TERMINATOR]


def write_vocabulary(words: Iterable[str], path: str | os.PathLike):
    """Writes an original `vocab.txt`."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\n" for word in words)


def index_words(words: Iterable[str], required: Iterable[str]) -> dict[str, int]:
    """
    Word → id.

    Args:
        words: In the order of their ids.
        required: Words without which the ids would be wrong silently: boundaries and unknown word.
    """
    index: dict[str, int] = {}
    for number, word in enumerate(words):
        if not word:
            raise ValueError(f"Word {number} of the vocabulary is empty.")
        if "\n" in word or word.endswith("\r"):
            raise ValueError(f"Word {number} of the vocabulary, {word!r}, holds a line break.")
        if NO_CHARACTER in word:
            raise ValueError(f"Word {number} of the vocabulary, {word!r}, holds U+FFFF, which is no character.")
        if index.setdefault(word, number) != number:
            raise ValueError(f"The vocabulary holds {word!r} twice, as word {index[word]} and as word {number}.")
    if missing := [word for word in required if word not in index]:
        raise ValueError(f"The vocabulary lacks {', '.join(missing)}: it should begin with {', '.join(required)}.")
    return index


def frequent_words(counts: Counter[str], specials: Iterable[str], size: int, min_frequency: int = 1) -> list[str]:
    """
    A vocabulary from word counts.

    Args:
        counts: How often each word occurred.
        specials: What comes first, counted or not.
        size: Words at most, `specials` included.
        min_frequency: Rarer words are left out.
    """
    specials = list(specials)
    if size < len(specials):
        raise ValueError(f"A vocabulary of {size} words has no room for {', '.join(specials)}.")
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    no_words = {*specials, TERMINATOR}
    words = [
        word for word, count in ranked if count >= min_frequency and word not in no_words and NO_CHARACTER not in word
    ]
    return specials + words[: size - len(specials)]


__all__ = ["NO_CHARACTER", "frequent_words", "index_words", "read_vocabulary", "write_vocabulary"]
