"""
`elmo-hf`: parses, calls, prints.

A problem with the user's arguments, files or machine is reported in one line, and the exit code is 2. Anything else is
a bug in this package: one line asks for a report, and the exit code is 1.
"""

import os
import re
import sys
import traceback
from logging import WARNING, getLogger
from typing import Annotated, NoReturn

import typer

from .._version import __version__
from ..errors import (
    CheckpointError,
    ConversionError,
    DivergenceError,
    FolderError,
    HubError,
    ModelError,
    RunError,
    TextError,
)
from .analysis_commands import analyze
from .conversion_commands import convert
from .embedding_commands import embed
from .export_commands import export
from .finetuning_commands import finetune
from .index_commands import index, neighbors
from .language_model_commands import next_words, previous_words, score, similar, substitutes
from .prediction_commands import predict
from .pretraining_commands import perplexity, pretrain, vocab
from .publishing_commands import card, pull, push
from .serving_commands import serve
from .space_commands import space
from .usage_errors import UsageError, usage_message

TRACEBACK = "ELMO_HF_TRACEBACK"  # the environment variable that asks for tracebacks
SETTINGS = {"help_option_names": ["-h", "--help"]}
# Problems with the user's files or machine. Their messages say what is wrong.
MISTAKES = (
    ConversionError,
    TextError,
    RunError,
    ModelError,
    FolderError,
    CheckpointError,
    DivergenceError,
    HubError,
    OSError,
    ImportError,
)

app = typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=SETTINGS)
app.add_typer(convert, name="convert")
app.add_typer(finetune, name="finetune")
app.add_typer(analyze, name="analyze")
app.add_typer(export, name="export")
for command in (embed, index, neighbors, vocab, pretrain, perplexity, predict, card, push, pull, space, serve):
    app.command()(command)
for command in (score, substitutes, similar):
    app.command()(command)
app.command("next")(next_words)
app.command("previous")(previous_words)


def _print_version(is_asked: bool):
    if is_asked:
        typer.echo(f"elmo-hf {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def elmo_hf(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
):
    """ELMo, deep contextualised word representations, as a Hugging Face model."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main():
    """The command's entry point."""
    getLogger("jieba").addFilter(lambda record: record.levelno >= WARNING)  # not how it loads its dictionary
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UsageError as error:
        message = usage_message(error)
    except typer.Abort:
        message = "stopped"
    except MISTAKES as error:
        message = str(error)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not re.search("can't allocate memory|out of memory", str(error)):
            _exit_with_bug(error)
        message = (
            f"There is not enough memory ({error}): lower --batch-tokens or --batch-size, or take a smaller model."
        )
    except Exception as error:
        _exit_with_bug(error)
    print("elmo-hf: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(2)


def _exit_with_bug(error: Exception) -> NoReturn:
    """Exits with one line about an unexpected error, or with its traceback if the environment asks for it."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        print(
            f"elmo-hf: unexpected error ({what}, {os.path.basename(place.filename)}:{place.lineno}). This is a bug in "
            f"elmo-hf: please report it with what the same command prints after `export {TRACEBACK}=1`.",
            file=sys.stderr,
        )
    sys.exit(1)
