"""The words of sentences and where they stand; every occurrence of a word with its vector."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from ..modeling.tokenization_elmo import ElmoTokenizer
from .sentences import Sentence, chunks


class TokenizedSentence(NamedTuple):
    """
    A sentence and its words, as its vectors are.

    Attributes:
        text (`str`): The sentence; given words are joined by blanks.
        words (`list[str]`)
        offsets (`list[tuple[int, int]]`): Where each word begins and ends in the text.
    """

    text: str
    words: list[str]
    offsets: list[tuple[int, int]]


class Occurrence(NamedTuple):
    """
    A word in its place.

    Attributes:
        word (`str`)
        vector (`np.ndarray` of shape `(hidden_size,)` or `(layers, hidden_size)`)
        sentence (`str`): The text; given words are joined by blanks.
        start (`int`): Where the word begins in it.
        end (`int`): Where it ends.
        number (`int`): Of the sentence among those that were given, from 0.
        position (`int`): Of the word in the sentence, from 0.
    """

    word: str
    vector: np.ndarray
    sentence: str
    start: int
    end: int
    number: int
    position: int


def tokenized(sentences: Iterable[Sentence], tokenizer: ElmoTokenizer) -> Iterator[TokenizedSentence]:
    """The sentences with their words, in order, lazily."""
    for chunk in chunks(sentences):
        if isinstance(chunk[0], str):
            yield from _tokenize(cast(list[str], chunk), tokenizer)
        else:
            yield from map(_joined, chunk)


def _tokenize(texts: list[str], tokenizer: ElmoTokenizer) -> Iterator[TokenizedSentence]:
    batch = tokenizer(texts, padding=True, padding_side="right", return_tensors="np", verbose=False)
    for text, encoding, mask in zip(texts, batch.encodings, batch["attention_mask"], strict=True):
        offsets = encoding.offsets[1 : int(mask.sum()) - 1]
        yield TokenizedSentence(text, [text[start:end] for start, end in offsets], offsets)


def _joined(words: Sequence[str]) -> TokenizedSentence:
    offsets, start = [], 0
    for word in words:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    return TokenizedSentence(" ".join(words), list(words), offsets)


def occurrences(
    sentences: Iterable[Sentence],
    words: Collection[str],
    tokenizer: ElmoTokenizer,
    embed: Callable[[Iterable[Sentence]], Iterator[np.ndarray]],
) -> Iterator[Occurrence]:
    """
    Every occurrence of the words, in order. Only sentences that have one of them are embedded.

    Args:
        embed: Gives the vectors of each sentence, `(…, words, hidden_size)`, in order, lazily.
    """
    numbers: deque[tuple[int, Sentence]] = deque()  # of sentences that may have one
    hits: deque[tuple[int, TokenizedSentence, list[int]]] = deque()  # of those that have, whose vectors are yet to come

    def possible() -> Iterator[Sentence]:
        for number, sentence in enumerate(sentences):
            if any(word in sentence for word in words):
                numbers.append((number, sentence))
                yield sentence

    def wanted() -> Iterator[Sentence]:
        for found in tokenized(possible(), tokenizer):
            number, sentence = numbers.popleft()
            if positions := [position for position, word in enumerate(found.words) if word in words]:
                hits.append((number, found, positions))
                yield sentence

    for vectors in embed(wanted()):
        number, found, positions = hits.popleft()
        for position in positions:
            start, end = found.offsets[position]
            vector = vectors[..., position, :].copy()  # not a part of what holds the whole sentence's
            yield Occurrence(found.words[position], vector, found.text, start, end, number, position)


def wanted_words(word: str | Collection[str]) -> frozenset[str]:
    """One word or several, checked."""
    words = [word] if isinstance(word, str) else word
    if not isinstance(words, Collection) or not words or not all(isinstance(some, str) and some for some in words):
        raise ValueError(f"`word` must be a word, or several in a list, found {word!r:.60}.")
    return frozenset(words)


__all__ = ["Occurrence", "TokenizedSentence", "occurrences", "tokenized", "wanted_words"]
