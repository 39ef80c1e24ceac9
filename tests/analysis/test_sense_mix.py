"""The mix that is learned for senses: its loss against a slow computation, and that it leaves useless layers behind."""

import numpy as np
import pytest
import torch

from elmo_hf.analysis import sense_mix
from elmo_hf.analysis.sense_mix import MixExamples, choose_examples, learn_mix
from elmo_hf.modeling.modeling_elmo import ElmoMixer
from tests.analysis.toy import cosine

BOUNDS = np.array([0, 2, 5, 7])  # three words with 2, 3 and 2 senses
SIZE = 12


def examples_of(layers, count=90, seed=0):
    """Examples, and the sums of the vectors of each sense. `layers` makes the vectors of each layer from rows."""
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, BOUNDS[-1], count)
    words = np.searchsorted(BOUNDS, rows, side="right") - 1
    vectors = np.stack([layer(rows, words, generator) for layer in layers]).astype(np.float32)
    sums = np.zeros((len(layers), BOUNDS[-1], SIZE), dtype=np.float32)
    for example, row in enumerate(rows):
        sums[:, row] += vectors[:, example]
    return MixExamples(vectors, rows, BOUNDS[words], BOUNDS[words + 1]), torch.from_numpy(sums)


def noise(rows, words, generator):
    return 3 * generator.normal(size=(len(rows), SIZE))


def static(rows, words, generator):
    """One vector per word: nothing about the senses, as in layer 0."""
    return generator.normal(size=(len(BOUNDS), SIZE))[words]


def telling(rows, words, generator):
    """A vector per sense, with some noise."""
    return generator.normal(size=(BOUNDS[-1], SIZE))[rows] + 0.5 * generator.normal(size=(len(rows), SIZE))


def test_the_loss_is_that_of_the_slow_computation():
    examples, sums = examples_of([noise, static, telling])
    mixer = ElmoMixer(3).double()
    with torch.no_grad():
        mixer.weights.copy_(torch.tensor([0.3, -0.2, 0.9]))
        mixer.gamma.fill_(4.0)
    shares = mixer.layer_weights().detach().numpy()
    losses = []
    for place, row in enumerate(examples.rows):
        vector = examples.vectors[:, place].astype(np.float64)
        scores = []
        for sense in range(examples.first_rows[place], examples.end_rows[place]):
            mean = sums[:, sense].numpy().astype(np.float64) - (vector if sense == row else 0)
            scores.append(4.0 * cosine(shares @ mean, shares @ vector))
        right = scores[row - examples.first_rows[place]]
        losses.append(np.log(np.exp(scores).sum()) - right)
    loss = sense_mix._loss(mixer, sense_mix._products(examples, sums))
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize(
    "layers", [(static, noise, telling), (telling, noise, static), (noise, telling), (static, telling)]
)
def test_layers_without_senses_are_left_behind(layers):
    shares = dict(zip(layers, learn_mix(*examples_of(layers)).layer_weights().tolist(), strict=True))
    assert shares[telling] > 0.6
    assert shares.get(noise, 0) < 0.1
    assert shares.get(static, 0) < 0.3


def test_layers_with_different_halves_of_the_answer_are_mixed():
    def half(first):
        def layer(rows, words, generator):
            is_own = (words == 0) == first
            return np.where(is_own[:, None], telling(rows, words, generator), static(rows, words, generator))

        return layer

    shares = learn_mix(*examples_of([half(True), half(False)], count=200)).layer_weights()
    assert min(shares) > 0.1


def test_examples_occur_again_and_have_one_sense(monkeypatch):
    labels = np.array([0, 0, 1, 2, 2, 3, 3])
    places = np.array([0, 1, 2, 3, 4, 5, 5])  # the last two are one occurrence with two senses
    assert choose_examples(labels, np.arange(7), 0).tolist() == [0, 1, 3, 4, 5, 6]
    assert choose_examples(labels, places, 0).tolist() == [0, 1, 3, 4]
    assert choose_examples(np.empty(0, dtype=int), np.empty(0, dtype=int), 0).tolist() == []
    monkeypatch.setattr(sense_mix, "EXAMPLES", 3)
    chosen = [choose_examples(labels, places, seed).tolist() for seed in (0, 0, 1, 2, 3)]
    assert chosen[0] == chosen[1]
    assert len({tuple(one) for one in chosen}) > 1
    assert all(len(one) == 3 and one == sorted(one) for one in chosen)
