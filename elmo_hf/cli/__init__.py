"""`elmo-hf`: parses, calls, prints. A user's mistake is one line and exit code 2."""

import sys
from logging import WARNING, getLogger
from typing import Annotated, cast

import typer
from transformers.utils import logging

from .. import conversion  # ty: ignore[import-not-found]  (a folder beside the package, mapped when installed)
from .._version import __version__
from ..errors import CheckpointError, DivergenceError, FolderError, HubError, ModelError, RunError, TextError
from .conversion_commands import convert
from .embedding_commands import embed
from .finetuning_commands import finetune, predict
from .index_commands import index, neighbors
from .language_model_commands import next_words, previous_words, score, similar, substitutes
from .pretraining_commands import perplexity, pretrain, vocab
from .publishing_commands import card, pull, push

SETTINGS = {"help_option_names": ["-h", "--help"]}
# Typer brings its own copy of click; the first base of `BadParameter` is its `UsageError`.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
# What is wrong with the user's files or machine, in a message that says so.
MISTAKES = (
    conversion.ConversionError,
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
for command in (embed, index, neighbors, vocab, pretrain, perplexity, predict, card, push, pull):
    app.command()(command)
for command in (score, substitutes, similar):
    app.command()(command)
app.command("next")(next_words)
app.command("previous")(previous_words)


def _print_version(wanted: bool):
    if wanted:
        typer.echo(f"elmo-hf {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def elmo_hf(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
):
    """ELMo, deep contextualised word representations, as a Hugging Face model."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main():
    """The command's entry point."""
    logging.disable_progress_bar()  # of transformers, for loading and saving
    getLogger("jieba").addFilter(lambda record: record.levelno >= WARNING)  # not how it loads its dictionary
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UsageError as error:
        message = f"{error.format_message()} (elmo-hf --help says more)"
    except typer.Abort:
        message = "stopped"
    except MISTAKES as error:
        message = str(error)
    print("elmo-hf: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(2)
