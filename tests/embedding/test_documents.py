"""Documents in pieces: the vectors of the whole, for every kind of model, with bounded memory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf.data.sentences import LONG, LongSentence, encode
from elmo_hf.embedding import ElmoEmbedder
from elmo_hf.errors import TextError
from tests.embedding.toy import TOKENIZER, WORDS, layers_alone, toy_embedder
from tests.models import tiny_model

EMBEDDER = toy_embedder(scale=3.0)
LAYERS = {"mix": -1, "top": 2, "all": [0, 1, 2], 1: 1}


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(WORDS), max_size=20),
    st.booleans(),
    st.sampled_from([1, 2, 3, 7, 20, 50]),
    st.sampled_from(list(LAYERS)),
    st.booleans(),
)
def test_pieces_join_to_the_vectors_of_the_whole(words, is_text, piece_tokens, layers, boundaries):
    document = " ".join(words) if is_text else words
    expected = layers_alone(EMBEDDER.model, document)[LAYERS[layers]]
    expected = expected if boundaries else expected[..., 1:-1, :]
    pieces = list(EMBEDDER.embed_document_iter(document, layers, boundaries, piece_tokens))
    np.testing.assert_allclose(np.concatenate(pieces, axis=-2), expected, rtol=1e-5, atol=1e-5)
    assert max(piece.shape[-2] for piece in pieces) <= piece_tokens
    (whole,) = EMBEDDER.embed([document], layers, boundaries=boundaries, batch_tokens=piece_tokens)
    np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("directions", ["forward", "backward"])
def test_one_direction_alone_works_too(directions):
    embedder = ElmoEmbedder(tiny_model(directions=directions), TOKENIZER)
    document = WORDS * 4
    expected = layers_alone(embedder.model, document)[-1, 1:-1]
    for vectors in (
        np.concatenate(list(embedder.embed_document_iter(document, piece_tokens=7))),
        embedder.embed([document], batch_tokens=7)[0],
    ):
        np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-5)


def test_a_state_that_is_carried_loses_no_digits_in_half_precision():
    embedder = ElmoEmbedder(tiny_model().bfloat16(), TOKENIZER)
    document = ["the", "river", "bank"] * 30
    (whole,) = embedder.embed([document])
    (vectors,) = embedder.embed([document], batch_tokens=5)
    assert (vectors != whole).mean() < 0.02  # the last bit of a few; with a rounded state it would be a third of them


def test_a_long_document_among_sentences_keeps_its_place():
    embedder = toy_embedder()  # with large weights its states would be chaotic over so many words
    document = ["the", "bank"] * (LONG // 2 + 1)
    given_sentences = ["the bank", document, "", " ".join(document), "a river"]
    actual = embedder.embed(given_sentences, batch_tokens=500)
    for sentence, vectors in zip(given_sentences, actual, strict=True):
        np.testing.assert_allclose(vectors, layers_alone(embedder.model, sentence)[-1, 1:-1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_document_is_pooled_without_its_vectors_ever_being_together(pooling, monkeypatch):
    document = ["the", "bank", "river", "."] * 300
    (vectors,) = EMBEDDER.embed([document], layers="all")
    expected = vectors.mean(axis=1) if pooling == "mean" else vectors.max(axis=1)
    monkeypatch.setattr("elmo_hf.embedding.request.join_parts", None)
    actual = EMBEDDER.embed([document], "all", pooling, batch_tokens=300)
    np.testing.assert_allclose(actual[0], expected, rtol=1e-5, atol=1e-5)


def test_no_call_of_the_model_sees_more_than_a_piece():
    model, sizes = tiny_model(), []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].numel()))
    embedder = ElmoEmbedder(model, TOKENIZER)
    document = ["the", "bank"] * 600
    embedder.embed([document], batch_tokens=100)
    assert sum(sizes) == 2 * (len(document) + 2)  # two passes
    list(embedder.embed_document_iter(document, piece_tokens=100))
    assert max(sizes) == 100


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), st.data())
def test_the_tokens_of_many_words_are_made_when_asked_for(words, data):
    whole, lazy = encode([words], TOKENIZER)[0], LongSentence(words, TOKENIZER)
    assert len(lazy) == len(whole)
    start = data.draw(st.integers(0, len(whole) - 1))
    stop = data.draw(st.integers(start + 1, len(whole)))
    for actual, expected in zip(lazy.tokens(start, stop), whole.tokens(start, stop), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_tensors_are_given_where_they_are_asked_for():
    pieces = list(EMBEDDER.embed_document_iter(WORDS, piece_tokens=4, return_tensors="pt"))
    assert torch.cat(pieces).shape == (len(WORDS), 8)


def test_what_is_no_document_is_refused():
    with pytest.raises(TextError, match="must be a string or a list of words"):
        EMBEDDER.embed_document_iter(None)
    with pytest.raises(ValueError, match="1 token or more"):
        EMBEDDER.embed_document_iter("the bank", piece_tokens=0)
