"""The tab Convert: options and weights of bilm-tf or AllenNLP become a folder for `from_pretrained`."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch

from .. import conversion
from ..errors import ConversionError
from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.modeling_elmo import ElmoModel
from .html_parts import escaped, message, paragraph, result
from .input_limits import UPLOAD_BYTES
from .page_model import PageModel

RESULT = "elmo.zip"
EXAMPLE: dict[str, Any] = {
    "char_filters": [[1, 8], [2, 8]],
    "cell_size": 16,
    "projection_size": 8,
    "num_highway_layers": 1,
}


def convert_files(options: str | None, weights: str | None, out: Path) -> Any:
    """
    Converts a checkpoint to a zip file of a model folder.

    Args:
        options, weights: The files.
        out: The zip file to write.

    Returns:
        What was converted, a `Plan` of the conversion.
    """
    if options is None or weights is None:
        raise ConversionError("Two files are needed: options.json, and the weights (.hdf5).")
    files = [Path(options), Path(weights)]
    try:
        for path in files:
            if not path.is_file():
                raise ConversionError(f"{path.name} is not on the server any more: upload it again.")
            _refuse_large(path.name, path.stat().st_size)
        plan = conversion.plan_conversion(weights, options)
        if plan.detected.format != "bilm-hdf5":
            raise ConversionError(
                f"{files[1].name} is not an HDF5 file: `elmo-hf convert` reads {plan.detected.format}."
            )
        _refuse_large("The converted model", plan.size)
        with tempfile.TemporaryDirectory(prefix="elmo-hf-convert-") as temporary:
            folder = conversion.convert_bilm_hdf5(options, weights, Path(temporary) / "elmo")
            with ZipFile(out, "w") as archive:
                for path in sorted(folder.iterdir()):
                    archive.write(path, f"elmo/{path.name}")
    except ConversionError as error:  # visitors should not see the folders of the server
        text = str(error)
        for path in files:
            text = text.replace(f"{path.parent}{os.sep}", "")
        raise ConversionError(text) from error
    return plan


def _refuse_large(name: str, size: int):
    if size > UPLOAD_BYTES:
        raise ConversionError(
            f"{name} has {size:,} bytes; this page accepts at most {UPLOAD_BYTES:,}. `elmo-hf convert` has no limit."
        )


def write_example(folder: Path) -> tuple[str, str]:
    """Writes a tiny checkpoint with random weights: the paths of its options and weights."""
    options, weights = folder / "options.json", folder / "weights.hdf5"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        conversion.write_bilm_hdf5(ElmoModel(ElmoConfig(**EXAMPLE)), options, weights)
    return str(options), str(weights)


def render_plan(plan: Any) -> str:
    """The result as HTML."""
    fields = plan.fields | {
        "parameters": f"{sum(plan.parameters.values()):,}",
        "bytes of the weights": f"{plan.size:,}",
    }
    rows = "".join(
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>' for name, value in fields.items()
    )
    return result(
        paragraph(f"Converted. Download {RESULT} below and unpack it; AutoModel.from_pretrained loads the folder."),
        f'<div class="scroll"><table><caption>Configuration</caption><tbody>{rows}</tbody></table></div>',
    )


def lay_out_convert(model: PageModel):
    """Adds the tab to the page. The model is not used."""
    import gradio as gr

    gr.Markdown(
        "The files of bilm-tf or AllenNLP become a folder that `AutoModel.from_pretrained` loads. At most "
        f"{UPLOAD_BYTES // 2**20} MB per file. Uploads are deleted after the conversion, and the result after an hour."
    )
    with gr.Row():
        options = gr.File(label="options.json", file_types=[".json"], type="filepath")
        weights = gr.File(label="weights (.hdf5)", file_types=[".hdf5", ".h5"], type="filepath")
    button = gr.Button("Convert", variant="primary")
    example = gr.Button("Example: a tiny checkpoint with random weights", size="sm")
    output = gr.HTML(elem_classes="convert-result")
    download = gr.File(label=RESULT, interactive=False, visible=False, elem_classes="convert-download")

    def convert(options_path: str | None, weights_path: str | None) -> list:
        # In Gradio's folder of temporary files, which `delete_cache` empties.
        Path(download.GRADIO_CACHE).mkdir(parents=True, exist_ok=True)
        out = Path(tempfile.mkdtemp(dir=download.GRADIO_CACHE)) / RESULT
        try:
            plan = convert_files(options_path, weights_path, out)
        except BaseException as error:
            shutil.rmtree(out.parent, ignore_errors=True)
            if not isinstance(error, ConversionError):
                raise
            return [None, None, message(str(error)), gr.File(visible=False)]
        finally:
            for path in (options_path, weights_path):
                if path is not None:
                    with suppress(OSError):
                        os.unlink(path)
        return [None, None, render_plan(plan), gr.File(str(out), visible=True)]

    def convert_example() -> list:
        with tempfile.TemporaryDirectory(prefix="elmo-hf-example-") as folder:
            return convert(*write_example(Path(folder)))

    outputs = [options, weights, output, download]
    one_at_a_time: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "convert"}
    button.click(convert, [options, weights], outputs, api_visibility="private", **one_at_a_time)
    example.click(convert_example, None, outputs, api_visibility="private", **one_at_a_time)


__all__ = ["convert_files", "lay_out_convert", "render_plan", "write_example"]
