"""`elmo-hf space`"""

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import require
from .parameters import DEFAULT_MODEL, Device, Precision, is_given, quiet_transformers


def space(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help=f"Model folders, or names on the Hub. {DEFAULT_MODEL}", show_default=False
        ),
    ] = None,
    tagger: Annotated[
        list[str] | None,
        typer.Option(
            help="Also offer this tagger: a folder, or a name on the Hub. May be repeated.", show_default=False
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: this machine only.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port; 0 takes a free one. Default: the first free one from 7860 on.",
            show_default=False,
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write the folder of a Hugging Face Space instead; must be new or empty.", show_default=False
        ),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="REPO", help="Publish the page as a Hugging Face Space instead: owner/name.", show_default=False
        ),
    ] = None,
    device: Device = None,
    precision: Precision = None,
):
    """
    Show a model in the browser.

    The page compares senses and layers, finds neighbours, predicts words, tags text and converts checkpoints. It needs
    no network.

    Example: elmo-hf space --push me/elmo
    """
    require("page")
    if out is not None and push is not None:
        raise typer.BadParameter("choose one of --out and --push.", param_hint="--push")
    if out is not None or push is not None:
        _refuse_launch_options(context)
    quiet_transformers()
    names, taggers = models or [], tagger or []
    if out is not None:
        from ..space.space_folder import write_space

        typer.echo(write_space(out, names, taggers))
    elif push is not None:
        from ..space.space_folder import publish_space

        typer.echo(publish_space(push, names, taggers))
    else:
        from ..space.page import launch_page

        options = {"device": device, "precision": precision, "prevent_thread_lock": True}
        page = launch_page(names, taggers, host=host, port=port, browser=browser, **options)
        typer.echo(f"{page.local_url} (Ctrl-C stops the page)")
        page.block_thread()


def _refuse_launch_options(context: typer.Context):
    """Refuses options that have no effect with `--out` and `--push`."""
    for name in ("device", "precision"):
        if is_given(context, name):
            raise typer.BadParameter(
                "a Space takes the device and the precision of its machine: leave them out with --out and --push.",
                param_hint=f"--{name}",
            )
    for name in ("host", "port", "browser"):
        if is_given(context, name):
            raise typer.BadParameter(
                "no page is opened with --out and --push: leave out --host, --port and --browser.",
                param_hint=f"--{name}",
            )


__all__ = ["space"]
