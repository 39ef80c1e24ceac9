"""`elmo-hf card`, `elmo-hf push` and `elmo-hf pull`."""

from pathlib import Path
from typing import Annotated

import typer

from .parameters import NewFolder, quiet_transformers


def card(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.", show_default=False)],
    name: Annotated[
        str | None, typer.Option(help="Name of the model. Default: the name of the folder.", show_default=False)
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(help="ISO 639 code of the language, such as en or zh. May be repeated.", show_default=False),
    ] = None,
    license_name: Annotated[
        str | None,
        typer.Option("--license", help="Identifier of the license, as on the Hub: cc-by-sa-4.0.", show_default=False),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="Name of the training data on the Hub. May be repeated.", show_default=False),
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(help="Name on the Hub of the model that this one was trained from.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a card that was written by hand.")] = False,
):
    """
    Write the card of a model.

    Its content comes from the config and from the records of the training or conversion.

    Example: elmo-hf card my-elmo --language en --license cc-by-sa-4.0
    """
    from .. import publishing

    quiet_transformers()
    if not overwrite and not publishing.is_made_here(model):
        raise typer.BadParameter("has a card that was written by hand; --overwrite replaces it.", param_hint=str(model))
    metadata = {"language": language, "license": license_name, "datasets": dataset, "base_model": base_model}
    typer.echo(f"{publishing.write_card(model, name=name, said=metadata)}")


def push(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A model folder, or the name of a model that comes with elmo-hf.", show_default=False
        ),
    ],
    repo: Annotated[
        str,
        typer.Argument(
            metavar="REPO", help="owner/name, or just a name for a repository of your own.", show_default=False
        ),
    ],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    revision: Annotated[
        str | None,
        typer.Option(help="Branch to push to; created if it does not exist. Default: main.", show_default=False),
    ] = None,
    message: Annotated[str | None, typer.Option(help="Commit message.", show_default=False)] = None,
    pr: Annotated[bool, typer.Option("--pr", help="Open a pull request with the change.")] = False,
):
    """
    Publish a model on the Hub.

    Weights, config, tokenizer, code and card are uploaded in one commit.

    Example: elmo-hf push my-elmo me/my-elmo
    """
    from .. import publishing
    from ..runtime.default_model import find_model

    quiet_transformers()
    folder = Path(find_model(model))
    address = publishing.push_model(
        folder, repo, private=private or None, revision=revision, message=message, create_pr=pr
    )
    typer.echo(address)


def pull(
    repo: Annotated[str, typer.Argument(metavar="REPO", help="owner/name.", show_default=False)],
    out: NewFolder,
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit. Default: main.", show_default=False)
    ] = None,
):
    """
    Download a model from the Hub.

    The folder holds the complete model, and its files are checked.

    Example: elmo-hf pull me/my-elmo --out my-elmo
    """
    from .. import publishing

    quiet_transformers()
    folder = publishing.pull_model(repo, out, revision=revision)
    typer.echo(f"{folder}: " + ", ".join(sorted(path.name for path in folder.iterdir() if path.suffix != ".py")))


__all__ = ["card", "pull", "push"]
