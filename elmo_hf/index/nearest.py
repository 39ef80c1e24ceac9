"""Exact search: the vectors with the largest cosines to a query, in memory bounded by one block of vectors."""

from typing import NamedTuple

import numpy as np
import torch

BLOCK = 4096  # vectors multiplied at a time
# A bound on the error of a product of unit vectors in half precision: both factors and the result are rounded by at
# most 2^-11, and sums are accumulated in single precision.
ROUNDING = 2e-3


class Matches(NamedTuple):
    """
    The nearest vectors, the nearest first.

    Attributes:
        rows (`np.ndarray` of shape `(matches,)`): Their rows in the index.
        cosines (`np.ndarray` of shape `(matches,)`): Their cosines to the query.
    """

    rows: np.ndarray
    cosines: np.ndarray


def nearest(
    vectors: np.ndarray, query: np.ndarray, k: int, keys: np.ndarray, key: int | None = None, distinct: bool = False
) -> Matches:
    """
    Finds the `k` nearest vectors.

    Args:
        vectors: Unit vectors, `(vectors, size)`, in half or single precision; a memory map is read block by block.
        query: A unit vector, `(size,)`, in single precision.
        k: The number of vectors to return.
        keys: `(vectors,)`, the key of each vector.
        key: If given, only vectors with this key are searched.
        distinct: Whether to return only the nearest vector of each key.
    """
    matches = Matches(np.empty(0, np.int64), np.empty(0, np.float32))
    for start in range(0, len(vectors), BLOCK):
        block, block_keys = vectors[start : start + BLOCK], keys[start : start + BLOCK]
        if key is None:
            rows = _promising(block, query, worst=matches.cosines[-1] if len(matches.rows) == k else -np.inf)
        else:
            rows = np.flatnonzero(block_keys == key)
        if len(rows):
            block_cosines = cosines(block[rows], query)
            candidates = Matches(np.append(matches.rows, rows + start), np.append(matches.cosines, block_cosines))
            matches = best(candidates, k, keys if distinct else None)
    return matches


def best(candidates: Matches, k: int, keys: np.ndarray | None = None) -> Matches:
    """The `k` nearest candidates, the lower row first if they are equal; with `keys`, the nearest of each key."""
    order = np.lexsort((candidates.rows, -candidates.cosines))
    if keys is not None:
        _, first = np.unique(keys[candidates.rows[order]], return_index=True)
        order = order[np.sort(first)]
    return Matches(candidates.rows[order[:k]], candidates.cosines[order[:k]])


def cosines(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """The cosines of unit vectors `(vectors, size)` and a query `(size,)`, in single precision."""
    return (_tensor(vectors).float() @ torch.from_numpy(query)).numpy()


def _promising(block: np.ndarray, query: np.ndarray, worst: float) -> np.ndarray:
    """
    The rows of a block that may be nearer than the worst match so far. A product in half precision runs at memory
    speed, ten times as fast as converting the block first.
    """
    if worst == -np.inf:
        return np.arange(len(block))
    vectors = _tensor(block)
    products = torch.mv(vectors, torch.from_numpy(query).to(vectors.dtype)).float()
    return torch.nonzero(products > worst - ROUNDING).flatten().numpy()


def _tensor(vectors: np.ndarray) -> torch.Tensor:
    """A tensor that shares the memory of an array or memory map. Nothing is written through it."""
    return torch.from_numpy(np.asarray(vectors))


__all__ = ["Matches", "best", "cosines", "nearest"]
