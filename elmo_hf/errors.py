"""
The errors about a user's text, models and folders, and helpers for their messages. Each message is one line that names
the problem and the remedy. This module only imports the standard library, so that every part of the package can import
it.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class TextError(ValueError):
    """A text or a set of examples that cannot be read or used."""


class ModelError(ValueError):
    """A model that cannot be used as asked."""


class FolderError(ValueError):
    """A folder that cannot be written as asked."""


class RunError(ValueError):
    """A run's folder that cannot be used as asked."""


class ConversionError(ValueError):
    """A checkpoint that cannot be converted; the message says what was expected and what was found."""


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read."""


class DivergenceError(RuntimeError):
    """The loss has become useless; the message names the last good checkpoint."""


class HubError(RuntimeError):
    """A request that the Hub refused, or that did not reach it."""


def in_one_line(error: Exception | str) -> str:
    """The text of an error without line breaks, at most 300 characters; the name of its class if it has no text."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` with the closest of the known names, to append to a name; empty if none is close."""
    known = list(known)
    if name in known:
        return ""
    matches = {candidate.lower(): candidate for candidate in known}  # a wrong case is the most common mistake
    close = get_close_matches(name.lower(), matches, n=1)
    return f" (did you mean {matches[close[0]]!r}?)" if close else ""


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """
    A count and its noun: "1 file", "2,000 files".

    Args:
        plural: Default: the noun and an "s".
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


__all__ = [
    "CheckpointError",
    "ConversionError",
    "DivergenceError",
    "FolderError",
    "HubError",
    "ModelError",
    "RunError",
    "TextError",
    "counted",
    "did_you_mean",
    "in_one_line",
]
