"""What a language model says about text."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Perplexity(NamedTuple):
    """
    Perplexity of both directions.

    Args:
        forward, backward: The exponential of the mean loss; `nan` for a direction that the model does not have.
        targets: Predicted words per direction, closing boundaries included.
    """

    forward: float
    backward: float
    targets: int

    @property
    def mean(self) -> float:
        """Of both directions' losses, as the original's authors state it."""
        return math.sqrt(self.forward * self.backward)


@dataclass(frozen=True, eq=False)
class TextScore:
    """
    The log-probability (natural) of every token of a text: `<S>`, its words and `</S>`.

    Args:
        tokens: The text's words between their boundaries.
        unknown (`(tokens,)`, bool): True for words that the vocabulary lacks; they have the probability of `<UNK>`.
        forward (`(tokens,)` or `None`): Of each token after those before it. `<S>`, which is given, has 0.
        backward (`(tokens,)` or `None`): Of each token before those after it. `</S>`, which is given, has 0.

    A direction that the model does not have is `None`, and its sum `nan`.
    """

    tokens: list[str]
    unknown: np.ndarray
    forward: np.ndarray | None
    backward: np.ndarray | None

    @property
    def both(self) -> np.ndarray | None:
        """Both directions' log-probabilities of each token, added up, `(tokens,)`."""
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
        """Of both directions: what pretraining makes as large as it can."""
        return self.forward_sum + self.backward_sum

    @property
    def perplexity(self) -> Perplexity:
        """Of each direction, as `elmo-hf perplexity` measures it: `<UNK>` and the last boundary counted."""
        targets = len(self.tokens) - 1
        return Perplexity(math.exp(-self.forward_sum / targets), math.exp(-self.backward_sum / targets), targets)


def _sum(log_probs: np.ndarray | None) -> float:
    return math.nan if log_probs is None else float(log_probs.sum())


class Candidate(NamedTuple):
    """
    A word that may stand somewhere.

    Args:
        word: Of the vocabulary.
        log_prob: Its log-probability there.
    """

    word: str
    log_prob: float


class Substitute(NamedTuple):
    """
    A word that may stand in another's place.

    Args:
        word: Of the vocabulary.
        log_prob: The sum of both directions'.
        forward, backward: Its log-probability after what stands before, and before what stands after; `nan` for a
            direction that the model does not have.
    """

    word: str
    log_prob: float
    forward: float
    backward: float


class StaticNeighbour(NamedTuple):
    """
    A word whose vector, whatever the context, is near another's.

    Args:
        word: Of the vocabulary.
        similarity: The cosine.
    """

    word: str
    similarity: float


__all__ = ["Candidate", "Perplexity", "StaticNeighbour", "Substitute", "TextScore"]
