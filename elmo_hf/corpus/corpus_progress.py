"""The progress bar of a corpus that is being embedded."""

import time
from collections.abc import Callable

from tqdm import tqdm

BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
WITHOUT_END = "{desc}: {n_fmt}B [{elapsed}{postfix}]"


class CorpusProgress:
    """
    A bar on standard error over the bytes of the input, with tokens per second and the remaining time.

    Args:
        size: The size of the input in bytes. `None` if it is unknown; the bar then has no remaining time.
        processes: The number of processes that share the work. The speed shown is that of this process.
        is_shown: Whether to show the bar. `None`: only if standard error is a terminal.
    """

    def __init__(self, size: int | None, processes: int, is_shown: bool | None):
        self._bar = tqdm(
            total=size,
            desc="embedding",
            unit="B",
            unit_scale=True,
            bar_format=WITHOUT_END if size is None else BAR,
            smoothing=0,  # the mean over all shards, which are similar
            disable=None if is_shown is None else not is_shown,
        )
        self._unit = "tokens/s" if processes == 1 else "tokens/s per process"
        self._tokens, self._start = 0, time.monotonic()

    def __enter__(self) -> "CorpusProgress":
        return self

    def __exit__(self, *_):
        self._bar.close()

    def done(self, size: int):
        """Counts bytes whose vectors an earlier run has written; they took no time."""
        if not self._bar.disable:
            self._bar.initial += size
        self._bar.update(size)

    def elsewhere(self, size: int):
        """Counts bytes that another process embeds."""
        self._bar.update(size)

    def embedding(self, size: int, tokens: int) -> Callable[[int, int], None]:
        """
        Begins a shard.

        Args:
            size: The bytes of input of the shard.
            tokens: The number of tokens of the shard.

        Returns:
            A function to call with the numbers of sentences and tokens done so far.
        """
        bytes_before, tokens_before = self._bar.n, self._tokens

        def advance(_: int, done: int):
            self._tokens = tokens_before + done
            speed = self._tokens / max(time.monotonic() - self._start, 1e-9)
            self._bar.set_postfix_str(f"{speed:,.0f} {self._unit}", refresh=False)
            self._bar.update(bytes_before + size * done // tokens - self._bar.n)

        return advance


__all__ = ["CorpusProgress"]
