"""A word's row of character ids is the original's, whatever the word, and leads back to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.characters_elmo import (
    BEGIN_SENTENCE,
    END_SENTENCE,
    SpelledVocabulary,
    are_char_rows,
    boundary_row,
    char_rows,
    word_of_row,
)

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
    return [number + 1 for number in row]


@pytest.mark.parametrize("slots", [3, 4, 20, 50])
@pytest.mark.parametrize("word", SOME_WORDS, ids=ascii)
def test_a_row_is_the_originals(word, slots):
    assert char_rows([word], slots).tolist() == [original_row(word, slots)]


@given(st.lists(ANY_TEXT))
def test_rows_are_the_originals_for_any_words(words):
    rows = char_rows(words)
    assert rows.shape == (len(words), 50)
    assert rows.dtype == np.int16
    assert rows.tolist() == [original_row(word) for word in words]


@pytest.mark.parametrize(("character", "number"), [(BEGIN_SENTENCE, 257), (END_SENTENCE, 258)])
def test_a_boundary_is_its_character_between_word_marks(character, number):
    assert boundary_row(character).tolist() == [259, number, 260, *[261] * 47]
    assert boundary_row(character, slots=3).tolist() == [259, number, 260]


@given(st.text(max_size=12))  # 12 characters have at most 48 bytes
def test_a_row_gives_its_word_back(word):
    assert word_of_row(char_rows([word])[0]) == word


@pytest.mark.parametrize(
    ("word", "read"),
    [("x" * 60, "x" * 48), ("x" * 47 + "é", "x" * 47), ("x" * 46 + "🙂", "x" * 46), ("a\ud800b", "ab")],
    ids=ascii,
)
def test_of_a_word_that_was_cut_whole_characters_come_back(word, read):
    assert word_of_row(char_rows([word])[0]) == read


def rows_with_marks(words):
    marks = boundary_row(BEGIN_SENTENCE), boundary_row(END_SENTENCE), np.zeros(50, np.int16)
    return np.vstack([char_rows(words), *marks])


@given(st.lists(ANY_TEXT))
def test_rows_of_any_words_are_told_to_be_rows(words):
    assert are_char_rows(rows_with_marks(words))


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
    assert not are_char_rows(ids)


def test_a_vocabulary_is_spelled_word_by_word_and_once():
    words, asked = ["the", "cat", "naïve", "x" * 99], []

    def word_of(number):
        asked.append(number)
        return words[number]

    spelled = SpelledVocabulary(len(words), word_of)
    for ids in ([2, 0, 2], [], [0, 3, 2]):
        assert spelled[np.array(ids, dtype=np.int64)].tolist() == [original_row(words[number]) for number in ids]
    assert asked == [0, 2, 3]


def test_what_is_done_to_rows_does_not_change_the_vocabularys():
    spelled = SpelledVocabulary(1, lambda number: "cat")
    spelled[np.array([0])][:] = 0
    assert spelled[np.array([0])].tolist() == [original_row("cat")]
