"""`options.json` of a biLM: read with errors that name the file and the field."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from elmo_hf.errors import ConversionError


def read_object(path: str | os.PathLike) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}.") from error
    return parse_object(data, path)


def parse_object(data: bytes, source) -> dict[str, Any]:
    """The JSON object in `data`."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{source} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConversionError(f"{source} should hold a JSON object, found {type(value).__name__}.")
    return value


@contextmanager
def config_errors(source) -> Generator[None]:
    """Turns errors of `ElmoConfig` into a [`ConversionError`] that names the source."""
    try:
        yield
    except StrictDataclassError as error:
        raise ConversionError(f"{source}: {error.__cause__ or error}") from error
    except ValueError as error:
        raise ConversionError(f"{source}: {error}") from error


__all__ = ["config_errors", "parse_object", "read_object"]
