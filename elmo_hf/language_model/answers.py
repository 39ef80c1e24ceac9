"""The results of a language model: scores, perplexities and words."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Perplexity(NamedTuple):
    """
    Perplexity of both directions.

    Args:
        forward, backward: The exponential of the mean loss; `nan` for a direction that the model does not have.
        targets: The number of predicted words per direction, including closing boundaries.
    """

    forward: float
    backward: float
    targets: int

    @property
    def mean(self) -> float:
        """The exponential of the mean of both directions' losses, as the authors of the original report it."""
        return math.sqrt(self.forward * self.backward)


@dataclass(frozen=True, eq=False)
class TextScore:
    """
    The natural log-probability of every token of a text: `<S>`, its words and `</S>`.

    Args:
        tokens: The words of the text between their boundaries.
        unknown (`(tokens,)`, bool): True for words that are not in the vocabulary. They have the probability of
            `<UNK>`.
        forward (`(tokens,)` or `None`): The log-probability of each token given the tokens before it. `<S>`, which is
            given, has 0.
        backward (`(tokens,)` or `None`): The log-probability of each token given the tokens after it. `</S>`, which is
            given, has 0.

    A direction that the model does not have is `None`, and its sum is `nan`.
    """

    tokens: list[str]
    unknown: np.ndarray
    forward: np.ndarray | None
    backward: np.ndarray | None

    @property
    def both(self) -> np.ndarray | None:
        """The sum of both directions' log-probabilities of each token, `(tokens,)`."""
        return None if self.forward is None or self.backward is None else self.forward + self.backward

    @property
    def forward_sum(self) -> float:
        """The text's log-probability, read forward."""
        return _sum(self.forward)

    @property
    def backward_sum(self) -> float:
        """The text's log-probability, read backward."""
        return _sum(self.backward)

    @property
    def both_sum(self) -> float:
        """The sum over both directions, which pretraining maximises."""
        return self.forward_sum + self.backward_sum

    @property
    def perplexity(self) -> Perplexity:
        """The perplexity of each direction as `elmo-hf perplexity` measures it, including `<UNK>` and `</S>`."""
        targets = len(self.tokens) - 1
        return Perplexity(math.exp(-self.forward_sum / targets), math.exp(-self.backward_sum / targets), targets)


def _sum(log_probs: np.ndarray | None) -> float:
    return math.nan if log_probs is None else float(log_probs.sum())


class Candidate(NamedTuple):
    """
    A word that fits a context.

    Args:
        word: A word of the vocabulary.
        log_prob: Its log-probability in the context.
    """

    word: str
    log_prob: float


class Substitute(NamedTuple):
    """
    A word that can replace another in its context.

    Args:
        word: A word of the vocabulary.
        log_prob: The sum of both directions' log-probabilities.
        forward, backward: Its log-probability given the words before it, and given the words after it; `nan` for a
            direction that the model does not have.
    """

    word: str
    log_prob: float
    forward: float
    backward: float


class StaticNeighbour(NamedTuple):
    """
    A word whose context-independent vector is near that of another word.

    Args:
        word: A word of the vocabulary.
        similarity: The cosine of the vectors.
    """

    word: str
    similarity: float


__all__ = ["Candidate", "Perplexity", "StaticNeighbour", "Substitute", "TextScore"]
