"""`elmo-hf card`, `elmo-hf push` and `elmo-hf pull`."""

from pathlib import Path
from typing import Annotated

import typer
from transformers.utils import logging

from .. import publishing
from ..default_model import find_model

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model folder, or the name of a model that comes with elmo-hf.", show_default=False
    ),
]
Revision = Annotated[str | None, typer.Option(help="A branch, tag or commit. Default: main.", show_default=False)]


def card(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.", show_default=False)],
    name: Annotated[
        str | None, typer.Option(help="The model's, in its card. Default: the folder's.", show_default=False)
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="As ISO 639 has it: en, zh; may be repeated.", show_default=False)
    ] = None,
    license_name: Annotated[
        str | None, typer.Option("--license", help="As the Hub has it: cc-by-sa-4.0.", show_default=False)
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="A name on the Hub; may be repeated.", show_default=False)
    ] = None,
    base_model: Annotated[str | None, typer.Option(help="A name on the Hub.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a card that was written by hand.")] = False,
):
    """
    Write a model's card from its config and from what its training or conversion has recorded.

    Example: elmo-hf card my-elmo --language en --license cc-by-sa-4.0
    """
    if not force and not publishing.is_made_here(model):
        raise typer.BadParameter("has a card that was written by hand; --force replaces it.", param_hint=str(model))
    said = {"language": language, "license": license_name, "datasets": dataset, "base_model": base_model}
    typer.echo(f"{publishing.write_card(model, name=name, said=said)}")


def push(
    model: Model,
    repo: Annotated[str, typer.Argument(metavar="REPO", help="owner/name, or a name of your own.", show_default=False)],
    private: Annotated[bool, typer.Option("--private", help="Only you see a new repository.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="The branch, made if it is not there. Default: main.", show_default=False)
    ] = None,
    message: Annotated[str | None, typer.Option(help="Of the commit.", show_default=False)] = None,
    pr: Annotated[bool, typer.Option("--pr", help="Propose the change as a pull request.")] = False,
):
    """
    Publish a model on the Hub: weights, config, tokenizer, code and card, in one commit.

    Example: elmo-hf push my-elmo me/my-elmo
    """
    logging.set_verbosity_error()
    folder = Path(find_model(model))
    address = publishing.push_model(
        folder, repo, private=private or None, revision=revision, message=message, create_pr=pr
    )
    typer.echo(address)


def pull(
    repo: Annotated[str, typer.Argument(metavar="REPO", help="owner/name.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The folder to write; new or empty.", show_default=False)],
    revision: Revision = None,
):
    """
    Download a model from the Hub into a folder, whole and checked.

    Example: elmo-hf pull me/my-elmo --out my-elmo
    """
    folder = publishing.pull_model(repo, out, revision=revision)
    typer.echo(f"{folder}: " + ", ".join(sorted(path.name for path in folder.iterdir() if path.suffix != ".py")))


__all__ = ["card", "pull", "push"]
