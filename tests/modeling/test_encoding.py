"""Inputs and encodings: ids, character rows, masks, offsets and encodings agree."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoTokenizer
from elmo_hf.modeling.encoding_elmo import (
    as_batch,
    rust_words,
    without_surrogates,
)
from tests.modeling.test_spelling import original_row

ANY_TEXT = st.text(st.characters(exclude_categories=[]))  # lone surrogates too

# ==== Inputs


@pytest.fixture(scope="module")
def plain_tokenizer():
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
def test_what_is_no_raw_text_is_refused(plain_tokenizer, text, text_pair, message):
    with pytest.raises(ValueError, match=message):
        plain_tokenizer(text, text_pair)


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
def test_what_is_no_words_is_refused(plain_tokenizer, text, text_pair, message):
    with pytest.raises(ValueError, match=message):
        plain_tokenizer(text, text_pair, is_split_into_words=True)


def test_nothing_is_refused(plain_tokenizer):
    with pytest.raises(ValueError):
        plain_tokenizer(None)


def test_long_input_is_not_printed_whole(plain_tokenizer):
    with pytest.raises(ValueError) as error:
        plain_tokenizer([["word"] * 10_000])
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


# ==== Encodings

VOCABULARY = ["<S>", "</S>", "<UNK>", "a", "b", "c"]  # x, y and z are unknown
BOS, EOS, UNK, PAD = 0, 1, 2, 6
EVERYTHING = {"return_offsets_mapping": True, "return_special_tokens_mask": True}


@pytest.fixture
def tokenizer():
    return ElmoTokenizer(vocab=VOCABULARY)


def tokens(encoded, i=None):
    """The words of one text, marks included, after a check that all that is returned agrees."""
    rows = encoded["char_ids"] if i is None else encoded["char_ids"][i]
    ids = encoded["input_ids"] if i is None else encoded["input_ids"][i]
    words = ElmoTokenizer().convert_char_ids_to_tokens(rows)
    marks = {"<S>": BOS, "</S>": EOS, "<PAD>": PAD}
    expected = [marks.get(word, VOCABULARY.index(word) if word in VOCABULARY else UNK) for word in words]
    assert list(ids) == expected
    assert encoded.encodings[i or 0].ids == expected  # `word_ids()` and the like speak of the same tokens
    assert len(encoded.word_ids(i or 0)) == len(words)
    return " ".join(words)


# ---- pairs


@pytest.mark.parametrize(
    ("first", "second", "expected", "kinds"),
    [
        ("a x", "y b", "<S> a x </S> <S> y b </S>", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("a", "", "<S> a </S> <S> </S>", [0, 0, 0, 1, 1]),
        ("", "b", "<S> </S> <S> b </S>", [0, 0, 1, 1, 1]),
        ("", "", "<S> </S> <S> </S>", [0, 0, 1, 1]),
    ],
)
@pytest.mark.parametrize("given", [False, True], ids=["raw", "words"])
def test_a_pair_is_two_sentences_in_one_row(tokenizer, first, second, expected, kinds, given):
    if given:
        first, second = first.split(), second.split()
    for one in (
        tokenizer(first, second, is_split_into_words=given),
        tokenizer([(first, second)], is_split_into_words=given),
        tokenizer([first], [second], is_split_into_words=given),
    ):
        i = None if isinstance(one["input_ids"][0], int) else 0
        assert tokens(one, i) == expected
        assert (one["token_type_ids"] if i is None else one["token_type_ids"][0]) == kinds


def test_offsets_of_a_pair_are_in_its_own_text(tokenizer):
    encoded = tokenizer("a xx", "yyy b", **EVERYTHING)
    assert encoded["offset_mapping"] == [(0, 0), (0, 1), (2, 4), (0, 0), (0, 0), (0, 3), (4, 5), (0, 0)]
    assert encoded["special_tokens_mask"] == [1, 0, 0, 1, 1, 0, 0, 1]
    assert encoded.sequence_ids() == [None, 0, 0, None, None, 1, 1, None]


def test_an_empty_given_word_of_the_second_text_has_an_empty_span(tokenizer):
    encoded = tokenizer(
        ["a", "bb"], ["", "yy"], is_split_into_words=True, padding="max_length", max_length=9, **EVERYTHING
    )
    assert encoded["offset_mapping"] == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 0), (0, 0), (0, 2), (0, 0), (0, 0)]


def test_a_pair_without_marks_keeps_both_texts_words(tokenizer):
    encoded = tokenizer("a x", "y b", add_special_tokens=False)
    assert tokens(encoded) == "a x y b"
    assert encoded["token_type_ids"] == [0, 0, 1, 1]


# ---- truncation


@pytest.mark.parametrize("given", [False, True], ids=["raw", "words"])
@pytest.mark.parametrize(
    ("truncation", "side", "expected"),
    [
        ("longest_first", "right", "<S> a x b </S> <S> y z </S>"),
        ("longest_first", "left", "<S> x b c </S> <S> y z </S>"),
        ("only_first", "right", "<S> a x b </S> <S> y z </S>"),
        ("only_first", "left", "<S> x b c </S> <S> y z </S>"),
        ("only_second", "right", "<S> a x b c </S> <S> y </S>"),
        ("only_second", "left", "<S> a x b c </S> <S> z </S>"),
    ],
)
def test_truncation_keeps_the_marks_and_the_right_words(tokenizer, truncation, side, expected, given):
    tokenizer.truncation_side = side
    first, second = "a x b c", "y z"
    if given:
        first, second = first.split(), second.split()
    encoded = tokenizer(first, second, truncation=truncation, max_length=9, is_split_into_words=given, **EVERYTHING)
    assert tokens(encoded) == expected
    words = {"y": (0, 1), "z": (2, 3), "a": (0, 1), "x": (2, 3), "b": (4, 5), "c": (6, 7)}
    if not given:
        assert encoded["offset_mapping"] == [words.get(word, (0, 0)) for word in expected.split()]


def test_the_next_call_is_not_truncated_or_padded(tokenizer):
    for options in ({"truncation": True, "max_length": 5}, {"padding": "max_length", "max_length": 12}):
        tokenizer("a b c x y z", **options)
        assert tokens(tokenizer("a b c x y z")) == "<S> a b c x y z </S>"


def test_the_models_length_is_kept(tokenizer):
    tokenizer.model_max_length = 4
    assert tokens(tokenizer("a b c", truncation=True)) == "<S> a b </S>"
    assert tokens(tokenizer("a", padding="max_length")) == "<S> a </S> <PAD>"


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_overflows_comes_back_in_pieces(tokenizer, side):
    texts = ["x a y b z", "c"]
    options = {"truncation": True, "max_length": 5, "stride": 1, "return_overflowing_tokens": True}
    encoded = tokenizer(texts, padding=True, padding_side=side, **options, **EVERYTHING)
    pieces = [
        "<S> x a y </S>",
        "<S> y b z </S>",
        "<PAD> <PAD> <S> c </S>" if side == "left" else "<S> c </S> <PAD> <PAD>",
    ]
    assert [tokens(encoded, i) for i in range(3)] == pieces
    assert encoded["overflow_to_sample_mapping"] == [0, 0, 1]
    for i, sample in enumerate(encoded["overflow_to_sample_mapping"]):
        spans = [texts[sample][begin:end] for begin, end in encoded["offset_mapping"][i] if end]
        assert spans == [word for word in pieces[i].split() if "<" not in word]


def test_given_words_that_overflow_keep_their_numbers(tokenizer):
    words = ["x", "", "y", "a", ""]
    options = {"truncation": True, "max_length": 4, "return_overflowing_tokens": True, "is_split_into_words": True}
    encoded = tokenizer(words, **options)
    kept = [[word_id for word_id in encoded.word_ids(i) if word_id is not None] for i in range(3)]
    assert kept == [[0, 1], [2, 3], [4]]
    for i, numbers in enumerate(kept):
        assert encoded["char_ids"][i][1:-1] == [original_row(words[word_id]) for word_id in numbers]


# ---- padding

LONG, SHORT = "<S> a x b </S>", "<S> y </S>"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("options", "widths"),
    [
        ({}, (5, 3)),
        ({"padding": True}, (5, 5)),
        ({"padding": "longest", "pad_to_multiple_of": 4}, (8, 8)),
        ({"padding": "longest", "pad_to_multiple_of": 5}, (5, 5)),
        ({"padding": "max_length", "max_length": 6}, (6, 6)),
        ({"padding": "max_length", "max_length": 6, "pad_to_multiple_of": 4}, (8, 8)),
        ({"padding": "max_length", "max_length": 4}, (5, 4)),  # nothing is cut without `truncation`
        ({"padding": "max_length", "max_length": 4, "truncation": True}, (4, 4)),
    ],
)
def test_padding_fills_one_side_and_changes_nothing_else(tokenizer, side, options, widths):
    encoded = tokenizer(["a x b", "y"], padding_side=side, return_length=True, **options, **EVERYTHING)
    whole = [LONG if "truncation" not in options else "<S> a x </S>", SHORT]
    for i, text in enumerate(whole):
        missing = widths[i] - len(text.split())
        padded = [*text.split(), *["<PAD>"] * missing] if side == "right" else [*["<PAD>"] * missing, *text.split()]
        is_pad, is_word = np.array(padded) == "<PAD>", np.char.find(padded, "<") < 0
        assert tokens(encoded, i) == " ".join(padded)
        assert encoded["attention_mask"][i] == (~is_pad).astype(int).tolist()
        assert encoded["special_tokens_mask"][i] == (~is_word).astype(int).tolist()
        assert encoded["token_type_ids"][i] == [0] * widths[i]
        assert [end > 0 for _, end in encoded["offset_mapping"][i]] == is_word.tolist()
    assert encoded["length"] == list(widths)


def test_an_unknown_side_is_refused(tokenizer):
    with pytest.raises(ValueError, match="'left' or 'right', found 'top'"):
        tokenizer(["a", "a b"], padding=True, padding_side="top")


def test_padding_to_a_length_nobody_named_does_nothing(tokenizer):
    assert tokens(tokenizer("a", padding="max_length")) == "<S> a </S>"


def test_padding_of_the_backend_itself_does_not_count(tokenizer, tmp_path):
    tokenizer.backend_tokenizer.enable_padding(length=9)
    assert tokens(tokenizer("a x")) == "<S> a x </S>"
    tokenizer.backend_tokenizer.enable_padding(length=9)
    tokenizer.save_pretrained(tmp_path)
    assert ElmoTokenizer.from_pretrained(tmp_path).backend_tokenizer.padding is None


@pytest.mark.parametrize("kind", ["pt", "np"])
def test_tensors_are_the_lists(tokenizer, kind):
    options = {"padding": True, "return_special_tokens_mask": True}
    tensors, lists = (tokenizer(["a x b", "y"], ["", "c"], return_tensors=k, **options) for k in (kind, None))
    assert tensors["char_ids"].shape == (2, 7, 50)
    assert {str(values.dtype).removeprefix("torch.") for values in tensors.values()} == {"int64"}
    assert {name: values.tolist() for name, values in tensors.items()} == lists.data


def test_tensors_of_one_text_are_a_batch_of_one(tokenizer):
    assert tokenizer("a x", return_tensors="pt")["char_ids"].shape == (1, 4, 50)


def test_rows_of_different_lengths_are_no_tensor(tokenizer):
    with pytest.raises(ValueError, match="padding"):
        tokenizer(["a x b", "y"], return_tensors="pt")


@pytest.mark.parametrize("kind", [None, "pt", "np"])
def test_no_texts_are_an_empty_batch(tokenizer, kind):
    encoded = tokenizer([], padding=True, return_overflowing_tokens=True, return_tensors=kind, **EVERYTHING)
    assert {len(values) for values in encoded.values()} == {0}


def test_encodings_are_padded_whoever_looks_at_them_and_how(tokenizer):
    encoded = tokenizer(["a x b", "y", "c"], padding=True)
    for encodings in (encoded.encodings, pickle.loads(pickle.dumps(encoded)).encodings):
        assert (
            [len(encoding) for encoding in encodings]
            == [len(encodings[-1]), *[len(e) for e in encodings[1:]]]
            == [5] * 3
        )
    assert encoded.word_ids(1) == [None, 0, None, None, None]
    assert encoded[2].tokens == ["<S>", "c", "</S>", "<PAD>", "<PAD>"]
    assert encoded.tokens(1)[3:] == ["<PAD>", "<PAD>"]


@pytest.mark.parametrize(
    ("texts", "arguments", "message"),
    [
        (("a b c",), {"max_length": 1}, "`max_length=1` leaves 0 words beside 2 boundaries"),
        (("a b c",), {"max_length": 2}, "`max_length=2` leaves 0 words"),
        (("a b c", "d e"), {"max_length": 4}, "beside 4 boundaries"),
        (("a b c",), {"max_length": 4, "stride": 2}, "more than `stride=2`"),
        (("a b c",), {"max_length": 4, "truncation": "only_second"}, "runcation"),
        (("a b c d e f", "d"), {"max_length": 6, "truncation": "only_second"}, "runcation"),
    ],
)
def test_a_truncation_that_cannot_be_is_refused(texts, arguments, message):
    with pytest.raises(ValueError, match=message):
        ElmoTokenizer()(*texts, **({"truncation": True} | arguments))
