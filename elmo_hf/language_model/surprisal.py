"""The surprisal of each word of a text, in bits, beside what reading-time studies compare it with."""

import math
from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from ..modeling.tokenization_elmo import ElmoTokenizer
from .answers import TextScore


class WordSurprisal(NamedTuple):
    """
    One word of a text.

    Args:
        sentence: The number of the text, from 1.
        position: The number of the word in the text, from 1.
        word: The word as it stands in the text.
        forward: `-log2` of its probability given the words before it; `None` if the model does not read forward.
        backward: `-log2` of its probability given the words after it; `None` if the model does not read backward.
        both: The sum of both; `None` if the model lacks a direction.
        unknown: Whether the word is not in the vocabulary. Its surprisal is then that of `<UNK>`, of all unknown words
            together.
        length: The number of its characters (Unicode code points).
        log_frequency: `log2` of its relative frequency, estimated from its rank ([`FrequencyEstimate`]); `None` for an
            unknown word.
    """

    sentence: int
    position: int
    word: str
    forward: float | None
    backward: float | None
    both: float | None
    unknown: bool
    length: int
    log_frequency: float | None


class FrequencyEstimate:
    """
    Word frequencies by Zipf's law. A vocabulary has no counts, but its words are sorted by falling frequency: the
    relative frequency of the word of rank `r` among `n` words is about `1 / (r * (1 + 1/2 + ... + 1/n))`.

    Args:
        tokenizer: The tokenizer, whose special tokens have no rank.
        vocab_size: The number of words of the model, special tokens included.
    """

    def __init__(self, tokenizer: ElmoTokenizer, vocab_size: int):
        self._tokenizer, self._vocab_size = tokenizer, vocab_size
        self._special_ids = [word_id for word_id in tokenizer.all_special_ids if word_id < vocab_size]
        ranks = np.arange(1, vocab_size - len(self._special_ids) + 1)
        self._log_normalizer = math.log2((1 / ranks).sum()) if len(ranks) else 0.0

    def log2(self, word: str) -> float | None:
        """The logarithm of a word's relative frequency to base 2; `None` for unknown words and special tokens."""
        word_id = cast(int, self._tokenizer.convert_tokens_to_ids(word))
        if word_id in self._special_ids or word_id >= self._vocab_size:
            return None
        rank = word_id + 1 - sum(special < word_id for special in self._special_ids)
        return -math.log2(rank) - self._log_normalizer


def word_surprisals(score: TextScore, sentence: int, frequencies: FrequencyEstimate) -> Iterator[WordSurprisal]:
    """
    Yields the words of a text, without its boundaries.

    Args:
        score: The scores of the text.
        sentence: The number of the text.
        frequencies: Of the model that gave the scores.
    """
    forward, backward, both = (_bits(score, log_probs) for log_probs in (score.forward, score.backward, score.both))
    for position in range(1, len(score.tokens) - 1):
        word, unknown = score.tokens[position], bool(score.unknown[position])
        yield WordSurprisal(
            sentence,
            position,
            word,
            forward[position],
            backward[position],
            both[position],
            unknown,
            len(word),
            None if unknown else frequencies.log2(word),
        )


def _bits(score: TextScore, log_probs: np.ndarray | None) -> list[float] | list[None]:
    """Surprisals, `(tokens,)`. (Adding zero turns a negative zero into zero.)"""
    return [None] * len(score.tokens) if log_probs is None else (-log_probs / math.log(2) + 0.0).tolist()


__all__ = ["FrequencyEstimate", "WordSurprisal", "word_surprisals"]
