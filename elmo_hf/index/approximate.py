"""Approximate search: a graph over the vectors of an index (HNSW, by usearch) finds most neighbours in milliseconds."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from ..errors import FolderError, in_one_line
from ..runtime.extras import import_extra, missing
from .nearest import BLOCK, Matches, best, cosines

GRAPH = "graph.usearch"
# The graph stores vectors as bytes, which makes it small and fast but the order of neighbours inexact. A search takes
# this many times as many candidates as it returns, and sorts them by their exact cosines.
CANDIDATES = 4
BREADTH = 128  # usearch's `expansion_search`; with its default of 64, recall was lower


def can_approximate() -> bool:
    """Whether usearch is installed."""
    return missing("approximate index") is None


def build_graph(vectors: np.ndarray, path: Path, progress: bool = False):
    """
    Builds the graph of an index and writes it. It is built in memory, and takes 0.7 KB per vector of size 512.

    Args:
        vectors: Unit vectors, `(vectors, size)`.
        path: The file to write.
        progress: Whether to show a progress bar.
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
        vectors: The vectors it was built from, `(vectors, size)`.
    """

    def __init__(self, path: Path, vectors: np.ndarray):
        self._vectors = vectors
        try:
            self._graph: Any = import_extra("usearch.index", "approximate index").Index.restore(path, view=True)
            if self._graph is None or (len(self._graph), self._graph.ndim) != vectors.shape:
                raise ValueError("it is of other vectors")
        except (OSError, RuntimeError, ValueError) as error:
            raise FolderError(f"{path} is damaged, build the index again: {in_one_line(error)}") from error

    def nearest(self, query: np.ndarray, k: int, keys: np.ndarray | None = None) -> Matches:
        """
        Finds most of the nearest vectors, with their exact cosines.

        Args:
            query: A unit vector, `(size,)`.
            k: The number of vectors to return.
            keys: `(vectors,)`, the key of each vector. If given, only the nearest vector of each key is returned.
        """
        count = CANDIDATES * k
        while True:
            self._graph.expansion_search = max(BREADTH, count)
            rows = self._graph.search(query, count, threads=1).keys.astype(np.int64)
            nearest = best(Matches(rows, cosines(self._vectors[rows], query)), k, keys)
            if len(nearest.rows) == k or count >= len(self._vectors):
                return nearest
            count *= CANDIDATES  # too many candidates have the same key


__all__ = ["GRAPH", "Graph", "build_graph", "can_approximate"]
