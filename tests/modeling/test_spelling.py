"""Words as rows of bytes or of code points, and the tokenizer's settings that belong to them."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmo_hf import ElmoTokenizer
from elmo_hf.data.sentences import encode
from elmo_hf.modeling.spelling_elmo import SPECIAL_CHARACTERS, ByteSpelling, CodePointSpelling, SpelledVocabulary

CHARACTERS = ["a", "b", "é", "潮", "\U0001f600", "<", *SPECIAL_CHARACTERS]
VOCABULARY = ["<oov>", "<bos>", "<eos>", "<pad>", "a", "ab", "a" * 10, "b" * 12, "<PAD"]
SPECIALS = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<oov>"}


def tokenizer(**options) -> ElmoTokenizer:
    settings = {"characters": CHARACTERS, "max_characters_per_token": 12, "max_word_length": 10, "boundary_words": True}
    return ElmoTokenizer(vocab=VOCABULARY, splitting="whitespace", **(settings | options), **SPECIALS)


def expected_row(word: str, slots: int = 12) -> list[int]:
    """A word's row by the definition: `<eow>`, the characters or the boundary, `<bow>`, `<pad>`."""
    index = {character: place + 1 for place, character in enumerate(CHARACTERS)}
    inner = [index[word]] if word in ("<bos>", "<eos>") else [index.get(c, index["<oov>"]) for c in word]
    row = [index["<eow>"], *inner, index["<bow>"]]
    return row + [index["<pad>"]] * (slots - len(row))


@given(
    st.lists(st.text(max_size=14) | st.sampled_from([*VOCABULARY, "<bos>x", "a" * 11, "\ud800", "<PAD>"]), max_size=5)
)
@example(["", "b" * 12, "b" * 13, "<eos>"])
def test_rows_and_ids_are_those_of_the_definition(words):
    batch = tokenizer()([words], is_split_into_words=True, return_tensors="np")
    assert batch["input_ids"].shape == (1, len(words) + 2)
    for word, word_id, row in zip(words, batch["input_ids"][0, 1:], batch["char_ids"][0, 1:], strict=False):
        assert word_id == (VOCABULARY.index(word[:10]) if word[:10] in VOCABULARY else 0)
        assert row.tolist() == expected_row(word[:10])
    assert batch["char_ids"][0, 0].tolist() == expected_row("<bos>")
    assert batch["char_ids"][0, -1].tolist() == expected_row("<eos>")


@given(st.lists(st.text("ab潮é<bos>☃", min_size=1, max_size=14), max_size=5))
def test_raw_text_gives_the_ids_of_its_words(words):
    given_words = tokenizer()([words], is_split_into_words=True)
    assert tokenizer()([" ".join(words)]).data == given_words.data


def test_a_longer_word_of_the_vocabulary_is_looked_up_as_it_is_cut():
    ids = tokenizer()([["b" * 12, "a" * 12]], is_split_into_words=True)["input_ids"][0]
    assert ids[1:-1] == [0, VOCABULARY.index("a" * 10)]


def test_without_the_setting_a_boundary_in_a_text_is_a_word():
    batch = tokenizer(boundary_words=False)([["<bos>"]], is_split_into_words=True)
    assert batch["input_ids"][0][1] == 0
    assert batch["char_ids"][0][1] != expected_row("<bos>")


def test_the_settings_are_saved_and_loaded(tmp_path):
    tokenizer().save_pretrained(tmp_path / "points")
    again = ElmoTokenizer.from_pretrained(tmp_path / "points")
    assert (again.characters, again.max_word_length, again.boundary_words) == (CHARACTERS, 10, True)
    words = ["潮a", "a" * 12, "<bos>", "x"]
    for other in (again, tokenizer().with_vocabulary(VOCABULARY)):
        assert other([words], is_split_into_words=True).data == tokenizer()([words], is_split_into_words=True).data


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"characters": "abc"}, "must be a list of characters"),
        ({"characters": [*CHARACTERS, 5]}, "must be a list of characters"),
        ({"characters": [*CHARACTERS, ""]}, "must be a list of characters"),
        ({"characters": CHARACTERS[:-1]}, "`characters` lacks <bow>"),
        ({"characters": [*CHARACTERS, "a"]}, "holds 'a' twice"),
        ({"max_word_length": 0}, "`max_word_length` must be 1 or more"),
        ({"max_word_length": "ten"}, "`max_word_length` must be 1 or more"),
    ],
)
def test_malformed_settings_are_refused_from_code_and_from_files(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        tokenizer(**settings)
    tokenizer().save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | settings), "utf-8")
    with pytest.raises(ValueError, match=message):
        ElmoTokenizer.from_pretrained(tmp_path)


def test_tables_of_many_characters_keep_their_ids():
    characters = [chr(0x3400 + offset) for offset in range(40_000)] + list(SPECIAL_CHARACTERS)
    many = tokenizer(characters=characters)
    (sentence,) = encode([[characters[39_999]]], many)
    assert sentence.tokens(1, 2).char_ids[0, 1] == 40_000
    assert many.decode(sentence.tokens(0, 3).char_ids) == f"<bos> {characters[39_999]} <eos>"


