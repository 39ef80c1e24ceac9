"""Uses of a word in sentences of known senses, and the similarity of its vectors per layer."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize

from ..embedding import ElmoEmbedder, Occurrence


class Uses(NamedTuple):
    """
    A word in sentences whose senses are known.

    Attributes:
        occurrences (`list[Occurrence]`)
        senses (`list[str]`): One for each of them.
        vectors (`np.ndarray` of shape `(layers + 1, occurrences, hidden_size)`): Those of all layers and of their mix,
            of length one, so that their products are cosines.
    """

    occurrences: list[Occurrence]
    senses: list[str]
    vectors: np.ndarray


def find_uses(embedder: ElmoEmbedder, word: str, senses: Mapping[str, Sequence[str]]) -> Uses:
    """Every use of a word, exactly as it is written, in sentences by sense."""
    sense_of = [sense for sense, sentences in senses.items() for _ in sentences]
    sentences = [sentence for group in senses.values() for sentence in group]
    occurrences = embedder.words(sentences, word, layers="all")
    layers = torch.from_numpy(np.stack([use.vector for use in occurrences], axis=1))  # (layers, uses, size)
    with torch.no_grad():
        vectors = torch.cat([layers, embedder.model.mixer(list(layers))[None]])  # (layers + 1, uses, size)
    return Uses(occurrences, [sense_of[use.number] for use in occurrences], normalize(vectors, dim=-1).numpy())


def mark(occurrence: Occurrence, before: str = "[", after: str = "]") -> str:
    """The sentence with the word between marks."""
    sentence, start, end = occurrence.sentence, occurrence.start, occurrence.end
    return f"{sentence[:start]}{before}{occurrence.word}{after}{sentence[end:]}"


def layer_names(uses: Uses) -> list[str]:
    """The names of the layers and of the mix, in the order of the vectors."""
    return [f"layer {layer}" for layer in range(len(uses.vectors) - 1)] + ["mix"]


def similarities(uses: Uses) -> dict[str, list[float]]:
    """The mean cosines of pairs of uses of the same sense and of different ones, per layer and of the mix."""
    cosines = uses.vectors @ uses.vectors.swapaxes(1, 2)  # (layers + 1, uses, uses)
    pairs = list(combinations(range(len(uses.senses)), 2))
    means = {}
    for title, same in (("same meaning", True), ("different meanings", False)):
        of_pairs = [cosines[:, a, b] for a, b in pairs if (uses.senses[a] == uses.senses[b]) is same]
        means[title] = np.mean(of_pairs, axis=0).tolist()
    return means


def nearest_sense(uses: Uses) -> np.ndarray:
    """
    How often the most similar use in another sentence has the same sense, `(layers + 1,)`: each use is left out once
    and compared with all others. Where several are equally near, as all are in layer 0, it is the share among them.
    """
    sentences, senses = np.array([use.number for use in uses.occurrences]), np.array(uses.senses)
    cosines = uses.vectors @ uses.vectors.swapaxes(1, 2)  # (layers + 1, uses, uses)
    cosines[:, sentences[:, None] == sentences] = -np.inf
    is_nearest = cosines > cosines.max(axis=-1, keepdims=True) - 1e-6
    is_same = senses[:, None] == senses
    return ((is_nearest & is_same).sum(axis=-1) / is_nearest.sum(axis=-1)).mean(axis=-1)
