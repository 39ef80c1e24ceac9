"""The page: six tabs per model, without anything from outside."""

import os
from collections.abc import Sequence
from typing import Any

from ..runtime.addresses import bound_socket
from ..runtime.extras import require
from ..runtime.named_models import find_named_model
from ..runtime.precisions import Precision
from .convert_tab import lay_out_convert
from .html_parts import STYLE
from .input_limits import UPLOAD_BYTES
from .language_model_tab import lay_out_language_model
from .mix_tab import lay_out_mix
from .neighbours_tab import lay_out_neighbours
from .page_model import PageModel, load_tagger
from .senses_tab import lay_out_senses
from .tag_tab import lay_out_tags

TABS = {
    "Senses": lay_out_senses,
    "Neighbours": lay_out_neighbours,
    "Mix": lay_out_mix,
    "Language model": lay_out_language_model,
    "Tag": lay_out_tags,
    "Convert": lay_out_convert,
}
WAITING = 64  # visitors in the queue, after which others are asked to come back
FREQUENCY, AGE = 600, 3600  # seconds: how often temporary files are looked at, and how old they get
TITLE = "ELMo: words in their sentences"


def build_page(models: Sequence[PageModel]) -> Any:
    """
    Builds the page, a `gradio.Blocks`.

    Args:
        models: With several, each has its own tabs.
    """
    require("page")
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before the import: Gradio asks nobody for its version
    import gradio as gr

    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(FREQUENCY, AGE)) as page:
        gr.Markdown(f"# {TITLE}")
        if len(models) == 1:
            _lay_out(models[0])
        else:
            with gr.Tabs():
                for model in models:
                    with gr.Tab(model.name):
                        _lay_out(model)
    return page.queue(max_size=WAITING)


def _lay_out(model: PageModel):
    import gradio as gr

    size = model.embedder.model.num_parameters()
    gr.Markdown(f"Model: {model.name}, {size:,} parameters, {model.embedder.hidden_size} numbers per word.")
    with gr.Tabs():
        for title, lay_out in TABS.items():
            with gr.Tab(title):
                lay_out(model)


def launch_page(
    models: Sequence[str] = (),
    taggers: Sequence[str] = (),
    *,
    host: str | None = None,
    port: int | None = None,
    browser: bool = False,
    device: str | None = None,
    precision: Precision | None = None,
    **options: Any,
) -> Any:
    """
    Loads models and serves the page until the process is stopped.

    Args:
        models: Folders or names on the Hub. Default: the model that comes with the package.
        taggers: Folders or names on the Hub of taggers, which the tab Tag of the first model offers too.
        host: The address to listen on. Default: `GRADIO_SERVER_NAME`, or this machine only.
        port: The port; 0 takes a free one. Default: `GRADIO_SERVER_PORT`, or the first free one from 7860 on.
        browser: Whether to open a browser.
        device, precision: Of the models and taggers, as in [`load_model`].
        options: Further options of `gradio.Blocks.launch`.
    """
    require("page")
    for name in (*models, *taggers):
        find_named_model(name)  # raises an error before anything is loaded
    port = _usable_port(host, port)
    loaded_taggers = [load_tagger(name, device=device, precision=precision) for name in taggers]
    loaded = [PageModel.load(name, device=device, precision=precision) for name in models or [None]]
    loaded[0].taggers += loaded_taggers
    page = build_page(loaded)
    page.launch(server_name=host, server_port=port, inbrowser=browser, **(launch_options() | options))
    return page


def _usable_port(host: str | None, port: int | None) -> int | None:
    """The port, a free one if it is 0. Raises an error if the address cannot be listened on: Gradio would try on."""
    host = (host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1").strip("[]")
    with bound_socket(host, port or 0) as probe:
        return probe.getsockname()[1] if port == 0 else port


def launch_options() -> dict[str, Any]:
    """The options of `gradio.Blocks.launch`: system fonts, a colour scheme with contrast, and a limit for uploads."""
    import gradio as gr

    theme = gr.themes.Default(
        primary_hue="blue",
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    ).set(
        color_accent="#1b4f9c",
        body_text_color_subdued="#52525b",
        body_text_color_subdued_dark="#b4b4bb",
        button_primary_background_fill="#1b4f9c",
        button_primary_background_fill_hover="#163f7d",
        button_primary_background_fill_dark="#1b4f9c",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#ffffff",
    )
    return {
        "theme": theme,
        "css": STYLE,
        "footer_links": [],
        "share": False,
        "ssr_mode": False,
        "max_file_size": UPLOAD_BYTES,
        "quiet": True,
    }


__all__ = ["TABS", "build_page", "launch_options", "launch_page"]
