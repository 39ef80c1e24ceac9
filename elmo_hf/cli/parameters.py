"""
Options that several commands have, each with one name and one meaning, and what the commands do with them.

The modules of the command line import torch and transformers inside the functions that need them: `--help` and mistakes
in the arguments should be answered at once.
"""

import json
import os
import re
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..data.text_sources import FILE_NAME, STANDARD_INPUT
from ..errors import CheckpointError, FolderError, ModelError, RunError, TextError, did_you_mean
from ..runtime.precisions import Precision as PrecisionName

if TYPE_CHECKING:
    from huggingface_hub.errors import StrictDataclassError

    from ..embedding import ElmoEmbedder

# The messages of `huggingface_hub` about a value that is wrong, or has the wrong type.
ANY_OF_TYPES = re.compile(
    r"Field '(?P<name>\w+)' with value (?P<value>.*?) doesn't match any type in \((?P<kinds>.*?)\)\.", re.S
)
TYPE = re.compile(r"<class '(?P<type>\w+)'>|(?P<list>list)\[|'(?P<choice>\w+)'")  # one of these types
ONE_TYPE = re.compile(r"Field '(?P<name>\w+)' expected (?P<kind>.*?), got \w+ \(value: (?P<value>.*)\)", re.S)
ONE_OF = re.compile(r"Field '(?P<name>\w+)' expected one of \((?P<choices>.*?)\), got (?P<value>.*)", re.S)
A_KIND = re.compile(r"Field '(?P<name>\w+)' expected (?P<kind>an? .*?), got (?P<value>.*)", re.S)

FILES = (
    "Files, plain or compressed: text (one sentence per line), .conll, .conllu, .jsonl, .csv, .tsv, .parquet; datasets "
    "on disk or by name; - for standard input."
)
WITH_COLUMNS = ("conll", "jsonl", "csv", "tsv", "parquet", "dataset")  # kinds of inputs
DEFAULT_MODEL = "Default: the model that comes with elmo-hf."

# ---- options

Model = Annotated[
    str | None,
    typer.Option("--model", help=f"Model folder, or name on the Hub. {DEFAULT_MODEL}", show_default=False),
]
# For the commands that take `[MODEL] INPUT...`.
ModelOfInputs = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Model folder, or name on the Hub. With this option, all arguments are inputs.",
        show_default=False,
    ),
]
# For every command that runs a model; `elmo_hf.runtime.model_loading.load_model` applies them.
Device = Annotated[
    str | None,
    typer.Option("--device", help="Device of the model: cpu, cuda, cuda:1, mps. Default: cpu.", show_default=False),
]
Precision = Annotated[
    PrecisionName | None,
    typer.Option("--precision", help="Precision of the model's weights. Default: as saved.", show_default=False),
]
NewFolder = Annotated[Path, typer.Option("--out", help="Folder to write; must be new or empty.", show_default=False)]
Pretokenized = Annotated[
    bool,
    typer.Option(
        "--pretokenized",
        help="The text is already split into words, separated by spaces. Default: the tokenizer splits it.",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column",
        help="Column that holds the texts or the lists of words: a name, or for .conll a number, counted from 0. "
        "Default: text, sentence, words or tokens; for .conll 0.",
        show_default=False,
    ),
]
Split = Annotated[str, typer.Option("--split", help="Split of a dataset.")]
HowMany = Annotated[int, typer.Option("-k", "--number", min=1, help="How many to print.")]


# ---- arguments


def parse_assignments(assignments: Sequence[str] | None) -> dict[str, Any]:
    """The `name=value` pairs of `--set`; the values as JSON, or else as text."""
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


def parse_layer(layer: str) -> str | int:
    """A name of a layer, or its number."""
    return int(layer) if layer.lstrip("-").isdigit() else layer


def model_and_inputs(arguments: Sequence[str], model: str | None = None) -> tuple[str | None, list[str]]:
    """
    The model, as [`find_named_model`] takes it, and the inputs of `[MODEL] INPUT...`.

    Args:
        model: The model that `--model` names, if it was given: all arguments are then inputs.
    """
    inputs = list(arguments)
    if model is None and inputs and _is_model(inputs):
        model = inputs.pop(0)
    if not inputs:
        raise typer.BadParameter("name at least one file or dataset.", param_hint="INPUT")
    return model, inputs


def _is_model(arguments: Sequence[str]) -> bool:
    """Whether the first argument is a model: a folder with a config, or, before others, neither a path nor a file."""
    first = arguments[0]
    if os.path.exists(first):
        return os.path.isfile(os.path.join(first, "config.json"))
    is_text = first == STANDARD_INPUT or FILE_NAME.fullmatch(os.path.splitext(first)[1].lower())
    return len(arguments) > 1 and not is_text and ":" not in first  # a colon is part of a dataset's name


