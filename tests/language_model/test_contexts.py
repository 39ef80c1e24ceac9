"""A place in a text is found, or what is wrong with it is said in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoTokenizer
from elmo_hf.errors import TextError
from elmo_hf.language_model.contexts import find_context

TOKENIZER = ElmoTokenizer()


@pytest.mark.parametrize(
    ("text", "before", "inside", "after"),
    [
        ("He saw Mr. **Smith** today.", ["He", "saw", "Mr."], ["Smith"], ["today", "."]),
        ("**He** sat.", [], ["He"], ["sat", "."]),
        ("He sat**.**", ["He", "sat"], ["."], []),
        ("He did**n't** sit", ["He", "did"], ["n't"], ["sit"]),
        ("in **New York** today", ["in"], ["New", "York"], ["today"]),
        ("in **** today", ["in"], [], ["today"]),
        ("****", [], [], []),
        ("我**在**这", ["我"], ["在"], ["这"]),
        ("a ** bank ** b", ["a"], ["bank"], ["b"]),
        ("an \ud800 **odd** one", ["an", "\ud800"], ["odd"], ["one"]),
    ],
)
def test_a_marked_text_is_cut_as_the_text_without_marks(text, before, inside, after):
    assert find_context(text, None, TOKENIZER) == (before, inside, after)
    assert TOKENIZER.tokenize(text.replace("**", "")) == [*before, *inside, *after]


@given(st.text(max_size=30).filter(lambda text: "*" not in text), st.data())
def test_every_word_of_any_text_can_be_marked(text, data):
    words = TOKENIZER.tokenize(text)
    spans = TOKENIZER(text, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    if words:
        position = data.draw(st.integers(0, len(words) - 1))
        start, end = spans[position]
        expected = words[:position], [words[position]], words[position + 1 :]
        assert find_context(text, (start, end), TOKENIZER) == expected
        assert find_context(f"{text[:start]}**{text[start:end]}**{text[end:]}", None, TOKENIZER) == expected
        assert find_context(words, position, TOKENIZER) == expected


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("He sat.", None, "No word is marked in 'He sat.'"),
        ("He **sat.", None, "No word is marked"),
        ("**He** **sat**", None, "2 words are marked"),
        ("the **bank**s", None, "'bank' is only a part of the word 'banks': mark all of it"),
        ("the ba****nk", None, "is only a part of the word 'bank'"),
        ("the bank", (4, 6), "'ba' is only a part of the word 'bank'"),
        ("the bank", (4, 9), r"a text of 8 characters is \(start, end\), found \(4, 9\)"),
        ("the bank", (4, 3), r"is \(start, end\), found \(4, 3\)"),
        ("the bank", 1, r"is \(start, end\), found 1"),
        (["the", "bank"], 2, "Of 2 words the position must be 0 to 1, found 2"),
        (["the", "bank"], -1, "found -1"),
        (["the", "bank"], None, "found None"),
        (["the", 3], 0, "must be a"),
        (3, None, "must be a string or a list of words"),
    ],
)
def test_what_is_no_place_is_refused_in_one_line(text, position, message):
    with pytest.raises(TextError, match=message) as caught:
        find_context(text, position, TOKENIZER)
    assert "\n" not in str(caught.value)
