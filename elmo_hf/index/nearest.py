"""The vectors with the largest cosines to another one, exactly: memory is bounded by a block, whatever their number."""

from typing import NamedTuple

import numpy as np
import torch

BLOCK = 4096  # vectors multiplied at a time
# A product of unit vectors in half precision is off by less: both factors and the result are rounded, by 2^-11 of at
# most one; sums are kept in single precision.
ROUNDING = 2e-3


class Found(NamedTuple):
    """
    The nearest vectors, the nearest first.

    Attributes:
        rows (`np.ndarray` of shape `(found,)`): Where they are.
        cosines (`np.ndarray` of shape `(found,)`)
    """

    rows: np.ndarray
    cosines: np.ndarray


def nearest(
    vectors: np.ndarray, query: np.ndarray, k: int, keys: np.ndarray, key: int | None = None, distinct: bool = False
) -> Found:
    """
    Args:
        vectors: Unit vectors `(number, size)` in half or single precision; a memory map is read block by block.
        query: A unit vector `(size,)` in single precision.
        k: How many are wanted.
        keys: `(number,)`, what the vectors are called.
        key: Only vectors of this name are wanted.
        distinct: Whether of each name only the nearest is wanted.
    """
    found = Found(np.empty(0, np.int64), np.empty(0, np.float32))
    for start in range(0, len(vectors), BLOCK):
        block, names = vectors[start : start + BLOCK], keys[start : start + BLOCK]
        if key is None:
            rows = _promising(block, query, worst=found.cosines[-1] if len(found.rows) == k else -np.inf)
        else:
            rows = np.flatnonzero(names == key)
        if len(rows):
            some = Found(np.append(found.rows, rows + start), np.append(found.cosines, cosines(block[rows], query)))
            found = best(some, k, keys if distinct else None)
    return found


def best(some: Found, k: int, keys: np.ndarray | None = None) -> Found:
    """The `k` nearest of some, the first of equals; with `keys` only the nearest of each name."""
    order = np.lexsort((some.rows, -some.cosines))
    if keys is not None:
        _, first = np.unique(keys[some.rows[order]], return_index=True)
        order = order[np.sort(first)]
    return Found(some.rows[order[:k]], some.cosines[order[:k]])


def cosines(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Of unit vectors `(number, size)` and another one `(size,)`, in single precision."""
    return (_tensor(vectors).float() @ torch.from_numpy(query)).numpy()


def _promising(block: np.ndarray, query: np.ndarray, worst: float) -> np.ndarray:
    """
    The rows of a block that may be nearer than the worst so far. In half precision the product runs as fast as memory
    can be read, ten times as fast as one that converts the block first.
    """
    if worst == -np.inf:
        return np.arange(len(block))
    vectors = _tensor(block)
    products = torch.mv(vectors, torch.from_numpy(query).to(vectors.dtype)).float()
    return torch.nonzero(products > worst - ROUNDING).flatten().numpy()


def _tensor(vectors: np.ndarray) -> torch.Tensor:
    """Without a copy. (A plain `np.ndarray` of a memory map; torch wants to be able to write, and does not here.)"""
    return torch.from_numpy(np.asarray(vectors))


__all__ = ["Found", "best", "cosines", "nearest"]
