"""What the layouts of the tabs share: messages for bad input, buttons for examples, one queue for the model."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import gradio as gr

from ..errors import ConversionError, ModelError, TextError
from .html_parts import message

ONE_AT_A_TIME: dict[str, Any] = {
    "concurrency_limit": 1,
    "concurrency_id": "model",
}  # the model's caches belong to one thread
SHORT = 16  # characters of the label of an example that fit in a narrow button
MISTAKES = (TextError, ModelError, ConversionError, ValueError)


def answered(function: Callable[..., str]) -> Callable[..., str]:
    """A function whose errors about the input become messages on the page."""

    @wraps(function)
    def answer(*values: Any) -> str:
        try:
            return function(*values)
        except MISTAKES as error:
            return message(str(error))

    return answer


def add_examples(
    labels: Sequence[str],
    examples: Sequence[Sequence[Any]],
    inputs: Sequence[gr.components.Component],
    answer: Callable[..., str],
    place: str,
) -> gr.HTML:
    """
    Adds a button per example, which fills the inputs and shows the answer, and the place of the answer below them.

    Args:
        labels: Of the buttons.
        examples: The values of the inputs.
        inputs: What the examples fill.
        answer: Gets the values of the inputs.
        place: The CSS class of the answer's element.
    """
    output = gr.HTML(elem_classes=place, render=False)

    def click(values: Sequence[Any]) -> Callable[[], list[Any]]:
        return lambda: [*values, answer(*values)]

    if labels:
        gr.Markdown("Examples:")
    # The smallest width of a button; buttons that do not fit into a row go into the next.
    width = 80 if all(len(label) <= SHORT for label in labels) else 240
    with gr.Row():
        for label, values in zip(labels, examples, strict=True):
            button = gr.Button(label, size="sm", min_width=width)
            button.click(click(values), None, [*inputs, output], api_visibility="private", **ONE_AT_A_TIME)
    output.render()
    return output


def on_submit(
    button: gr.Button,
    boxes: Sequence[gr.Textbox],
    answer: Callable[..., str],
    inputs: Sequence[gr.components.Component],
    output: gr.HTML,
    name: str,
):
    """Answers when the button is pressed, or Enter in one of the boxes."""
    triggers = [button.click, *(box.submit for box in boxes)]
    gr.on(triggers, answer, list(inputs), output, api_name=name, **ONE_AT_A_TIME)


__all__ = ["MISTAKES", "ONE_AT_A_TIME", "add_examples", "answered", "on_submit"]
