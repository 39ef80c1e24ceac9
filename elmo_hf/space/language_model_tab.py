"""The tab Language model: words that fit before, after and inside a sentence, and how surprising each word is."""

import math
from typing import NamedTuple

from ..data.marked_words import MARKED, read_marked
from ..errors import ModelError
from ..language_model import Candidate, ElmoLanguageModel, Substitute, TextScore
from .html_parts import Bar, background, bar_table, escaped, paragraph, result
from .input_limits import checked_text
from .page_model import PageModel

SHOWN = 8
DARKEST = 20  # bits
BOUNDARIES = {"<S>": "(beginning of the sentence)", "</S>": "(end of the sentence)"}


class Reading(NamedTuple):
    """
    What a language model says about a sentence.

    Attributes:
        score: The log-probability of every word.
        next, previous: The most likely words after and before the sentence; `None` for a direction that is missing.
        substitutes: Words for the marked one; `None` if none is marked.
    """

    score: TextScore
    next: list[Candidate] | None
    previous: list[Candidate] | None
    substitutes: list[Substitute] | None


def read_sentence(language_model: ElmoLanguageModel, text: str) -> Reading:
    """
    Reads a sentence.

    Args:
        text: A sentence; one word may be marked.
    """
    is_marked = MARKED.search(text) is not None
    sentence = read_marked(text).sentence if is_marked else text
    score = language_model.score(sentence)
    return Reading(
        score,
        None if score.forward is None else language_model.next_words(sentence, SHOWN, boundary=True),
        None if score.backward is None else language_model.previous_words(sentence, SHOWN, boundary=True),
        language_model.substitutes(text, k=SHOWN) if is_marked else None,
    )


def surprise(score: TextScore) -> list[float]:
    """The surprise of each word in bits: the mean of the directions, without the boundaries of the sentence."""
    directions = [direction for direction in (score.forward, score.backward) if direction is not None]
    return [float(-sum(values) / len(values) / math.log(2)) for values in zip(*directions, strict=True)][1:-1]


def render_reading(reading: Reading) -> str:
    """The result as HTML."""
    words = "".join(
        f'<span class="word" style="{background(bits / DARKEST)}">{escaped(word)}<small>{bits:.1f}</small></span>'
        for word, bits in zip(reading.score.tokens[1:-1], surprise(reading.score), strict=True)
    )
    tables = []
    if reading.substitutes:
        best = reading.substitutes[0].log_prob
        columns = ["word", "before", "after"]
        bars = [
            Bar(word, math.exp(both - best), [_percent(forward), _percent(backward)])
            for word, both, forward, backward in reading.substitutes
        ]
        tables.append(bar_table("In place of the marked word, given the words before and after it", columns, bars))
    for caption, candidates in (("After the sentence", reading.next), ("Before the sentence", reading.previous)):
        if candidates is not None:
            bars = [Bar(BOUNDARIES.get(word, word), math.exp(value), [_percent(value)]) for word, value in candidates]
            tables.append(bar_table(caption, ["word", "probability"], bars))
    tables_html = "".join(f'<div class="scroll">{table}</div>' for table in tables)
    hint = "" if reading.substitutes is not None else paragraph("Mark a word with ** to see words that can replace it.")
    return result(
        f'<p aria-label="Surprise of each word">{words}</p>',
        paragraph("Surprise of each word in bits, the mean of both directions: 1 bit is a probability of one half."),
        f'<div class="side">{tables_html}</div>',
        hint,
    )


def _percent(log_prob: float) -> str:
    return "–" if math.isnan(log_prob) else f"{math.exp(log_prob):.2%}"


def answer_language_model(model: PageModel, text: str) -> str:
    """The answer of the tab."""
    text = checked_text(text, "The sentence")
    if model.language_model is None:
        raise ModelError(f"{model.name} has no softmax, so it predicts no words: it was saved without, or converted.")
    return render_reading(read_sentence(model.language_model, text))


def lay_out_language_model(model: PageModel):
    """Adds the tab to the page."""
    import gradio as gr

    from .layout import add_examples, answered, on_submit

    examples = model.texts.sentences
    gr.Markdown(
        "Two language models read the sentence, one forward and one backward. Put `**` on both sides of a word to see "
        "what could be in its place."
    )
    text = gr.Textbox(examples[0], label="Sentence; one word may be marked", max_lines=3)
    button = gr.Button("Read", variant="primary")

    def answer(text: str) -> str:
        return answer_language_model(model, text)

    output = add_examples(
        examples, [(example,) for example in examples], [text], answered(answer), "language-model-result"
    )
    on_submit(button, [text], answered(answer), [text], output, "language_model")


__all__ = ["Reading", "answer_language_model", "lay_out_language_model", "read_sentence", "render_reading", "surprise"]
