"""Checks the sentences that a user gives, and tokenises them lazily, a few at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import TextError
from ..modeling.tokenization_elmo import ElmoTokenizer

CHUNK = 64  # sentences tokenised in one call
LONG = 1024  # a sentence with more characters (of a text) or words (of a list) is tokenised in a call of its own

Sentence = str | list[str] | tuple[str, ...]


class Tokens(NamedTuple):
    """
    The tokens of a sentence, or of a part of it, as the model reads them.

    Attributes:
        input_ids (`np.ndarray` of shape `(tokens,)`)
        char_ids (`np.ndarray` of shape `(tokens, max_characters_per_token)`)
    """

    input_ids: np.ndarray
    char_ids: np.ndarray


class EncodedSentence:
    """A tokenised sentence. Its length includes the boundaries."""

    def __init__(self, tokens: Tokens):
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens.input_ids)

    def tokens(self, start: int, stop: int) -> Tokens:
        """The tokens from `start` to `stop`, counting the boundaries."""
        return Tokens(*(values[start:stop] for values in self._tokens))


class LongSentence:
    """A long list of words. It is tokenised on demand, since the tokens take ten times the memory of the words."""

    def __init__(self, words: list[str] | tuple[str, ...], tokenizer: ElmoTokenizer):
        self._words, self._tokenizer = words, tokenizer

    def __len__(self) -> int:
        return len(self._words) + 2

    def tokens(self, start: int, stop: int) -> Tokens:
        """As [`EncodedSentence.tokens`]."""
        words = self._words[max(start - 1, 0) : stop - 1]
        (encoded,) = encode([words], self._tokenizer)  # adds boundaries, which belong only at the sentence's ends
        place = min(start, 1)
        return encoded.tokens(place, place + stop - start)


TokenSource = EncodedSentence | LongSentence


def checked(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yields the sentences one at a time. Anything else in their place raises an error with its index."""
    if isinstance(sentences, (str, bytes)):
        raise TextError("`sentences` must be a list of sentences, found a single one: put it into a list, as [text].")
    if not isinstance(sentences, Iterable) or isinstance(sentences, Mapping):
        raise TextError(f"`sentences` must be strings or lists of words, found {sentences!r:.60}.")
    return _checked(sentences)


def _checked(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            _check_words(sentence, index)
        yield sentence


def _check_words(words, index: int):
    if not isinstance(words, (list, tuple)):
        hint = " Decode bytes first, as text.decode()." if isinstance(words, bytes) else ""
        raise TextError(f"`sentences[{index}]` must be a string or a list of words, found {words!r:.60}.{hint}")
    for position, word in enumerate(words):
        if not isinstance(word, str):
            raise TextError(f"`sentences[{index}][{position}]` must be a word (`str`), found {word!r:.60}.")


def encoded(sentences: Iterable[Sentence], tokenizer: ElmoTokenizer) -> Iterator[TokenSource]:
    """
    Yields the tokenised sentences, in order. Reads at most `CHUNK` sentences ahead.
    """
    for chunk in chunks(sentences):
        if len(chunk) == 1 and not isinstance(chunk[0], str) and len(chunk[0]) > LONG:
            yield LongSentence(chunk[0], tokenizer)
        else:
            yield from encode(chunk, tokenizer)


def encode(sentences: Sequence[Sentence], tokenizer: ElmoTokenizer) -> list[EncodedSentence]:
    """Tokenises sentences in one call; they are all strings or all lists of words."""
    batch = tokenizer(
        list(sentences),
        is_split_into_words=not isinstance(sentences[0], str),
        padding=True,
        padding_side="right",
        return_token_type_ids=False,
        return_tensors="np",
        verbose=False,
    )
    lengths = batch["attention_mask"].sum(axis=1).tolist()
    kind = np.int16 if tokenizer.spelling.size <= 2**15 else np.int32
    return [
        EncodedSentence(Tokens(ids[:length], rows[:length].astype(kind)))
        for ids, rows, length in zip(batch["input_ids"], batch["char_ids"], lengths, strict=True)
    ]


def chunks(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    """
    Yields consecutive sentences of one kind, strings or lists of words. A long sentence gets a chunk of its own, so
    that the others are not padded to its length.
    """
    chunk: list[Sentence] = []
    for sentence in sentences:
        is_long = len(sentence) > LONG
        if chunk and (is_long or isinstance(sentence, str) != isinstance(chunk[0], str)):
            yield chunk
            chunk = []
        chunk.append(sentence)
        if is_long or len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


__all__ = [
    "EncodedSentence",
    "LongSentence",
    "Sentence",
    "TokenSource",
    "Tokens",
    "checked",
    "chunks",
    "encode",
    "encoded",
]
