"""Words that are alike whatever the context: by the softmax's vectors, or by the character encoder's."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from elmo_hf import ElmoLanguageModel
from elmo_hf.errors import TextError
from elmo_hf.language_model import static_vectors
from tests.language_model.models import MARKS, VOCABULARY, WORDS, tiny_language_model
from tests.models import reference_of


def by_hand(vectors: dict[str, np.ndarray], word: str, vector: np.ndarray) -> list[tuple[str, float]]:
    """All words but the word itself, by their cosine."""
    cosines = {
        other: float(other_vector @ vector / np.linalg.norm(other_vector) / np.linalg.norm(vector))
        for other, other_vector in vectors.items()
    }
    return sorted(((other, cosine) for other, cosine in cosines.items() if other != word), key=lambda item: -item[1])


def assert_same(actual, expected):
    assert [word for word, _ in actual] == [word for word, _ in expected]
    np.testing.assert_allclose([cosine for _, cosine in actual], [cosine for _, cosine in expected], atol=1e-6)


def encoded(lm: ElmoLanguageModel, word: str) -> np.ndarray:
    row = lm.tokenizer([[word]], is_split_into_words=True, return_tensors="np")
    return reference_of(lm.model.elmo).token_vector(row["char_ids"][0, 1], int(row["input_ids"][0, 1]))


@pytest.mark.parametrize("kind", ["full", "sampled"])
def test_known_words_are_compared_by_the_softmax(kind):
    lm = tiny_language_model(softmax_type=kind)
    rows = lm.model.softmax.weight.detach().numpy()
    rows = rows - rows.mean(axis=0)  # what is added to all words changes no probability
    vectors = {word: rows[VOCABULARY.index(word)] for word in WORDS}
    for word in WORDS:
        expected = by_hand(vectors, word, vectors[word])
        assert_same(lm.static_neighbors(word, 100), expected)
        assert_same(lm.static_neighbors(word, 2, vectors="softmax"), expected[:2])


@pytest.mark.parametrize("tokens", ["characters", "words", "both"])
def test_on_request_words_are_compared_by_the_encoder(tokens, monkeypatch):
    monkeypatch.setattr(static_vectors, "WORDS_AT_ONCE", 3)
    lm = tiny_language_model(softmax_type="adaptive", token_inputs=tokens)
    vectors = {word: encoded(lm, word) for word in WORDS}
    for word in WORDS:
        expected = by_hand(vectors, word, vectors[word])
        assert_same(lm.static_neighbors(word, 100, vectors="encoder"), expected)


def test_the_groups_of_an_adaptive_softmax_are_compared_in_one_space():
    lm = tiny_language_model(softmax_type="adaptive", softmax_tail_ratio=1)  # with more than one number it has no ties
    rows, bounds = lm.model.softmax.word_vectors().detach().numpy(), [0, *lm.model.softmax.bounds]
    groups = [rows[start:stop] for start, stop in pairwise(bounds)]
    rows = np.concatenate([group - group.mean(axis=0) for group in groups])
    vectors = {word: rows[VOCABULARY.index(word)] for word in WORDS}
    assert_same(lm.static_neighbors("cat", 100), by_hand(vectors, "cat", vectors["cat"]))


@pytest.mark.parametrize("kind", ["full", "adaptive"])
@pytest.mark.parametrize("word", ["dog", "猫", *MARKS])
def test_an_unknown_word_is_compared_by_its_characters(kind, word):
    lm = tiny_language_model(softmax_type=kind)
    expected = by_hand({word: encoded(lm, word) for word in WORDS}, word, encoded(lm, word))
    assert_same(lm.static_neighbors(word, 100), expected)


def test_the_vectors_of_the_vocabulary_are_made_once(monkeypatch):
    lm = tiny_language_model(softmax_type="adaptive")
    expected = lm.static_neighbors("cat", vectors="encoder")
    monkeypatch.setattr(lm.model.elmo.token_encoder, "forward", None)
    assert lm.static_neighbors("cat", vectors="encoder") == expected
    assert not torch.is_grad_enabled() or not lm._encoder_vectors.requires_grad


@pytest.mark.parametrize(
    ("fields", "word", "vectors", "error", "message"),
    [
        ({}, "dog", "softmax", TextError, "'dog' is not in the vocabulary, and so not in the softmax"),
        ({"token_inputs": "words"}, "dog", None, TextError, "and this model reads no characters"),
        ({}, "cat", "both", ValueError, "'softmax' or 'encoder', found 'both'"),
        ({}, 3, None, TextError, "A word is a string, found 3"),
        ({}, "", None, TextError, "Give one word, without blanks: found ''"),
        ({}, "the cat", None, TextError, "Give one word, without blanks: found 'the cat'"),
    ],
)
def test_what_cannot_be_compared_is_refused(fields, word, vectors, error, message):
    with pytest.raises(error, match=message):
        tiny_language_model(**fields).static_neighbors(word, 2, vectors)


@pytest.mark.medium
def test_the_shipped_model_has_neighbours_in_meaning_and_in_spelling():
    lm = ElmoLanguageModel.from_pretrained()
    cities = {word for word, _ in lm.static_neighbors("Paris")}
    assert {"Rome", "London"} <= cities
    # Frequent and rarer words, of several groups of its adaptive softmax.
    days = {word for word, _ in lm.static_neighbors("Monday")}
    assert {"Friday", "Thursday", "Tuesday"} <= days
    assert "guitars" in {word for word, _ in lm.static_neighbors("guitar", vectors="encoder")}
