"""The tab Tag: the tags of words, or of spans of words, highlighted in the text."""

from collections.abc import Sequence
from typing import NamedTuple

from ..data.occurrences import TokenizedSentence, tokenized
from ..data.tag_spans import OUTSIDE, split_tag, tag_spans
from ..errors import TextError
from ..finetuning import predict_tags
from .html_parts import COLOURS, escaped, paragraph, result
from .input_limits import LINES, checked_lines
from .page_model import PageModel, PageTagger

NO_TAGGER = "There is no tagger for this model: `elmo-hf space --tagger FOLDER` adds one."


class TaggedSpan(NamedTuple):
    """
    A part of a sentence with a label.

    Attributes:
        start, end: The offsets in the sentence.
        label: The label, without the prefix of BIO.
    """

    start: int
    end: int
    label: str


def tag_sentences(tagger: PageTagger, sentences: Sequence[str]) -> list[tuple[str, list[TaggedSpan]]]:
    """The sentences, each with its labelled spans."""
    split = list(tokenized(sentences, tagger.tokenizer))
    tagged = predict_tags(tagger.model, tagger.tokenizer, [sentence.words for sentence in split])
    return [(sentence.text, spans_of(sentence, tags or [])) for sentence, (_, tags) in zip(split, tagged, strict=True)]


def spans_of(sentence: TokenizedSentence, tags: Sequence[str]) -> list[TaggedSpan]:
    """Words with tags as spans. Tags of BIO and BIOES are merged; others are one span per word."""
    starts, ends = ([offset[side] for offset in sentence.offsets] for side in (0, 1))
    marked = [TaggedSpan(starts[start], ends[stop - 1], label) for start, stop, label in tag_spans(tags)]
    words = zip(sentence.offsets, tags, strict=True)
    others = [TaggedSpan(*offsets, tag) for offsets, tag in words if tag != OUTSIDE and not split_tag(tag)[0]]
    return sorted([*marked, *others])


def render_tags(tagged: Sequence[tuple[str, list[TaggedSpan]]], labels: Sequence[str]) -> str:
    """
    The result as HTML.

    Args:
        labels: All labels of the tagger, which decide the colours.
    """
    colours = {label: COLOURS[place % len(COLOURS)] for place, label in enumerate(labels)}
    lines = []
    for sentence, spans in tagged:
        parts, last = [], 0
        for span in spans:
            parts.append(escaped(sentence[last : span.start]))
            parts.append(
                f'<span class="word" style="background:{colours.get(span.label, COLOURS[0])}">'
                f"{escaped(sentence[span.start : span.end])}<small>{escaped(span.label)}</small></span>"
            )
            last = span.end
        lines.append(f"<p>{''.join(parts)}{escaped(sentence[last:])}</p>")
    num_spans = sum(len(spans) for _, spans in tagged)
    return result(*lines, "" if num_spans else paragraph("No word has a tag other than O."))


def answer_tags(model: PageModel, title: str, text: str) -> str:
    """The answer of the tab."""
    tagger = next((tagger for tagger in model.taggers if tagger.title == title), None)
    if tagger is None:
        raise TextError(NO_TAGGER)
    tagged = tag_sentences(tagger, checked_lines(text, "The text", LINES))
    labels = list(dict.fromkeys(name.partition("-")[2] or name for name in tagger.model.config.label_names))
    return render_tags(tagged, labels)


def lay_out_tags(model: PageModel):
    """Adds the tab to the page."""
    import gradio as gr

    from .layout import add_examples, answered, on_submit

    titles, examples = [tagger.title for tagger in model.taggers], model.texts.tagged
    notes = "".join(f"\n- **{tagger.title}**: {tagger.note}" for tagger in model.taggers)
    gr.Markdown(f"Small taggers on top of the frozen model.\n{notes}" if titles else NO_TAGGER)
    title = gr.Radio(titles, value=titles[0] if titles else None, label="Tagger")
    text = gr.Textbox(examples[0], label=f"Text, one sentence per line, at most {LINES} lines", lines=2, max_lines=8)
    button = gr.Button("Tag", variant="primary")

    def answer(title: str, text: str) -> str:
        return answer_tags(model, title, text)

    values = [(tagger, example) for tagger in titles for example in examples]
    labels = [f"{tagger}: {example}" for tagger, example in values]
    output = add_examples(labels, values, [title, text], answered(answer), "tag-result")
    on_submit(button, [], answered(answer), [title, text], output, "tag")


__all__ = ["TaggedSpan", "answer_tags", "lay_out_tags", "render_tags", "spans_of", "tag_sentences"]
