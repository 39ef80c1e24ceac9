"""The surprisal table: bits, words as given, and frequencies estimated from ranks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoLanguageModel, ElmoTokenizer
from elmo_hf.language_model import FrequencyEstimate, word_surprisals
from tests.language_model.models import SLOTS, VOCABULARY, WORDS, tiny_language_model

LM = tiny_language_model()
FREQUENCIES = FrequencyEstimate(LM.tokenizer, len(VOCABULARY))


@given(st.lists(st.sampled_from([*WORDS, "dog", "<S>", "河"]), max_size=12))
def test_every_word_has_the_negated_log_probabilities_in_bits(words):
    (score,) = LM.score([words])
    rows = list(word_surprisals(score, 7, FREQUENCIES))
    assert [(row.sentence, row.position, row.word) for row in rows] == [
        (7, place, word) for place, word in enumerate(words, start=1)
    ]
    for row, place in zip(rows, range(1, len(words) + 1), strict=True):
        assert 2**-row.forward == pytest.approx(math.exp(score.forward[place]))
        assert 2**-row.backward == pytest.approx(math.exp(score.backward[place]))
        assert row.both == pytest.approx(row.forward + row.backward)
        assert row.unknown == (row.word not in WORDS)  # a special token in a text is an unknown word
        assert row.length == len(row.word)
        assert (row.log_frequency is None) == (row.word not in WORDS)


def test_frequencies_follow_zipf_and_sum_to_one_over_the_words_of_the_vocabulary():
    logs = [FREQUENCIES.log2(word) for word in WORDS]
    assert sum(2**value for value in logs) == pytest.approx(1)
    np.testing.assert_allclose([2 ** (logs[0] - value) for value in logs], range(1, len(WORDS) + 1))
    assert [FREQUENCIES.log2(word) for word in ("<S>", "</S>", "<UNK>", "dog", LM.tokenizer.pad_token)] == [None] * 5


def test_a_vocabulary_of_special_tokens_alone_has_no_frequencies():
    tokenizer = ElmoTokenizer()
    assert FrequencyEstimate(tokenizer, 3).log2("the") is None


def test_a_direction_that_the_model_does_not_have_is_none():
    lm = tiny_language_model(directions="backward")
    (row,) = word_surprisals(lm.score("cat"), 1, FREQUENCIES)
    assert (row.forward, row.both) == (None, None)
    assert row.backward > 0


@pytest.mark.parametrize("segmenter", ["character", "jieba"])
def test_chinese_words_are_those_of_the_segmenter_as_they_stand_in_the_text(segmenter):
    text = "我们坐在河岸上。"
    vocabulary = [*VOCABULARY[:7], "我们", "我", "河"]
    tokenizer = ElmoTokenizer(vocab=vocabulary, max_characters_per_token=SLOTS, segmenter=segmenter)
    lm = ElmoLanguageModel(LM.model, tokenizer)
    rows = list(word_surprisals(lm.score(text), 1, FrequencyEstimate(tokenizer, len(vocabulary))))
    assert "".join(row.word for row in rows) == text
    assert [row.word for row in rows] == tokenizer.tokenize(text)
    assert [row.length for row in rows] == [len(row.word) for row in rows]
    assert [row.word for row in rows if not row.unknown] == (["我", "河"] if segmenter == "character" else ["我们"])
