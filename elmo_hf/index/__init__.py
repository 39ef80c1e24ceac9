"""Nearest neighbours: finds occurrences of words in a corpus by their vectors."""

from .index import ElmoIndex, Neighbour

__all__ = ["ElmoIndex", "Neighbour"]
