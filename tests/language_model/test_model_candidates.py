"""Words that fit somewhere are those of which the sentence with them has the best score."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoLanguageModel
from elmo_hf.errors import ModelError
from elmo_hf.language_model import reading
from tests.language_model.models import VOCABULARY, WORDS, tiny_language_model

KINDS = ["full", "sampled", "adaptive"]
ALL = 100  # more than there are words
SENTENCES = st.lists(st.sampled_from([*WORDS, "dog", "</S>"]), max_size=6)
EVERY_WAY = settings(max_examples=20)


def ranked(log_probs: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(log_probs.items(), key=lambda item: -item[1])


def assert_same(actual, expected):
    assert [word for word, *_ in actual] == [word for word, *_ in expected]
    np.testing.assert_allclose([values for _, *values in actual], [values for _, *values in expected], atol=1e-9)


@EVERY_WAY
@given(SENTENCES, st.sampled_from(KINDS), st.sampled_from(["both", "forward"]))
def test_next_words_are_ranked_as_the_text_with_each_of_them(words, kind, directions):
    lm = tiny_language_model(softmax_type=kind, directions=directions)
    tried = lm.score([[*words, word] for word in WORDS])
    expected = ranked({word: score.forward[-2] for word, score in zip(WORDS, tried, strict=True)})
    assert_same(lm.next_words(words, ALL), expected)
    assert_same(lm.next_words(words, 3), expected[:3])
    end = {"</S>": lm.score([words])[0].forward[-1]}
    assert_same(lm.next_words(words, ALL, boundary=True), ranked(dict(expected) | end))


@EVERY_WAY
@given(SENTENCES, st.sampled_from(KINDS), st.sampled_from(["both", "backward"]))
def test_previous_words_are_ranked_as_the_text_with_each_of_them(words, kind, directions):
    lm = tiny_language_model(softmax_type=kind, directions=directions)
    tried = lm.score([[word, *words] for word in WORDS])
    expected = ranked({word: score.backward[1] for word, score in zip(WORDS, tried, strict=True)})
    assert_same(lm.previous_words(words, ALL), expected)
    start = {"<S>": lm.score([words])[0].backward[0]}
    assert_same(lm.previous_words(words, ALL, boundary=True), ranked(dict(expected) | start))


def by_hand(lm: ElmoLanguageModel, words: list[str], position: int) -> list[tuple[str, float, float, float]]:
    """The other words, by the score of the sentence with each of them in the place."""
    candidates = []
    for word in set(WORDS) - {words[position]}:
        score = lm.score([[*words[:position], word, *words[position + 1 :]]])[0]
        read = [np.nan if way is None else way[position + 1] for way in (score.forward, score.backward)]
        candidates.append((word, np.nansum(read), *read))
    return sorted(candidates, key=lambda item: -item[1])


@pytest.mark.medium
@EVERY_WAY
@given(SENTENCES.filter(bool), st.data(), st.sampled_from(KINDS), st.sampled_from(["both", "forward", "backward"]))
def test_substitutes_are_ranked_as_the_sentence_with_each_of_them(words, data, kind, directions):
    lm = tiny_language_model(softmax_type=kind, directions=directions)
    position = data.draw(st.integers(0, len(words) - 1))
    expected = by_hand(lm, words, position)
    assert_same(lm.substitutes(words, position, ALL), expected)
    assert_same(lm.substitutes(words, position, 2), expected[:2])
    rarity = data.draw(st.floats(0, 2))
    expected.sort(key=lambda item: -item[1] - rarity * np.log(VOCABULARY.index(item[0]) + 1))
    assert_same(lm.substitutes(words, position, ALL, rarity=rarity), expected)


@pytest.mark.parametrize("tokens", [1, 3])
def test_a_long_context_is_read_in_pieces(tokens, monkeypatch):
    lm = tiny_language_model()
    words = ["the", "cat", "sat", "on", "a", "mat", "."] * 3
    expected = lm.next_words(words), lm.previous_words(words), lm.substitutes(words, 10)
    monkeypatch.setattr(reading, "TOKENS_AT_ONCE", tokens)
    actual = lm.next_words(words), lm.previous_words(words), lm.substitutes(words, 10)
    for one, other in zip(actual, expected, strict=True):
        assert_same(one, other)


def test_a_marked_word_an_offset_and_a_position_are_the_same_place():
    lm = tiny_language_model()
    expected = lm.substitutes(["the", "cat", "sat", "."], 1)
    assert lm.substitutes("the **cat** sat.") == lm.substitutes("the cat sat.", (4, 7)) == expected


def test_a_gap_and_a_phrase_are_filled_with_one_word():
    lm = tiny_language_model()
    candidates = by_hand(lm, ["the", "dog", "sat"], 1)
    assert_same(lm.substitutes("the **** sat"), candidates)
    assert_same(lm.substitutes("the **big dog** sat"), candidates)
    without_known = [item for item in candidates if item[0] not in ("a", "cat")]
    assert_same(lm.substitutes("the **a cat** sat"), without_known)


@pytest.mark.parametrize("ask", [ElmoLanguageModel.next_words, ElmoLanguageModel.previous_words])
def test_a_direction_that_the_model_does_not_have_is_refused(ask):
    missing = {"next_words": "backward", "previous_words": "forward"}[ask.__name__]
    with pytest.raises(ModelError, match=rf"^This model reads {missing} only"):
        ask(tiny_language_model(directions=missing), "the cat")


@pytest.mark.parametrize("k", [0, -1])
def test_no_words_cannot_be_asked_for(k):
    with pytest.raises(ValueError, match=r"`k` must be 1 or more, found"):
        tiny_language_model().next_words("the", k)


def test_the_shipped_model_knows_some_english():
    lm = ElmoLanguageModel.from_pretrained()
    assert {"floor", "table"} & {word for word, _ in lm.next_words("He sat on the")}
    assert "side" in [substitute.word for substitute in lm.substitutes("He sat on the **bank** of the river.")]
    assert lm.next_words("He sat on the bank.", 1, boundary=True)[0].word == "</S>"
