"""What a user sees while a corpus is embedded."""

import time

from tqdm import tqdm


class CorpusProgress:
    """
    A bar over the bytes of the input, with tokens per second, on standard error.

    Args:
        size: Bytes of all of the input; `None`: not known, and so is the time left.
        processes: That share the work. Each has a speed, and that of this one is shown.
        is_shown: Whether there is a bar.
    """

    def __init__(self, size: int | None, processes: int, is_shown: bool):
        # The mean of all the time, which is what is left to expect; not that of the last moments.
        self._bar = tqdm(
            total=size,
            desc="embedding",
            unit="B",
            unit_scale=True,
            smoothing=0,
            disable=not is_shown,
            dynamic_ncols=True,
        )
        self._unit = "tokens/s" if processes == 1 else "tokens/s a process"
        self._tokens, self._start = 0, time.monotonic()

    def __enter__(self) -> "CorpusProgress":
        return self

    def __exit__(self, *_):
        self._bar.close()

    def skip(self, size: int):
        """Bytes whose vectors are there, or come from another process: they took no time."""
        self._bar.initial += size
        self._bar.update(size)

    def advance(self, size: int, tokens: int):
        """Bytes and tokens that were embedded."""
        self._tokens += tokens
        speed = self._tokens / max(time.monotonic() - self._start, 1e-9)
        self._bar.set_postfix_str(f"{speed:,.0f} {self._unit}", refresh=False)
        self._bar.update(size)


__all__ = ["CorpusProgress"]
