"""What a user sees while a corpus is embedded."""

import time
from collections.abc import Callable

from tqdm import tqdm

BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
WITHOUT_END = "{desc}: {n_fmt}B [{elapsed}{postfix}]"


class CorpusProgress:
    """
    A bar over the bytes of the input, with tokens per second and the time that is left, on standard error.

    Args:
        size: Bytes of all of the input; `None`: not known, and so is the time.
        processes: That share the work. The speed is that of this one.
        is_shown: Whether there is a bar; `None`: where standard error is a terminal.
    """

    def __init__(self, size: int | None, processes: int, is_shown: bool | None):
        self._bar = tqdm(
            total=size,
            desc="embedding",
            unit="B",
            unit_scale=True,
            bar_format=WITHOUT_END if size is None else BAR,
            smoothing=0,  # the mean of all shards, for they are alike
            disable=None if is_shown is None else not is_shown,
        )
        self._unit = "tokens/s" if processes == 1 else "tokens/s a process"
        self._tokens, self._start = 0, time.monotonic()

    def __enter__(self) -> "CorpusProgress":
        return self

    def __exit__(self, *_):
        self._bar.close()

    def done(self, size: int):
        """Bytes whose vectors were there before, and took no time."""
        if not self._bar.disable:
            self._bar.initial += size
        self._bar.update(size)

    def elsewhere(self, size: int):
        """Bytes that another process embeds meanwhile."""
        self._bar.update(size)

    def embedding(self, size: int, tokens: int) -> Callable[[int, int], None]:
        """
        Begins with a shard.

        Args:
            size: Its bytes of input.
            tokens: How many it has.

        Returns:
            What is told the numbers of sentences and tokens done so far.
        """
        bytes_before, tokens_before = self._bar.n, self._tokens

        def advance(_: int, done: int):
            self._tokens = tokens_before + done
            speed = self._tokens / max(time.monotonic() - self._start, 1e-9)
            self._bar.set_postfix_str(f"{speed:,.0f} {self._unit}", refresh=False)
            self._bar.update(bytes_before + size * done // tokens - self._bar.n)

        return advance


__all__ = ["CorpusProgress"]
