"""Uses of a word with vectors that can be seen through."""

import numpy as np

from elmo_hf.demo.senses import Uses
from elmo_hf.embedding import Occurrence


def toy_uses(vectors, senses, numbers=None) -> Uses:
    """
    Args:
        vectors: `(uses, size)`, of the only layer.
        senses: One a use.
        numbers: Of their sentences; else each is in one of its own.
    """
    unit = np.array(vectors, dtype=np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    sentence = "It stood on the bank for $5, and that was what they had asked for."
    occurrences = [
        Occurrence("bank", vector, sentence, 16, 20, index, 4)
        for vector, index in zip(unit, numbers or range(len(unit)), strict=True)
    ]
    return Uses(occurrences, list(senses), unit[None])
