"""The published vectors of both original implementations, by the model and by the reference."""

import numpy as np
import pytest
import torch

from elmo_hf import ElmoConfig, ElmoTokenizer
from elmo_hf.conversion.bilm_hdf5 import read_bilm_hdf5
from tests.models import reference_of

pytestmark = pytest.mark.golden
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture
def model(golden):
    return read_bilm_hdf5(ElmoConfig.from_bilm_options(golden.options), golden.weights).eval()


def expected_rows(golden):
    """`(batch, row, words, forward and backward top layer side by side)` for all thirty sentences."""
    for row, batches in enumerate(golden.top_layers()):
        for batch, layers in enumerate(batches):
            yield batch, row, golden.sentences[row][batch], np.concatenate(layers, axis=-1)


@pytest.mark.usefixtures("engine")
def test_the_model_gives_the_originals_vectors_with_the_state_carried_from_batch_to_batch(golden, model):
    tokenizer, state, top = ElmoTokenizer(), None, []
    for sentences in zip(*golden.sentences, strict=True):
        batch = tokenizer(list(sentences), is_split_into_words=True, padding=True, return_tensors="pt")
        with torch.no_grad():
            output = model(**batch, initial_state=state, output_states=True, output_hidden_states=True)
        state = output.states
        top.append(output.hidden_states[-1].numpy())
    for batch, row, words, expected in expected_rows(golden):
        np.testing.assert_allclose(top[batch][row, 1 : len(words) + 1], expected, **TOLERANCE)


def test_the_reference_gives_the_originals_vectors(golden, model):
    reference, tokenizer, states = reference_of(model), ElmoTokenizer(), {}
    for _, row, words, expected in sorted(expected_rows(golden), key=lambda item: item[:2]):
        rows = tokenizer(words, is_split_into_words=True)["char_ids"]
        layers, states[row] = reference.sentence([reference.token_vector(np.array(r)) for r in rows], states.get(row))
        np.testing.assert_allclose(layers[-1, 1:-1], expected, **TOLERANCE)


def test_the_character_encoder_gives_the_originals_vectors_of_a_vocabulary(allennlp_golden):
    h5py = pytest.importorskip("h5py")
    golden = allennlp_golden
    model = read_bilm_hdf5(ElmoConfig.from_bilm_options(golden.options), golden.weights)
    words = (golden.folder / "vocab_test.txt").read_text("utf-8").split()  # its <S> and </S> are the boundaries
    with h5py.File(golden.folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    begin, *rows, end = ElmoTokenizer()(words, is_split_into_words=True)["char_ids"]
    rows = [{"<S>": begin, "</S>": end}.get(word, row) for word, row in zip(words, rows, strict=True)]
    with torch.no_grad():
        vectors = model.token_encoder(torch.tensor(rows), None).numpy()
    np.testing.assert_allclose(vectors, expected, **TOLERANCE)
