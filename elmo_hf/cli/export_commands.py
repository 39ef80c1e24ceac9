"""`elmo-hf export`"""

from typing import Annotated

import typer

from ..runtime.extras import require
from .parameters import NewFolder, quiet_transformers

export = typer.Typer()


@export.callback(invoke_without_command=True)
def export_group(context: typer.Context):
    """Export a model to other runtimes."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@export.command("onnx")
def export_onnx(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model folder, or name on the Hub.", show_default=False)
    ],
    out: NewFolder,
    int8: Annotated[
        bool, typer.Option("--int8", help="Quantise the weights of the matrix products to int8 (dynamic quantisation).")
    ] = False,
):
    """
    Write a folder that onnxruntime runs without torch.

    Encoders, taggers and classifiers can be exported. The folder has the graph, the tokenizer, the config and a program
    that runs them. The graph is compared with PyTorch before it is written.

    Example: elmo-hf export onnx my-elmo --out my-elmo-onnx
    """
    require("onnx")
    from ..export import to_onnx
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    exported = to_onnx(find_named_model(model), out, int8=int8)
    megabytes = sum(path.stat().st_size for path in exported.folder.glob("model.onnx*")) / 1e6
    typer.echo(f"{exported.folder}: model.onnx, {megabytes:.1f} MB; differs by {exported.difference:.1e} from PyTorch")


__all__ = ["export"]
