"""Neighbours of a word in its sentence: that it is compared with what it can be compared with."""

import numpy as np
import pytest

from elmo_hf import ElmoIndex
from elmo_hf.errors import ModelError, TextError
from tests.embedding.toy import toy_embedder

EMBEDDER = toy_embedder(scale=3.0)  # so that words differ
TEXTS = ["The bank of the river.", "A river bank.", "I don't know the Bank.", ["a", "bank!", "bank"]]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return ElmoIndex.build(EMBEDDER, TEXTS, tmp_path_factory.mktemp("indexes") / "index", layers="top", dtype="float32")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the bank", "No word is marked"),
        ("2 ** 3", "No word is marked"),
        ("", "No word is marked"),
        ("the **river** **bank**", "2 words are marked"),
        ("the **river bank** was", r"'river bank' is not one word: the tokenizer reads river \| bank there"),
        ("I **don't** know", r"the tokenizer reads do \| n't there"),
        ("the **ban**k", "'ban' is not one word: the tokenizer reads bank there"),
        ("the **bank.**", r"the tokenizer reads bank \| \. there"),
        ("the ****bank", "'' is not one word: the tokenizer reads bank there"),
        ("the ** **", "' ' is not one word: the tokenizer reads none there"),
    ],
    ids=str,
)
def test_a_text_without_one_marked_word_is_refused(index, text, message):
    with pytest.raises(TextError, match=message):
        EMBEDDER.neighbors(text, index)


def test_a_marked_word_its_occurrence_and_its_vector_have_the_same_neighbours(index):
    (occurrence,) = EMBEDDER.words(["They like the bank ."], "bank", layers="top")
    neighbours = EMBEDDER.neighbors("They like the **bank** .", index, k=4)
    assert len(neighbours) == 4
    assert [similarity for similarity, _ in neighbours] == sorted(
        (similarity for similarity, _ in neighbours), reverse=True
    )
    for query in (occurrence, occurrence.vector, 5 * occurrence.vector):
        for one, other in zip(EMBEDDER.neighbors(query, index, 4), neighbours, strict=True):
            assert one.occurrence[2:] == other.occurrence[2:]
            assert one.similarity == pytest.approx(other.similarity, abs=1e-5)


def test_a_sentence_of_the_corpus_finds_itself(index):
    (neighbour,) = EMBEDDER.neighbors("The **bank** of the river.", index, k=1)
    assert neighbour.similarity == pytest.approx(1, abs=1e-5)
    assert (neighbour.occurrence.sentence, neighbour.occurrence.start) == (TEXTS[0], 4)


def test_the_same_word_or_each_word_once(index):
    same = EMBEDDER.neighbors("the **bank** was", index, 20, same_word=True)
    assert sorted(neighbour.occurrence.word for neighbour in same) == ["Bank", "bank", "bank", "bank"]
    distinct = EMBEDDER.neighbors("the **bank** was", index, 20, distinct=True)
    words = [neighbour.occurrence.word.lower() for neighbour in distinct]
    assert len(set(words)) == len(words) == 11
    with pytest.raises(ValueError, match="does not say whose"):
        EMBEDDER.neighbors(np.ones(8), index, same_word=True)


def test_the_second_of_two_equal_words_can_be_marked(index):
    first, second = EMBEDDER.words(["bank the bank"], "bank", layers="top")
    for text, expected in (("**bank** the bank", first), ("bank the **bank**", second)):
        (one,), (other,) = EMBEDDER.neighbors(text, index, 1), EMBEDDER.neighbors(expected, index, 1)
        assert one.similarity == pytest.approx(other.similarity, abs=1e-6)


def test_an_occurrence_of_given_words_is_known(index):
    """Its sentence is not what the tokenizer would make of the words."""
    (occurrence,) = EMBEDDER.words([["don't", "bank", "x.y!", "bank's"]], "bank", layers="top")
    assert len(EMBEDDER.neighbors(occurrence, index, 3)) == 3


@pytest.mark.parametrize("layers", ["mix", 0, 1, "all"])
def test_an_occurrence_of_other_layers_is_refused(index, layers):
    (occurrence,) = EMBEDDER.words(["the bank was"], "bank", layers=layers)
    with pytest.raises(ModelError, match="layers='top'"):
        EMBEDDER.neighbors(occurrence, index)


def test_another_model_is_refused(index):
    other = toy_embedder(seed=3)
    (occurrence,) = other.words(["the bank"], "bank", layers="top")
    for query in ("the **bank**", occurrence, occurrence.vector):
        with pytest.raises(ModelError, match="another model"):
            other.neighbors(query, index)


def test_neighbours_are_no_more_than_asked_for_and_at_least_one(index):
    assert len(EMBEDDER.neighbors("the **bank**", index, k=2)) == 2
    with pytest.raises(ValueError, match="1 or more"):
        EMBEDDER.neighbors("the **bank**", index, k=0)
