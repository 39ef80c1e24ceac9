"""The words of sentences with their offsets, and every occurrence of a word with its vector."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from ..modeling.tokenization_elmo import ElmoTokenizer
from .sentences import Sentence, chunks


class TokenizedSentence(NamedTuple):
    """
    A sentence and its words. Each word has one vector.

    Attributes:
        text (`str`): The sentence; given words are joined by blanks.
        words (`list[str]`): The words.
        offsets (`list[tuple[int, int]]`): The start and end of each word in the text.
    """

    text: str
    words: list[str]
    offsets: list[tuple[int, int]]


class Occurrence(NamedTuple):
    """
    An occurrence of a word in a sentence.

    Attributes:
        word (`str`): The word.
        vector (`np.ndarray` of shape `(hidden_size,)` or `(layers, hidden_size)`): Its vector.
        sentence (`str`): The text; given words are joined by blanks.
        start (`int`): The offset of the word's first character in the sentence.
        end (`int`): The offset after its last character.
        number (`int`): The index of the sentence in the input, from 0.
        position (`int`): The index of the word in the sentence, from 0.
    """

    word: str
    vector: np.ndarray
    sentence: str
    start: int
    end: int
    number: int
    position: int


def tokenized(sentences: Iterable[Sentence], tokenizer: ElmoTokenizer) -> Iterator[TokenizedSentence]:
    """Yields the sentences with their words, in order and lazily."""
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
    Yields every occurrence of the words, in order. Only sentences that contain one of them are embedded.

    Args:
        embed: Yields the vectors of each sentence, `(…, words, hidden_size)`, in order and lazily.
    """
    candidates: deque[tuple[int, Sentence]] = deque()  # sentences that may contain one
    waiting: deque[tuple[int, TokenizedSentence, list[int]]] = deque()  # sentences that do, until they are embedded

    def possible() -> Iterator[Sentence]:
        for index, sentence in enumerate(sentences):
            if any(word in sentence for word in words):
                candidates.append((index, sentence))
                yield sentence

    def matching() -> Iterator[Sentence]:
        for split_sentence in tokenized(possible(), tokenizer):
            index, sentence = candidates.popleft()
            if positions := [position for position, word in enumerate(split_sentence.words) if word in words]:
                waiting.append((index, split_sentence, positions))
                yield sentence

    for vectors in embed(matching()):
        index, sentence, positions = waiting.popleft()
        for position in positions:
            start, end = sentence.offsets[position]
            vector = vectors[..., position, :].copy()  # a view would keep the vectors of the whole sentence in memory
            yield Occurrence(sentence.words[position], vector, sentence.text, start, end, index, position)


def wanted_words(word: str | Collection[str]) -> frozenset[str]:
    """The words to look for, from one word or a collection of words."""
    words = [word] if isinstance(word, str) else word
    if not isinstance(words, Collection) or not words or not all(isinstance(item, str) and item for item in words):
        raise ValueError(f"`word` must be a word, or several in a list, found {word!r:.60}.")
    return frozenset(words)


__all__ = ["Occurrence", "TokenizedSentence", "occurrences", "tokenized", "wanted_words"]
