"""What the commands share: `--set NAME=VALUE`, and mistakes on the command line."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from huggingface_hub.errors import StrictDataclassError

from ..errors import CheckpointError, FolderError, ModelError, RunError, TextError


def parse_assignments(assignments: Sequence[str] | None) -> dict[str, Any]:
    """`name=value` pairs; the values as JSON, or as they are."""
    values = {}
    for assignment in assignments or []:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, found {assignment!r}.")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


@contextmanager
def bad_parameters() -> Generator[None]:
    """Turns what settings, config and tokenizer refuse into a mistake of the command line."""
    try:
        yield
    except (TextError, RunError, ModelError, FolderError, CheckpointError):
        raise
    except (ValueError, TypeError, StrictDataclassError) as error:
        raise typer.BadParameter(str(error)) from error


__all__ = ["bad_parameters", "parse_assignments"]
