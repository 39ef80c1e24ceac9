"""Spans from tags, compared with seqeval."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from elmo_hf.data.tag_spans import are_span_tags, split_tag, tag_spans

TAGS = ["O", *(f"{prefix}-{label}" for prefix in "BIES" for label in ("PER", "LOC-2"))]


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_spans_are_those_of_the_conll_shared_tasks(tags):
    expected = [(start, end + 1, label) for label, start, end in get_entities(tags)]
    assert tag_spans(tags) == expected
    bilou = [tag.replace("E-", "L-").replace("S-", "U-") for tag in tags]
    assert tag_spans(bilou) == expected


@pytest.mark.parametrize(
    ("tags", "are_spans"),
    [
        (["O", "B-PER", "I-PER"], True),
        (["I-PER"], True),
        (["O"], False),
        (["NOUN", "O"], False),
        (["B-PER", "NOUN"], False),
        (["X-PER", "B-PER"], False),
        ([], False),
    ],
)
def test_schemes_of_spans_are_told_from_tags_of_words(tags, are_spans):
    assert are_span_tags(tags) is are_spans


def test_a_label_may_have_dashes_and_is_not_empty():
    assert split_tag("B-LOC-2") == ("B", "LOC-2")
    assert split_tag("B-") == ("", "")
    assert split_tag("B") == ("", "")
