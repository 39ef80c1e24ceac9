"""The tab Mix: weights of the layers, chosen with sliders, and what they change."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..analysis.layer_vectors import unit
from ..data.occurrences import Occurrence
from ..errors import TextError
from ..index.nearest import nearest
from .html_parts import Bar, bar_table, marked, paragraph, result, strip
from .input_limits import checked_text
from .page_model import PageModel, PageTagger

SHOWN = 8
NUMBERS = 64  # of the vector that are shown


class Mixed(NamedTuple):
    """
    A marked word, its mixed vector, and its neighbours by this vector.

    Attributes:
        shares: The share of each layer, which sum to one.
        vector (`np.ndarray` of shape `(hidden_size,)`): gamma times the weighted sum of the layers.
        largest: The largest absolute value in any layer: the end of the colour scale, which sliders do not move.
        neighbours: Cosines and words of the corpus, each word once.
    """

    use: Occurrence
    shares: np.ndarray
    vector: np.ndarray
    largest: float
    neighbours: list[tuple[float, Occurrence]]


def mix_layers(model: PageModel, text: str, gamma: float, weights: Sequence[float]) -> Mixed:
    """
    Mixes the layers of a marked word, and of all words of the corpus.

    Args:
        text: A sentence with a marked word.
        gamma: What the mix is multiplied by.
        weights: One per layer, not negative. Only their ratios matter.
    """
    weight_array = np.array(weights, dtype=np.float32)
    if weight_array.min() < 0 or not weight_array.sum() > 0:
        raise TextError("All weights are 0: give at least one layer a weight above 0.")
    shares = weight_array / weight_array.sum()
    use = model.marked_use(text)
    vector = np.tensordot(shares, use.vector, 1)  # (size,)
    corpus = unit(np.tensordot(shares, model.words.layers, 1))  # (words, size)
    rows, cosines = nearest(corpus, unit(vector), SHOWN, model.words.keys, distinct=True)
    neighbours = [(float(cosine), model.words.occurrences[row]) for row, cosine in zip(rows, cosines, strict=True)]
    return Mixed(use, shares, gamma * vector, float(np.abs(use.vector).max()), neighbours)


def own_weights(model: PageModel) -> tuple[list[float], float]:
    """The weights and gamma of the model's own mixer; equal weights and 1 if it has none."""
    mixer = model.embedder.model.mixer
    if mixer is None:
        return [1 / model.embedder.num_layers] * model.embedder.num_layers, 1.0
    return mixer.layer_weights().tolist(), mixer.gamma.item()


def render_mixed(mixed: Mixed, layer_names: Sequence[str]) -> str:
    """The result as HTML."""
    formula = " + ".join(f"{share:.2f} · {name}" for share, name in zip(mixed.shares, layer_names, strict=True))
    shown = mixed.vector[:NUMBERS]
    length = float(np.linalg.norm(mixed.vector))
    label = f"The first {len(shown)} of {len(mixed.vector)} numbers of the vector; its length is {length:.2f}"
    bars = [Bar(use.word, cosine, [f"{cosine:.2f}"]) for cosine, use in mixed.neighbours]
    sentences = "".join(f"<li>{marked(use.sentence, use.start, use.end)}</li>" for _, use in mixed.neighbours)
    return result(
        f"<p>{marked(mixed.use.sentence, mixed.use.start, mixed.use.end)}</p>",
        paragraph(f"mix = γ · ({formula})"),
        strip(shown, mixed.largest, label),
        paragraph(f"{label}. Dark: a large absolute value."),
        f'<div class="side">{bar_table("Nearest words in the text", ["word", "cosine"], bars)}',
        f'<ul aria-label="Sentences of the nearest words">{sentences}</ul></div>',
        paragraph("γ changes the length of the vector; cosines, and so the neighbours, do not depend on it."),
    )


def render_tagger_mixes(taggers: Sequence[PageTagger]) -> str:
    """The layer weights that taggers have learned, as bars."""
    tables = [
        bar_table(
            f"{tagger.title}, {place} of its layers",
            ["layer", "share"],
            [Bar(f"layer {layer}", share, [f"{share:.2f}"]) for layer, share in enumerate(shares)],
        )
        for tagger in taggers
        for place, shares in tagger.mixes().items()
    ]
    if not tables:
        return result(paragraph("There is no tagger for this model: `elmo-hf space --tagger FOLDER` adds one."))
    return result(f'<div class="side">{"".join(tables)}</div>')


def answer_mix(model: PageModel, text: str, gamma: float, *weights: float) -> str:
    """The answer of the tab."""
    text = checked_text(text, "The sentence")
    return render_mixed(mix_layers(model, text, gamma, weights), model.layer_names)


def lay_out_mix(model: PageModel):
    """Adds the tab to the page."""
    import gradio as gr

    from .layout import ONE_AT_A_TIME, add_examples, answered, on_submit

    examples, (weights, gamma) = model.texts.marked, own_weights(model)
    gr.Markdown("The vector of a word is a weighted sum of the layers, times γ. The sliders set the weights.")
    text = gr.Textbox(examples[0], label="Sentence with a marked word", max_lines=3)
    with gr.Row():
        sliders = [
            gr.Slider(0, 1, round(weight, 2), step=0.01, label=name.capitalize(), min_width=160)
            for name, weight in zip(model.layer_names, weights, strict=True)
        ]
        highest = max(3, math.ceil(gamma))
        gamma_slider = gr.Slider(0, highest, round(gamma, 2), step=0.05, label="γ", min_width=160)
    button = gr.Button("Mix", variant="primary")
    inputs = [text, gamma_slider, *sliders]

    def answer(text: str, gamma: float, *weights: float) -> str:
        return answer_mix(model, text, gamma, *weights)

    values = [(examples[0], 1.0, *only) for only in np.eye(len(sliders)).tolist()]
    labels = [f"Only {name}" for name in model.layer_names]
    output = add_examples(labels, values, inputs, answered(answer), "mix-result")
    on_submit(button, [text], answered(answer), inputs, output, "mix")
    gr.on(
        [slider.input for slider in (gamma_slider, *sliders)],
        answered(answer),
        inputs,
        output,
        trigger_mode="always_last",
        show_progress="hidden",
        api_visibility="private",
        **ONE_AT_A_TIME,
    )
    gr.Markdown("### Layer weights that taggers have learned")
    gr.HTML(render_tagger_mixes(model.taggers))


__all__ = ["Mixed", "answer_mix", "lay_out_mix", "mix_layers", "own_weights", "render_mixed", "render_tagger_mixes"]
