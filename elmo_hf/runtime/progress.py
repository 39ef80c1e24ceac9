"""The progress of embedding: a bar, or calls of a function."""

from collections.abc import Callable, Iterable, Sized
from typing import Any

from tqdm import tqdm

Progress = bool | Callable[[int, int], object] | None


class ProgressReport:
    """
    Counts finished sentences and tokens, and reports them.

    Args:
        progress: `True` for a bar on standard error, or a function that is called with the numbers of sentences and
            tokens done so far.
        sentences: The input. If it has a length, the bar shows how much is left.
    """

    def __init__(self, progress: Progress = None, sentences: Iterable[Any] = ()):
        if progress not in (None, True, False) and not callable(progress):
            raise ValueError(f"`progress` must be True, False or a function of two numbers, found {progress!r:.60}.")
        self.sentences = self.tokens = 0
        self._call = progress if callable(progress) else None
        self._total = len(sentences) if isinstance(sentences, Sized) else None
        self._has_bar = progress is True
        self._bar: tqdm | None = None

    def done(self, sentences: int, tokens: int):
        """Adds finished sentences and tokens."""
        self.sentences += sentences
        self.tokens += tokens
        if self._bar is not None:
            seconds = max(self._bar.format_dict["elapsed"], 1e-9)
            self._bar.set_postfix_str(f"{self.tokens / seconds:,.0f} tokens/s", refresh=False)
            self._bar.update(sentences)
        if self._call is not None:
            self._call(self.sentences, self.tokens)

    def __enter__(self) -> "ProgressReport":
        if self._has_bar:
            self._bar = tqdm(total=self._total, desc="embedding", unit=" sentences")
        return self

    def __exit__(self, *error):
        if self._bar is not None:
            self._bar.close()


__all__ = ["Progress", "ProgressReport"]
