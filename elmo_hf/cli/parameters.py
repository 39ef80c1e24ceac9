"""What the commands share: `--set NAME=VALUE`, `[MODEL] TEXT...`, and mistakes on the command line."""

import json
import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from huggingface_hub.errors import StrictDataclassError

from ..errors import CheckpointError, FolderError, ModelError, RunError, TextError
from ..model_loading import Precision as PrecisionName
from ..text_sources import FILE_NAME, STANDARD_INPUT

# How `huggingface_hub` says that a value has the wrong type.
ANY_OF_TYPES = re.compile(
    r"Field '(?P<name>\w+)' with value (?P<value>.*?) doesn't match any type in \((?P<kinds>.*?)\)\.", re.S
)
ONE_TYPE = re.compile(r"Field '(?P<name>\w+)' expected (?P<kind>.*?), got \w+ \(value: (?P<value>.*)\)", re.S)

# Of every command that runs a model; `elmo_hf.model_loading.load_model` does what they say.
Device = Annotated[
    str | None,
    typer.Option("--device", help="Where the model runs: cpu, cuda, cuda:1, mps. Default: cpu.", show_default=False),
]
Precision = Annotated[
    PrecisionName | None,
    typer.Option("--precision", help="Of the model's weights. Default: as they were saved.", show_default=False),
]


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


def model_and_texts(arguments: Sequence[str], model: str | None = None) -> tuple[str | None, list[str]]:
    """
    The folder or name of the model, as [`find_named_model`] takes it, and the texts, of `[MODEL] TEXT...`.

    Args:
        model: Where it was named by an option: all arguments are then texts.
    """
    texts = list(arguments)
    if model is None and texts and _is_model(texts):
        model = texts.pop(0)
    if not texts:
        raise typer.BadParameter("name at least one text.", param_hint="TEXT")
    return model, texts


def _is_model(arguments: Sequence[str]) -> bool:
    """Whether the first argument names a model: a folder with a config, or, before others, no path and no text file."""
    first = arguments[0]
    if os.path.exists(first):
        return os.path.isfile(os.path.join(first, "config.json"))
    is_text = first == STANDARD_INPUT or FILE_NAME.fullmatch(os.path.splitext(first)[1].lower())
    return len(arguments) > 1 and not is_text and ":" not in first  # as of a dataset's configuration


@contextmanager
def bad_parameters() -> Generator[None]:
    """Turns what settings, config and tokenizer refuse into a mistake of the command line."""
    try:
        yield
    except (TextError, RunError, ModelError, FolderError, CheckpointError):
        raise
    except StrictDataclassError as error:
        raise typer.BadParameter(_without_wrapping(error)) from error
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error


def _without_wrapping(error: StrictDataclassError) -> str:
    """What is wrong with a setting or a field of the config, in plain words."""
    text = str(error.__cause__ or error)
    if (found := ANY_OF_TYPES.search(text)) is not None:
        kinds = " or ".join(re.findall(r"<class '(\w+)'>", found["kinds"])) or found["kinds"]
        return f"`{found['name']}` must be {kinds}, found {found['value']}."
    if (found := ONE_TYPE.search(text)) is not None:
        return f"`{found['name']}` must be {found['kind']}, found {found['value']}."
    return text


__all__ = ["Device", "Precision", "bad_parameters", "model_and_texts", "parse_assignments"]
