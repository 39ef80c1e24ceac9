"""The vectors of spans: those of the model, in order, whatever the blocks, and read back after a stop."""

import numpy as np
import pytest

from elmo_hf.analysis import layer_vectors
from elmo_hf.analysis.layer_vectors import representation_names, span_blocks
from elmo_hf.analysis.work_folder import WorkFolder
from elmo_hf.errors import ModelError
from tests.analysis.toy import representations, toy_embedder

SENTENCES = [["the", "bank"], ["a", "river", "bank", "."], [], ["Zürich"], ["the", "river", "n't", "a", "bank"]]
SPANS = [[(1, 2)], [(1, 3), (0, 1), (1, 2)], [], [], [(0, 5), (4, 5)]]


def expected(embedder) -> np.ndarray:
    rows = []
    for words, spans in zip(SENTENCES, SPANS, strict=True):
        if spans:
            vectors = representations(embedder, words)
            rows += [vectors[:, start:end].mean(axis=1) for start, end in spans]
    return np.stack(rows, axis=1)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("block_tokens", [1, 6, 10_000])
def test_the_vectors_are_the_means_of_the_models_own_in_order(monkeypatch, layer_norm, block_tokens):
    monkeypatch.setattr(layer_vectors, "BLOCK_TOKENS", block_tokens)
    embedder = toy_embedder(mixer_layer_norm=layer_norm)
    blocks = list(span_blocks(embedder, SENTENCES, SPANS))
    assert [block.sentences.start for block in blocks[1:]] == [block.sentences.stop for block in blocks[:-1]]
    assert [block.spans.start for block in blocks[1:]] == [block.spans.stop for block in blocks[:-1]]
    assert (blocks[-1].sentences.stop, blocks[-1].spans.stop) == (5, 6)
    vectors = np.concatenate([block.vectors for block in blocks], axis=1)
    np.testing.assert_allclose(vectors, expected(embedder), atol=1e-5)


def test_the_representations_are_the_layers_and_the_mix():
    assert representation_names(toy_embedder(num_hidden_layers=2)) == ["layer 0", "layer 1", "layer 2", "mix"]


def test_progress_counts_every_sentence_and_token_once(monkeypatch):
    monkeypatch.setattr(layer_vectors, "BLOCK_TOKENS", 6)
    told = []
    list(span_blocks(toy_embedder(), SENTENCES, SPANS, progress=lambda *done: told.append(done)))
    assert told[-1] == (5, sum(len(words) + 2 for words in SENTENCES))


def test_blocks_that_are_stored_are_not_computed_again(monkeypatch, tmp_path):
    monkeypatch.setattr(layer_vectors, "BLOCK_TOKENS", 6)
    embedder = toy_embedder()
    with WorkFolder(tmp_path / "work", {"analysis": "test"}) as work:
        before = span_blocks(embedder, SENTENCES, SPANS, work=work)
        first = next(before)  # then it is stopped
        before.close()
    embed, computed = layer_vectors._embed, []

    def count(*arguments):
        computed.append(arguments)
        return embed(*arguments)

    monkeypatch.setattr(layer_vectors, "_embed", count)
    with WorkFolder(tmp_path / "work", {"analysis": "test"}) as work:
        after = list(span_blocks(embedder, SENTENCES, SPANS, work=work))
    assert len(computed) == len(after) - 1
    np.testing.assert_array_equal(after[0].vectors, first.vectors)
    vectors = np.concatenate([block.vectors for block in after], axis=1)
    np.testing.assert_allclose(vectors, expected(embedder), atol=1e-5)


def test_vectors_that_are_not_finite_are_refused():
    embedder = toy_embedder()
    embedder.model.layers[0].bias.data.fill_(float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        list(span_blocks(embedder, SENTENCES, SPANS))


def test_an_encoder_without_a_mixer_has_its_layers_alone():
    embedder = toy_embedder()
    wanted = expected(embedder)[:-1]
    embedder.model.mixer = None
    assert representation_names(embedder) == ["layer 0", "layer 1", "layer 2"]
    (block,) = span_blocks(embedder, SENTENCES, SPANS)
    np.testing.assert_allclose(block.vectors, wanted, atol=1e-5)
