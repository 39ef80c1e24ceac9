"""Linear probes: what they are trained on, what they count, and that they learn what a layer holds."""

import math

import numpy as np
import pytest
import torch

from elmo_hf.analysis import layer_vectors, probing
from elmo_hf.analysis.probing import Probes, ProbeSettings, probe
from elmo_hf.errors import TextError
from elmo_hf.finetuning import TaggedSentence
from tests.analysis.toy import representations, toy_embedder
from tests.finetuning.toy import sentences

QUICK = ProbeSettings(epochs=1, least_steps=300, batch_size=32, learning_rate=0.02)


def test_probes_learn_what_is_in_the_words():
    results = probe(toy_embedder(), sentences(60, 0), sentences(20, 1), sentences(20, 2), settings=QUICK)
    assert results.representations == ["layer 0", "layer 1", "layer 2", "mix", "concatenation"]
    assert results.scores.keys() == {"dev", "test"}
    assert results.scores["test"].accuracy.shape == (1, 5)
    assert results.scores["test"].accuracy[0, -1] > 0.9
    assert results.tags == ["O", "B-PER", "I-PER"]


def test_the_baseline_is_the_most_frequent_tag_of_each_word_and_of_all_for_unknown_ones():
    train = [TaggedSentence(["a", "a", "a", "b"], ["X", "Y", "X", "Y"]), TaggedSentence(["c", "d"], ["Y", "Y"])]
    dev = [TaggedSentence(["a", "b", "new", "A"], ["X", "X", "Y", "X"])]
    scores = probe(toy_embedder(), train, dev, settings=QUICK).scores["dev"]
    assert (scores.words, scores.unknown_words) == (4, 2)
    assert scores.baseline == 0.5  # a X right, b Y wrong, new Y right, A Y wrong
    assert scores.unknown_baseline == 0.5


def test_without_unknown_words_their_accuracy_is_not_a_number():
    train = sentences(30, 0)
    results = probe(toy_embedder(), train, train[:10], settings=QUICK)
    scores = results.scores["dev"]
    assert scores.unknown_words == 0
    assert np.isnan(scores.unknown_accuracy).all()
    assert math.isnan(scores.unknown_baseline)
    assert results.table().splitlines()[1].split()[-1] == "-"


def test_each_classifier_sees_its_own_standardised_vectors():
    embedder = toy_embedder()
    words = ["the", "bank", "river"]
    vectors = torch.from_numpy(representations(embedder, words)).transpose(0, 1).half()  # (words, 4, size)
    probes = Probes(vectors, torch.tensor([0, 1, 1]), 3, 2, seed=0)
    outputs = probes(vectors)
    plain = vectors.double().numpy()
    scaled = (plain - plain.mean(axis=0)) / np.sqrt(np.maximum(plain.var(axis=0), 1e-10))
    inputs = [*(scaled[:, layer] for layer in range(4)), scaled[:, :3].reshape(3, -1)]
    for output, features, classifier in zip(outputs, inputs, probes.classifiers, strict=True):
        weight, bias = (value.detach().double().numpy() for value in (classifier.weight, classifier.bias))
        np.testing.assert_allclose(output.detach().numpy(), features @ weight.T + bias, atol=1e-3)


def test_the_weights_that_were_best_on_the_development_data_are_kept(monkeypatch):
    """Development tags that nothing predicts: the kept accuracy is the largest that was seen."""
    seen = []
    predict = Probes.predict
    monkeypatch.setattr(Probes, "predict", lambda self, vectors: seen.append(predict(self, vectors)) or seen[-1])
    train, dev = sentences(40, 0), sentences(20, 1)
    shuffled = np.random.default_rng(0).permutation([tag for some in dev for tag in some.tags]).tolist()
    dev = [TaggedSentence(some.words, [shuffled.pop() for _ in some.words]) for some in dev]
    results = probe(toy_embedder(), train, dev, settings=QUICK)
    numbers = torch.tensor([results.tags.index(tag) for some in dev for tag in some.tags])
    best = torch.stack([(values == numbers).double().mean(dim=1) for values in seen[:-1]]).max(dim=0).values
    np.testing.assert_allclose(results.scores["dev"].accuracy[0], best.numpy())


def test_seeds_repeat_and_differ():
    def run(*seeds):
        results = probe(toy_embedder(), sentences(30, 0), sentences(30, 1), seeds=seeds, settings=QUICK)
        return results.scores["dev"].accuracy

    both = run(0, 1)
    np.testing.assert_array_equal(both[:1], run(0))
    assert (both[0] != both[1]).any()
    with pytest.raises(ValueError, match="one or more different numbers"):
        run(1, 1)


def test_finished_seeds_and_vectors_are_not_computed_again(tmp_path, monkeypatch):
    arguments = (toy_embedder(), sentences(30, 0), sentences(10, 1))
    first = probe(*arguments, settings=QUICK, work=tmp_path / "work")

    def refuse(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(layer_vectors, "_embed", refuse)
    both = probe(*arguments, seeds=[0, 1], settings=QUICK, work=tmp_path / "work")
    np.testing.assert_array_equal(both.scores["dev"].accuracy[0], first.scores["dev"].accuracy[0])
    monkeypatch.setattr(probing, "Probes", refuse)
    again = probe(*arguments, seeds=[0, 1], settings=QUICK, work=tmp_path / "work")
    assert again.table() == both.table()


def test_data_without_words_or_variety_are_refused():
    with pytest.raises(TextError, match="'dev' has no words"):
        probe(toy_embedder(), sentences(10, 0), [])
    with pytest.raises(TextError, match="every word has the tag 'O'"):
        probe(toy_embedder(), [TaggedSentence(["a"], ["O"])], sentences(10, 0))
    with pytest.raises(ValueError, match="`epochs` must be 1 or more, found 0"):
        ProbeSettings(epochs=0)
