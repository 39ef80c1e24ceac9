"""Nearest neighbours: every occurrence of a corpus's words, found by its vector."""

from .index import ElmoIndex, Neighbour

__all__ = ["ElmoIndex", "Neighbour"]
