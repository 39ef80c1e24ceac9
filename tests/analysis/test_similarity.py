"""The measures of Ethayarajh (2019), pair by pair."""

from itertools import combinations

import numpy as np
import pytest

from elmo_hf.analysis import layer_vectors
from elmo_hf.analysis.similarity import layer_similarity
from elmo_hf.errors import TextError
from tests.analysis.toy import cosine, representations, toy_embedder

WORDS = ["the", "bank", "river", "a", ".", "Zürich"]
SENTENCES = [[WORDS[(3 * n + n * n * k) % 6] for k in range(1 + n % 5)] for n in range(14)]


def mean_cosine(pairs) -> float:
    return float(np.mean([cosine(one, other) for one, other in pairs]))


@pytest.mark.parametrize("block_tokens", [20, 10_000])
def test_every_measure_is_the_mean_over_its_pairs(monkeypatch, block_tokens):
    monkeypatch.setattr(layer_vectors, "BLOCK_TOKENS", block_tokens)
    embedder = toy_embedder(scale=2.0)
    similarity = layer_similarity(embedder, [*SENTENCES, *SENTENCES[:3], []])
    distinct = list(dict.fromkeys(map(tuple, SENTENCES)))
    vectors = [representations(embedder, words) for words in distinct]  # (4, words, size) each
    joined = np.concatenate(vectors, axis=1)
    assert (similarity.sentences, similarity.words) == (len(distinct), joined.shape[1])
    measured = [word for word in WORDS if sum(word in words for words in distinct) >= 5]
    assert similarity.measured_words == len(measured) >= 2
    for layer in range(4):
        assert similarity.norms[layer] == pytest.approx(np.linalg.norm(joined[layer], axis=1).mean(), abs=1e-5)
        for other in range(4):
            pairs = zip(joined[layer], joined[other], strict=True)
            assert similarity.between[layer, other] == pytest.approx(mean_cosine(pairs), abs=1e-5)
        assert similarity.anisotropy[layer] == pytest.approx(mean_cosine(combinations(joined[layer], 2)), abs=1e-5)
        own = []
        for word in measured:
            uses = [v[layer, words.index(word)] for words, v in zip(distinct, vectors, strict=True) if word in words]
            own.append(mean_cosine(combinations(uses, 2)))
        assert similarity.self_similarity[layer] == pytest.approx(np.mean(own), abs=1e-5)
        intra = [mean_cosine((v[layer].mean(axis=0), vector) for vector in v[layer]) for v in vectors if v.shape[1] > 1]
        assert similarity.intra_sentence[layer] == pytest.approx(np.mean(intra), abs=1e-5)
    np.testing.assert_allclose(similarity.adjusted_self_similarity, similarity.self_similarity - similarity.anisotropy)
    np.testing.assert_allclose(similarity.adjusted_intra_sentence, similarity.intra_sentence - similarity.anisotropy)
    assert similarity.self_similarity[0] == pytest.approx(1, abs=1e-5)  # layer 0 does not see the context


def test_a_text_without_frequent_words_has_no_self_similarity():
    similarity = layer_similarity(toy_embedder(), [["the", "bank"], ["a"]])
    assert np.isnan(similarity.self_similarity).all()
    assert np.isfinite(similarity.intra_sentence).all()
    assert similarity.table().splitlines()[3].split()[1:] == ["-"] * 4
    assert np.isnan(layer_similarity(toy_embedder(), [["the"], ["a"]]).intra_sentence).all()


def test_a_text_of_one_word_is_refused():
    with pytest.raises(TextError, match="two or more words"):
        layer_similarity(toy_embedder(), [["the"], ["the"], []])
