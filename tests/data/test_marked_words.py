"""A word that is marked in its sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.data.marked_words import read_marked
from elmo_hf.errors import TextError

plain_text = st.text(st.characters(exclude_characters="*"), max_size=20)


@given(plain_text, plain_text, plain_text)
def test_the_marked_word_and_its_place_are_found(before, word, after):
    sentence, start, end = read_marked(f"{before}**{word}**{after}")
    assert sentence == before + word + after
    assert (sentence[:start], sentence[start:end], sentence[end:]) == (before, word, after)


@pytest.mark.parametrize(
    ("text", "message"),
    [("the bank", "No word is marked"), ("2 ** 3", "No word is marked"), ("**a** **b**", "2 words are marked")],
)
def test_a_text_without_one_marked_word_is_refused(text, message):
    with pytest.raises(TextError, match=message):
        read_marked(text)
