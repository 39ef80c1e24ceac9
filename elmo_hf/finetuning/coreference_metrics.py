"""
Metrics of coreference: MUC (Vilain et al. 1995), B³ (Bagga & Baldwin 1998), CEAFe (Luo 2005) and the mean of their F1,
as the reference scorer of CoNLL-2012 computes them (Pradhan et al. 2014).
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Clusters = Sequence[Collection[Hashable]]  # the mentions of each cluster


class Counts(NamedTuple):
    """What is summed over documents before dividing."""

    precision: tuple[float, float]  # numerator, denominator
    recall: tuple[float, float]


def coreference_metrics(
    wanted: Sequence[Clusters], predicted: Sequence[Clusters], with_singletons: bool = False
) -> dict[str, float]:
    """
    Precision, recall and F1 of MUC, B³ and CEAFe over all documents, and `f1`, the mean of the three F1 values.

    Args:
        wanted, predicted: The clusters of each document.
        with_singletons: Whether clusters with one mention count. If not, they are removed from both sides, as
            OntoNotes has none.
    """
    least = 1 if with_singletons else 2
    documents = [
        tuple([frozenset(cluster) for cluster in side if len(set(cluster)) >= least] for side in sides)
        for sides in zip(wanted, predicted, strict=True)
    ]
    results: dict[str, float] = {}
    for name, measure in (("muc", _muc), ("b3", _b_cubed), ("ceafe", _ceafe)):
        counts = [measure(*sides) for sides in documents]
        precision, recall = (
            _ratio(sum(getattr(count, side)[0] for count in counts), sum(getattr(count, side)[1] for count in counts))
            for side in ("precision", "recall")
        )
        results |= {
            f"{name}_precision": precision,
            f"{name}_recall": recall,
            f"{name}_f1": _ratio(2 * precision * recall, precision + recall),
        }
    return results | {"f1": float(np.mean([results[f"{name}_f1"] for name in ("muc", "b3", "ceafe")]))}


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0


def _cluster_of(clusters: Sequence[frozenset]) -> Mapping[Hashable, int]:
    return {mention: index for index, cluster in enumerate(clusters) for mention in cluster}


def _muc(wanted: Sequence[frozenset], predicted: Sequence[frozenset]) -> Counts:
    """
    Links. A cluster of n mentions has n - 1; one is missing for each part, except the first, that it is split into.
    """

    def links(clusters: Sequence[frozenset], others: Sequence[frozenset]) -> tuple[float, float]:
        other = _cluster_of(others)
        parts = (len({other.get(mention, (None, mention)) for mention in cluster}) for cluster in clusters)
        pairs = [
            (len(cluster) - num_parts, len(cluster) - 1) for cluster, num_parts in zip(clusters, parts, strict=True)
        ]
        return sum(kept_links for kept_links, _ in pairs), sum(all_links for _, all_links in pairs)

    return Counts(links(predicted, wanted), links(wanted, predicted))


def _b_cubed(wanted: Sequence[frozenset], predicted: Sequence[frozenset]) -> Counts:
    """For each mention, the share of its cluster that is also in its cluster on the other side."""

    def shares(clusters: Sequence[frozenset], others: Sequence[frozenset]) -> tuple[float, float]:
        shared = sum(len(cluster & other) ** 2 / len(cluster) for cluster in clusters for other in others)
        return shared, sum(map(len, clusters))

    return Counts(shares(predicted, wanted), shares(wanted, predicted))


def _ceafe(wanted: Sequence[frozenset], predicted: Sequence[frozenset]) -> Counts:
    """The best assignment of clusters one to one, by twice the common mentions over all mentions of both."""
    from scipy.optimize import linear_sum_assignment

    similar = np.array([[2 * len(one & two) / (len(one) + len(two)) for two in predicted] for one in wanted])
    similar = similar.reshape(len(wanted), len(predicted))
    total = float(similar[linear_sum_assignment(-similar)].sum())
    return Counts((total, len(predicted)), (total, len(wanted)))


__all__ = ["coreference_metrics"]
