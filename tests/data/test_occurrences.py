"""Words in their places: every occurrence, its vector, its offsets; only sentences that have it are embedded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import Occurrence
from elmo_hf.data.batches import WINDOW
from elmo_hf.data.sentences import CHUNK
from elmo_hf.embedding import BATCH_TOKENS, ElmoEmbedder
from elmo_hf.errors import TextError
from tests.embedding.toy import TOKENIZER, WORDS, layers_alone, toy_embedder
from tests.models import tiny_model

EMBEDDER = toy_embedder()
TEXT = ["The bank (a bank!)", ["the", "river", "bank"], "banks", "", "riverbank and snowbank", "bank, bank"]


def test_every_occurrence_comes_with_its_vector_sentence_and_place():
    occurrences = EMBEDDER.words(iter(TEXT), "bank")
    places = [(some.number, some.position, some.start, some.end) for some in occurrences]
    assert places == [(0, 1, 4, 8), (0, 4, 12, 16), (1, 2, 10, 14), (5, 0, 0, 4), (5, 2, 6, 10)]
    assert occurrences[2].sentence == "the river bank"
    for some in occurrences:
        assert isinstance(some, Occurrence)
        assert some.sentence[some.start : some.end] == some.word == "bank"
        expected = layers_alone(EMBEDDER.model, TEXT[some.number])[-1, 1 + some.position]
        np.testing.assert_allclose(some.vector, expected, rtol=1e-5, atol=1e-5)


def test_several_words_and_layers_can_be_asked_for():
    occurrences = EMBEDDER.words(TEXT, ["bank", "banks", "The"], layers="all")
    assert [some.word for some in occurrences] == ["The", "bank", "bank", "bank", "banks", "bank", "bank"]
    assert {some.vector.shape for some in occurrences} == {(3, 8)}
    assert all(some.vector.base is None for some in occurrences)


def test_only_sentences_that_have_the_word_are_embedded():
    model, tokens = tiny_model(), []
    model.register_forward_pre_hook(lambda _, inputs: tokens.append(inputs[0].numel()))
    ElmoEmbedder(model, TOKENIZER).words(TEXT, "bank")
    assert sum(tokens) == 9 + 5 + 5
    assert ElmoEmbedder(model, TOKENIZER).words(TEXT, "absent") == []
    assert len(tokens) == 1


def test_a_corpus_is_read_as_far_as_occurrences_are_asked_for():
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield "the bank" if read % 10 == 0 else "no river"

    occurrences = EMBEDDER.words_iter(endless(), "bank")
    assert next(occurrences).number == 9
    assert read <= 10 * (WINDOW * BATCH_TOKENS // 4 + 2 * CHUNK)  # a window of sentences that have it


@given(st.lists(st.one_of(st.text(max_size=20), st.lists(st.sampled_from(WORDS), max_size=5)), max_size=6))
def test_words_and_offsets_are_those_of_the_vectors(sentences):
    tokenized = list(EMBEDDER.tokenize(sentences))
    for sentence, split_sentence, vectors in zip(sentences, tokenized, EMBEDDER.embed(sentences), strict=True):
        assert split_sentence.text == (sentence if isinstance(sentence, str) else " ".join(sentence))
        assert split_sentence.words == [split_sentence.text[start:end] for start, end in split_sentence.offsets]
        assert len(split_sentence.words) == len(vectors)
        assert split_sentence.words == (TOKENIZER.tokenize(sentence) if isinstance(sentence, str) else sentence)


@pytest.mark.parametrize("word", ["", [], [""], 3, None, ["bank", 3]])
def test_what_is_no_word_is_refused(word):
    with pytest.raises(ValueError, match="`word`"):
        EMBEDDER.words(TEXT, word)


def test_a_single_string_is_no_corpus():
    with pytest.raises(TextError, match="put it into a list"):
        EMBEDDER.words("the bank", "bank")
