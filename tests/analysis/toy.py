"""A tiny model, and what must come out of it: layers and mix of each sentence alone."""

import numpy as np

from tests.embedding.toy import layers_alone, toy_embedder

__all__ = ["cosine", "representations", "toy_embedder"]


def representations(embedder, words) -> np.ndarray:
    """`(layers + 1, words, hidden_size)`: the layers of one sentence and their mix, without boundaries."""
    return layers_alone(embedder.model, list(words))[:, 1:-1].astype(np.float64)


def cosine(one, other) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
