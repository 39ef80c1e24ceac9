"""Which sentences go through the model together."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TypeVar

BATCH_TOKENS = 4096  # twice as many are no faster, small models or large, and take twice the memory
SHORT = 8  # items of which at least so many are in a batch
WINDOW = 4  # batches whose sentences are sorted by length together; their results are in memory together
WINDOW_IN_ANY_ORDER = 16  # the same where results need not wait for each other; most shards of a corpus have fewer

Item = TypeVar("Item", bound=Sized)


def windows(items: Iterable[Item], tokens: int, number: int = WINDOW) -> Iterator[list[Item]]:
    """
    The items in order, as many at a time as fill so many batches. Where they are short beside a batch, [`batches`]
    needs no more than that: no small batch is left over.

    Args:
        tokens: The most in a batch.
        number: Of batches.
    """
    window: list[Item] = []
    size = longest = 0
    for item in items:
        window.append(item)
        size += len(item)
        if len(item) <= tokens // SHORT:
            longest = max(longest, len(item))
        # The longest item may just not fit into a batch, and may be what comes next.
        if size >= number * (tokens - longest) - longest:
            yield window
            window, size, longest = [], 0, 0
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


__all__ = ["BATCH_TOKENS", "WINDOW", "WINDOW_IN_ANY_ORDER", "batches", "windows"]
