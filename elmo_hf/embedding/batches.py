"""Which sentences go through the model together."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TypeVar

BATCH_TOKENS = 4096  # twice as many are no faster, small models or large, and take twice the memory
WINDOW = 4  # batches whose sentences are sorted by length together; their results are in memory together

Item = TypeVar("Item", bound=Sized)


def windows(items: Iterable[Item], tokens: int) -> Iterator[list[Item]]:
    """
    The items in order, as many at a time as [`batches`] surely puts into `WINDOW` batches: no small one is left over.
    One that is too long for a batch is alone.

    Args:
        tokens: The most in a batch.
    """
    window: list[Item] = []
    size = longest = 0
    for item in items:
        longest = max(longest, len(item))
        # A batch with no room for the next item may lack all but one of its tokens.
        if window and size + len(item) > WINDOW * (tokens - longest + 1):
            yield window
            window, size, longest = [], 0, len(item)
        window.append(item)
        size += len(item)
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
