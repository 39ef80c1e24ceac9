"""Spans of words from tags in BIO or BIOES (also as BILOU)."""

from collections.abc import Sequence
from typing import NamedTuple

OUTSIDE = "O"
BEGIN, INSIDE, END, SINGLE = ("B",), ("I",), ("E", "L"), ("S", "U")
PREFIXES = {*BEGIN, *INSIDE, *END, *SINGLE}


class TagSpan(NamedTuple):
    """
    A span of words.

    Attributes:
        start (`int`): The index of the first word.
        stop (`int`): The index after the last word.
        label (`str`): The label, without the prefix.
    """

    start: int
    stop: int
    label: str


def tag_spans(tags: Sequence[str]) -> list[TagSpan]:
    """
    The spans that tags mark, in order. As in the CoNLL shared tasks, a tag that cannot continue the span before it,
    such as an `I-` after another label, begins a span.
    """
    spans: list[TagSpan] = []
    is_open = False  # whether the next word may belong to the last span
    for place, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        if not prefix:
            is_open = False
            continue
        if is_open and prefix in INSIDE + END and spans[-1].label == label:
            spans[-1] = spans[-1]._replace(stop=place + 1)
        else:
            spans.append(TagSpan(place, place + 1, label))
        is_open = prefix in BEGIN + INSIDE
    return spans


def split_tag(tag: str) -> tuple[str, str]:
    """The prefix and the label of a tag. Both are empty for `O`, and for a tag of another scheme."""
    prefix, _, label = tag.partition("-")
    return (prefix, label) if label and prefix in PREFIXES else ("", "")


def are_span_tags(tags: Sequence[str]) -> bool:
    """Whether all tags are of a scheme that marks spans."""
    return any(tag != OUTSIDE for tag in tags) and all(tag == OUTSIDE or split_tag(tag)[0] for tag in tags)


__all__ = ["BEGIN", "END", "OUTSIDE", "SINGLE", "TagSpan", "are_span_tags", "split_tag", "tag_spans"]
