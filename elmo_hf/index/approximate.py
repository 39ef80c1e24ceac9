"""A graph over an index's vectors, by the usearch library (HNSW), that finds most of the nearest in milliseconds."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from ..errors import FolderError, in_one_line
from ..runtime.extras import import_extra, missing
from .nearest import BLOCK, Found, best, cosines

GRAPH = "graph.usearch"
# The graph has bytes for numbers, which makes it small and fast, and the order of neighbours inexact: more are taken
# than are wanted, and put in order by the vectors themselves.
CANDIDATES = 4
BREADTH = 128  # places a search keeps in sight; usearch's 64 found less


def can_approximate() -> bool:
    """Whether the library is installed."""
    return missing("approximate index") is None


def build_graph(vectors: np.ndarray, path: Path, progress: bool = False):
    """
    Writes the graph of some vectors. While it is built it is in memory, 0.7 KB a vector of 512 numbers.

    Args:
        vectors: Unit vectors `(number, size)`
        path: The file.
        progress: Whether to show a bar.
    """
    graph = import_extra("usearch.index", "approximate index").Index(ndim=vectors.shape[1], metric="cos", dtype="i8")
    with tqdm(total=len(vectors), desc="graph", unit="vector", disable=None if progress else True) as bar:
        for start in range(0, len(vectors), BLOCK):
            block = np.asarray(vectors[start : start + BLOCK])
            graph.add(np.arange(start, start + len(block)), block, threads=torch.get_num_threads())
            bar.update(len(block))
    graph.save(path)


class Graph:
    """
    A graph on disk, mapped into memory.

    Args:
        path: The file.
        vectors: Of which it was built, `(number, size)`
    """

    def __init__(self, path: Path, vectors: np.ndarray):
        self._vectors = vectors
        try:
            self._graph: Any = import_extra("usearch.index", "approximate index").Index.restore(path, view=True)
            if self._graph is None or (len(self._graph), self._graph.ndim) != vectors.shape:
                raise ValueError("it is of other vectors")
        except (OSError, RuntimeError, ValueError) as error:
            raise FolderError(f"{path} is damaged, build the index again: {in_one_line(error)}") from error

    def nearest(self, query: np.ndarray, k: int, keys: np.ndarray | None = None) -> Found:
        """
        Most of the nearest vectors, and their exact cosines.

        Args:
            query: A unit vector `(size,)`
            k: How many are wanted.
            keys: `(number,)`, what the vectors are called, if only the nearest of each name is wanted.
        """
        count = CANDIDATES * k
        while True:
            self._graph.expansion_search = max(BREADTH, count)
            rows = self._graph.search(query, count, threads=1).keys.astype(np.int64)
            found = best(Found(rows, cosines(self._vectors[rows], query)), k, keys)
            if len(found.rows) == k or count >= len(self._vectors):
                return found
            count *= CANDIDATES  # too many of the same name


__all__ = ["GRAPH", "Graph", "build_graph", "can_approximate"]
