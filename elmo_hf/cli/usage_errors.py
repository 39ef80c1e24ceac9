"""Messages about wrong arguments of a command: one line that suggests what may have been meant."""

import re
from typing import Any, cast

import typer

from ..errors import did_you_mean

# Typer brings its own copy of click; the first base of `BadParameter` is its `UsageError`.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
NOT_A_CHOICE = re.compile(r"(?:^|: )(?P<value>'.*?'|\".*?\") is not one of (?P<choices>'.*')\.$", re.S)


def usage_message(error: Any) -> str:
    """The message of a `UsageError`, with the closest option or choice, and the command that prints the help."""
    context = error.ctx
    help_command = f"{context.command_path} --help" if context is not None else "elmo-hf --help"
    return f"{_problem(error)} (see {help_command})"


def _problem(error: Any) -> str:
    option = getattr(error, "option_name", None)
    if option is not None and getattr(error, "possibilities", None) is not None:  # an option that does not exist
        return f"{error.message}{did_you_mean(option, _shown_options(error))}."
    message = error.format_message().replace("Value error, ", "")
    if callable(details := getattr(error.__cause__, "errors", None)):  # pydantic has checked the value
        message = message.replace(error.message, _expected_and_found(details()[0]))
    if (match := NOT_A_CHOICE.search(message)) is None:
        return message
    suggestion = did_you_mean(match["value"][1:-1], re.findall(r"'([^']*)'", match["choices"]))
    return f"{message[:-1]}{suggestion}."


def _expected_and_found(detail: Any) -> str:
    """What pydantic expected of a value, and the value."""
    bounds = detail.get("ctx", {})
    if "ge" in bounds:
        expected = f"must be {bounds['ge']} or more"
    elif "le" in bounds:
        expected = f"must be {bounds['le']} or less"
    else:
        expected = detail["msg"].partition(",")[0].replace("Input should be", "must be")
    return f"{expected}, found {detail['input']}."


def _shown_options(error: Any) -> list[str]:
    """The options of the command that its help shows."""
    parameters = [] if error.ctx is None else error.ctx.command.params
    shown = [parameter for parameter in parameters if not getattr(parameter, "hidden", False)]
    return [name for parameter in shown for name in parameter.opts if name.startswith("--")] + ["--help"]


__all__ = ["UsageError", "usage_message"]
