"""Which sentences go through the model together."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TypeVar

BATCH_TOKENS = 4096  # twice as many are no faster, small models or large, and take twice the memory
WINDOW = 4  # batches whose sentences are sorted by length together; their results are in memory together

Item = TypeVar("Item", bound=Sized)


def windows(items: Iterable[Item], tokens: int) -> Iterator[list[Item]]:
    """The items in order, as many at a time as have the given number of tokens, or the next one that has more."""
    window: list[Item] = []
    size = 0
    for item in items:
        window.append(item)
        size += len(item)
        if size >= tokens:
            yield window
            window, size = [], 0
    if window:
        yield window


def batches(items: Sequence[Item], tokens: int) -> Iterator[list[int]]:
    """
    The places of the items, those of similar length together.

    Args:
        tokens: The most in a batch. An item that has more is alone.
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


__all__ = ["BATCH_TOKENS", "WINDOW", "batches", "windows"]