def is_given(context: typer.Context, name: str) -> bool:
    """Whether a parameter of the command is on the command line, be it with its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_unused_column_and_split(context: typer.Context, kinds: Iterable[str]):
    """
    Refuses `--column` if no input has columns, and `--split` if none is a dataset.

    Args:
        context: The context of the command.
        kinds: The kinds of the inputs, as [`kind_of`] names them.
    """
    found = sorted(set(kinds))
    if is_given(context, "column") and not set(found).intersection(WITH_COLUMNS):
        raise typer.BadParameter(
            f"no input has columns to choose from (found {', '.join(found)}): leave it out.", param_hint="--column"
        )
    if is_given(context, "split") and "dataset" not in found:
        raise typer.BadParameter(
            f"no input is a dataset with splits (found {', '.join(found)}): leave it out.", param_hint="--split"
        )


def refuse_beside_resume(context: typer.Context, applied: Collection[str]):
    """
    Refuses options beside `--resume` that would have no effect: a run keeps those that it was begun with.

    Args:
        context: The context of the command.
        applied: The names of the command's parameters that apply to a resumed run too.
    """
    refused = [
        parameter
        for parameter in context.command.params
        if is_given(context, str(parameter.name)) and parameter.name not in applied
    ]
    if refused:
        names = [name if (name := parameter.opts[0]).startswith("-") else "INPUT" for parameter in refused]
        raise typer.BadParameter(
            f"a resumed run keeps the options that it was begun with: leave out {', '.join(names)}, or begin a run in "
            "another folder.",
            param_hint="--resume",
        )


# ---- libraries and their errors


def quiet_transformers():
    """
    Turns off transformers' progress bars and warnings, since our own messages say what is wrong with a model. Every
    command that loads a model or a tokenizer calls it.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def load_embedder(model: str | None, device: str | None, precision: PrecisionName | None) -> "ElmoEmbedder":
    """The model that `--model`, `--device` and `--precision` name."""
    from ..embedding import ElmoEmbedder
    from ..runtime.model_loading import find_device, precision_options
    from ..runtime.named_models import find_named_model

    name = find_named_model(model)
    return ElmoEmbedder.from_pretrained(name, device=find_device(device), **precision_options(name, precision))


@contextmanager
def bad_parameters() -> Generator[None]:
    """Reports values that the settings, the config or the tokenizer refuse as mistakes on the command line."""
    from huggingface_hub.errors import StrictDataclassError

    try:
        yield
    except (TextError, RunError, ModelError, FolderError, CheckpointError):
        raise
    except StrictDataclassError as error:
        raise typer.BadParameter(_without_wrapping(error)) from error
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error


def _without_wrapping(error: "StrictDataclassError") -> str:
    """What is wrong with a setting or a field of the config, in plain words."""
    text = str(error.__cause__ or error)
    if (match := ANY_OF_TYPES.search(text)) is not None:
        names: list[str] = []
        for kind in TYPE.finditer(match["kinds"]):
            names += [json.dumps(kind["choice"])] if kind["choice"] else _names_of_type(kind["type"] or kind["list"])
        suggestion = did_you_mean(match["value"].strip("'"), [name.strip('"') for name in names if '"' in name])
        return f"`{match['name']}` must be {_either(names) or match['kinds']}, found {match['value']}{suggestion}."
    if (match := ONE_TYPE.search(text)) is not None:
        kind = _either(_names_of_type(match["kind"]))
        return f"`{match['name']}` must be {kind}, found {match['value']}."
    if (match := ONE_OF.search(text)) is not None:
        choices = match["choices"].split(", ")
        suggestion = did_you_mean(match["value"], [choice.strip("'") for choice in choices])
        return f"`{match['name']}` must be {_either(choices)}, found {match['value']!r}{suggestion}."
    if (match := A_KIND.search(text)) is not None:
        return f"`{match['name']}` must be {match['kind']}, found {match['value']}."
    return text


def _names_of_type(kind: str) -> list[str]:
    """How the values of a type are named in messages: those of `bool` as they are written after `--set`."""
    return {"bool": ["true", "false"], "NoneType": []}.get(kind, [kind])


def _either(names: Sequence[str]) -> str:
    """`a, b or c`"""
    return " or ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


__all__ = [
    "DEFAULT_MODEL",
    "FILES",
    "Column",
    "Device",
    "HowMany",
    "Model",
    "ModelOfInputs",
    "NewFolder",
    "Precision",
    "Pretokenized",
    "Split",
    "bad_parameters",
    "is_given",
    "load_embedder",
    "model_and_inputs",
    "parse_assignments",
    "parse_layer",
    "quiet_transformers",
    "refuse_beside_resume",
    "refuse_unused_column_and_split",
]