@given(st.lists(st.text(max_size=10), min_size=1, max_size=4))
def test_rows_are_told_from_word_ids(words):
    spelling = CodePointSpelling(CHARACTERS)
    rows = spelling.rows(words, 12)
    assert spelling.are_rows(rows)
    assert not spelling.are_rows(rows[:, :1])
    assert not spelling.are_rows(np.zeros((2, 12), dtype=np.int64))
    assert not ByteSpelling().are_rows(rows)
    known = ["".join(c if c in CHARACTERS else "\ufffd" for c in word) for word in words]
    assert [spelling.word(row) for row in rows] == known


# ==== Bytes

BYTES = ByteSpelling()
ANY_TEXT = st.text(st.characters(exclude_categories=[]))  # lone surrogates too
SOME_WORDS = ["", "a", "can't", "naïve", "猫", "🙂", "e\u0301", "\u200b", "\0", "\0\0", "\ud800", "a\udfffb", "<S>"]
SOME_WORDS += ["x" * 47, "x" * 48, "x" * 49, "x" * 10_000, "é" * 24, "x" + "é" * 24, "x" * 46 + "🙂"]


def original_row(word: str, slots: int = 50) -> list[int]:
    """As the original does it, in its own numbers, then plus one."""
    begin_word, end_word, pad = 258, 259, 260
    row = [pad] * slots
    row[0] = begin_word
    characters = word.encode("utf-8", "ignore")[: slots - 2]
    for place, byte in enumerate(characters, start=1):
        row[place] = byte
    row[len(characters) + 1] = end_word
    return [char_id + 1 for char_id in row]


@pytest.mark.parametrize("slots", [3, 4, 20, 50])
@pytest.mark.parametrize("word", SOME_WORDS, ids=ascii)
def test_a_row_is_the_originals(word, slots):
    assert BYTES.rows([word], slots).tolist() == [original_row(word, slots)]


@given(st.lists(ANY_TEXT))
def test_rows_are_the_originals_for_any_words(words):
    rows = BYTES.rows(words, 50)
    assert rows.shape == (len(words), 50)
    assert rows.dtype == np.int16
    assert rows.tolist() == [original_row(word) for word in words]


@pytest.mark.parametrize(("character", "boundary_id"), [(BYTES.begin_sentence, 257), (BYTES.end_sentence, 258)])
def test_a_boundary_is_its_character_between_word_marks(character, boundary_id):
    assert BYTES.boundary(character, 50).tolist() == [259, boundary_id, 260, *[261] * 47]
    assert BYTES.boundary(character, 3).tolist() == [259, boundary_id, 260]


@given(st.text(max_size=12))  # 12 characters have at most 48 bytes
def test_a_row_gives_its_word_back(word):
    assert BYTES.word(BYTES.rows([word], 50)[0]) == word


@pytest.mark.parametrize(
    ("word", "read"),
    [("x" * 60, "x" * 48), ("x" * 47 + "é", "x" * 47), ("x" * 46 + "🙂", "x" * 46), ("a\ud800b", "ab")],
    ids=ascii,
)
def test_of_a_word_that_was_cut_whole_characters_come_back(word, read):
    assert BYTES.word(BYTES.rows([word], 50)[0]) == read


def rows_with_marks(words):
    marks = BYTES.boundary(BYTES.begin_sentence, 50), BYTES.boundary(BYTES.end_sentence, 50), np.zeros(50, np.int16)
    return np.vstack([BYTES.rows(words, 50), *marks])


@given(st.lists(ANY_TEXT))
def test_rows_of_any_words_are_told_to_be_rows(words):
    assert BYTES.are_rows(rows_with_marks(words))


@pytest.mark.parametrize(
    "ids",
    [
        np.zeros((0, 50), int),
        np.zeros((3, 50), int),  # as well <S> fifty times
        np.array([[0, 5, 7, 1], [0, 5, 1, 9]]),
        np.array([[259, 5, 7, 1]]),
        np.array([[259, 5, 260, 7]]),
        np.array([[259, 260, 260, 261]]),
        np.array([[259, 0, 260, 261]]),
        np.array([259, 5, 260]),
        np.arange(700, 800).reshape(2, 50),
    ],
)
def test_word_ids_are_not_taken_for_rows(ids):
    assert not BYTES.are_rows(ids)


def test_a_vocabulary_is_spelled_word_by_word_and_once():
    words, asked = ["the", "cat", "naïve", "x" * 99], []

    def word_of(word_id):
        asked.append(word_id)
        return words[word_id]

    spelled = SpelledVocabulary(len(words), word_of)
    for ids in ([2, 0, 2], [], [0, 3, 2]):
        assert spelled[np.array(ids, dtype=np.int64)].tolist() == [original_row(words[word_id]) for word_id in ids]
    assert asked == [0, 2, 3]


def test_what_is_done_to_rows_does_not_change_the_vocabularys():
    spelled = SpelledVocabulary(1, lambda word_id: "cat")
    spelled[np.array([0])][:] = 0
    assert spelled[np.array([0])].tolist() == [original_row("cat")]
