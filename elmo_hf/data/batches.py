"""Splits sentences into batches of similar length."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TypeVar

BATCH_TOKENS = 4096
"""Tokens per batch. Larger batches are not faster, for small and large models alike, and take more memory."""
SHORT = 8  # an item is short if at least this many fit into a batch
WINDOW = 4  # batches per window: its sentences are sorted by length, and its results are in memory at the same time
WINDOW_IN_ANY_ORDER = 16  # the same where results need not be in order; most shards of a corpus have fewer batches

Item = TypeVar("Item", bound=Sized)


def windows(items: Iterable[Item], tokens: int, num_batches: int = WINDOW) -> Iterator[list[Item]]:
    """
    Yields the items in order, in windows that fill `num_batches` batches. If the items are short compared with a batch,
    [`batches`] splits a window into exactly that many batches, without a small one at the end.

    Args:
        tokens: The maximum number of tokens per batch.
        num_batches: The number of batches per window.
    """
    window: list[Item] = []
    size = longest = 0
    for item in items:
        window.append(item)
        size += len(item)
        if len(item) <= tokens // SHORT:
            longest = max(longest, len(item))
        # Each batch may leave room for almost the longest item, and the next item may be as long.
        if size >= num_batches * (tokens - longest) - longest:
            yield window
            window, size, longest = [], 0, 0
    if window:
        yield window


def batches(items: Sequence[Item], tokens: int) -> Iterator[list[int]]:
    """
    Yields batches of items of similar length, as lists of their indices.

    Args:
        tokens: The maximum number of tokens per batch. A longer item gets a batch of its own.
    """
    batch: list[int] = []
    size = 0
    for place in sorted(range(len(items)), key=lambda place: len(items[place])):
        if batch and size + len(items[place]) > tokens:
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += len(items[place])
    if batch:
        yield batch


__all__ = ["BATCH_TOKENS", "WINDOW", "WINDOW_IN_ANY_ORDER", "batches", "windows"]
