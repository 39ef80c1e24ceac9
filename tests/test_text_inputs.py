"""What is no text gets one clear ValueError that names the place; what Rust could not take goes through it unharmed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoTokenizer
from elmo_hf.text_inputs_elmo import as_batch, rust_words, without_surrogates

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@pytest.fixture(scope="module")
def tokenizer():
    return ElmoTokenizer()


@pytest.mark.parametrize(
    ("text", "text_pair", "message"),
    [
        (5, None, r"`text` must be a string or a list of them, found 5"),
        (b"bytes", None, r"`text` must be a string or a list of them, found b'bytes'"),
        ({"a": 1}, None, r"`text` must be a string or a list"),
        (["a", 5], None, r"`text\[1\]` must be a string, found 5"),
        (["a", None], None, r"`text\[1\]` must be a string, found None"),
        ([["a", "b", "c"]], None, r"`text\[0\]` must be a string, found \['a', 'b', 'c'\]"),
        ([("a", "b"), "c"], None, r"`text\[0\]` must be a string, found \('a', 'b'\)"),
        ([("a", 5)], None, r"`text\[0\]` must be a string"),
        ("a", 5, r"`text_pair` must be a string, found 5"),
        ("a", ["b"], r"`text_pair` must be a string, found \['b'\]"),
        (["a", "b"], "c", r"batch of 2: `text_pair` must be a list of as many"),
        (["a", "b"], ["c"], r"batch of 2: `text_pair` must be a list of as many"),
        (["a", "b"], ["c", None], r"`text_pair\[1\]` must be a string, found None"),
    ],
)
def test_what_is_no_raw_text_is_refused(tokenizer, text, text_pair, message):
    with pytest.raises(ValueError, match=message):
        tokenizer(text, text_pair)


@pytest.mark.parametrize(
    ("text", "text_pair", "message"),
    [
        ("a b", None, r"`text` must be a list of words \(`list\[str\]`\) or a list of them, found 'a b'"),
        (5, None, r"`text` must be a list of words"),
        (["a", 5], None, r"`text\[1\]` must be a word \(`str`\), found 5"),
        ([None], None, r"`text\[0\]` must be a word"),
        ([["a"], "b"], None, r"`text\[1\]` must be a list of words \(`list\[str\]`\), found 'b'"),
        (["b", ["a"]], None, r"`text\[0\]` must be a list of words"),
        ([["a"], ["b", "c", None]], None, r"`text\[1\]\[2\]` must be a word \(`str`\), found None"),
        ([["a"], ["b", ["c"]]], None, r"`text\[1\]\[1\]` must be a word"),
        (["a"], "b", r"`text_pair` must be a list of words \(`list\[str\]`\), found 'b'"),
        (["a"], ["b", 5], r"`text_pair\[1\]` must be a word"),
        ([["a"], ["b"]], [["c"]], r"batch of 2: `text_pair` must be a list of as many"),
        ([["a"]], [["b", 5]], r"`text_pair\[0\]\[1\]` must be a word"),
    ],
)
def test_what_is_no_words_is_refused(tokenizer, text, text_pair, message):
    with pytest.raises(ValueError, match=message):
        tokenizer(text, text_pair, is_split_into_words=True)


def test_nothing_is_refused(tokenizer):
    with pytest.raises(ValueError):
        tokenizer(None)


def test_long_input_is_not_printed_whole(tokenizer):
    with pytest.raises(ValueError) as error:
        tokenizer([["word"] * 10_000])
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "text_pair", "is_split_into_words", "batch"),
    [
        ("a", None, False, (False, ["a"], None)),
        ("a", "", False, (False, ["a"], [""])),
        ([], None, False, (True, [], None)),
        (("a", "b"), None, False, (True, ["a", "b"], None)),
        ([("a", "b"), ["c", "d"]], None, False, (True, ["a", "c"], ["b", "d"])),
        (["a"], ["b"], False, (True, ["a"], ["b"])),
        ([], None, True, (False, [[]], None)),
        (["a"], None, True, (False, [["a"]], None)),
        (["a"], [], True, (False, [["a"]], [[]])),
        ([[]], None, True, (True, [[]], None)),
        ([["a"], []], None, True, (True, [["a"], []], None)),
        ([[["a"], ["b"]]], None, True, (True, [["a"]], [["b"]])),
    ],
)
def test_one_and_many_and_pairs_are_told_apart(text, text_pair, is_split_into_words, batch):
    assert as_batch(text, text_pair, is_split_into_words) == batch


@given(ANY_TEXT)
def test_rust_gets_text_of_the_same_length_in_which_only_surrogates_differ(text):
    clean = without_surrogates(text)
    clean.encode("utf-8")
    assert len(clean) == len(text)
    changed = {old for old, new in zip(text, clean, strict=True) if old != new}
    assert changed == {character for character in text if "\ud800" <= character <= "\udfff"}


@given(st.lists(ANY_TEXT))
def test_rust_gets_as_many_words_none_of_them_empty(words):
    clean = rust_words(words)
    assert all(clean)
    assert [len(word) for word in clean] == [len(word) or 1 for word in words]
