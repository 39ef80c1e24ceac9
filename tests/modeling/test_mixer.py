"""ElmoMixer: the formula of the paper, and each way to choose the weights."""

import itertools

import numpy as np
import pytest
import torch

from elmo_hf import ElmoMixer

LAYERS = [torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])


def test_a_new_mixer_is_the_mean_of_the_layers():
    torch.testing.assert_close(ElmoMixer(3)(LAYERS), torch.stack(LAYERS).mean(dim=0))


def test_the_mix_is_gamma_times_the_softmax_weighted_sum():
    mixer = ElmoMixer(3)
    mixer.weights.data = torch.tensor([0.5, -1.0, 2.0])
    mixer.gamma.data.fill_(1.7)
    shares = np.exp([0.5, -1.0, 2.0]) / np.exp([0.5, -1.0, 2.0]).sum()
    expected = 1.7 * sum(share * layer.numpy() for share, layer in zip(shares, LAYERS, strict=True))
    np.testing.assert_allclose(mixer(LAYERS).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mixer.layer_weights().detach().numpy(), shares, rtol=1e-6)
    np.testing.assert_allclose(mixer.l2().item(), 0.25 + 1 + 4)


@pytest.mark.parametrize(("weights", "shares"), [("top", [0, 0, 1]), ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5])])
def test_fixed_weights_are_used_as_given_and_only_gamma_learns(weights, shares):
    mixer = ElmoMixer(3, weights)
    mixer.gamma.data.fill_(2.0)
    expected = 2 * sum(share * layer for share, layer in zip(shares, LAYERS, strict=True))
    torch.testing.assert_close(mixer(LAYERS), expected)
    assert [name for name, _ in mixer.named_parameters()] == ["gamma"]
    assert mixer.layer_weights().tolist() == pytest.approx(shares)
    assert mixer.l2() == 0


def test_layer_norm_is_the_originals_over_all_unmasked_values():
    """As AllenNLP computes it, written out."""
    mask = MASK.unsqueeze(-1).double().numpy()
    expected = 0
    for layer in LAYERS:
        values, count = layer.double().numpy() * mask, MASK.sum().item() * layer.shape[-1]
        mean = values.sum() / count
        variance = (((values - mean) * mask) ** 2).sum() / count
        expected = expected + (layer.double().numpy() - mean) / np.sqrt(variance + 1e-12) * mask / 3
    mixed = ElmoMixer(3, layer_norm=True)(LAYERS, MASK)
    np.testing.assert_allclose(mixed.detach().numpy(), expected, rtol=1e-5, atol=1e-5)


def test_layer_norm_per_word_does_not_see_other_words():
    mixer = ElmoMixer(3, layer_norm="word")
    single = torch.stack([mixer([layer[row : row + 1, :1] for layer in LAYERS])[0] for row in range(len(MASK))])
    np.testing.assert_allclose(mixer(LAYERS)[:, :1].detach(), single.detach(), rtol=1e-6, atol=1e-6)
    centred = [layer - layer.mean(dim=-1, keepdim=True) for layer in LAYERS]
    expected = sum(layer / layer.square().mean(dim=-1, keepdim=True).add(1e-5).sqrt() for layer in centred) / 3
    np.testing.assert_allclose(mixer(LAYERS).detach(), expected, rtol=1e-5, atol=1e-5)


def test_masked_words_come_out_zero_even_with_layer_norm():
    for layer_norm in (False, True, "word"):
        mixed = ElmoMixer(3, layer_norm=layer_norm)(LAYERS, MASK)
        assert mixed[MASK == 0].abs().sum() == 0
        assert (mixed[MASK == 1] != 0).all()


def test_dropout_falls_on_the_mix_in_training_only():
    mixer = ElmoMixer(3, dropout=0.5)
    torch.manual_seed(0)
    assert (mixer(LAYERS) == 0).any()
    assert (mixer.eval()(LAYERS) != 0).all()
    mixer.dropout.train()  # alone, as for a sample of what a model might say
    assert (mixer(LAYERS) == 0).any()


def test_all_weights_get_a_gradient():
    mixer = ElmoMixer(3)
    (mixer(LAYERS).square().sum() + mixer.l2()).backward()
    assert mixer.weights.grad.abs().min() > 0
    assert mixer.gamma.grad.abs() > 0


@pytest.mark.parametrize("weights", ["sum", [0.5, 0.5], [0.5, 0.6, -0.1], [1.0, 1.0, 1.0]])
def test_weights_that_are_no_mix_are_refused(weights):
    with pytest.raises(ValueError, match="`weights`"):
        ElmoMixer(3, weights)


def test_another_number_of_layers_is_refused():
    with pytest.raises(ValueError, match="mixes 3 layers, got 2"):
        ElmoMixer(3)(LAYERS[:2])


@pytest.mark.parametrize("dtypes", list(itertools.product([torch.float32, torch.bfloat16], repeat=2)), ids=str)
def test_a_mix_without_gradients_is_the_one_with_them_in_its_precision(dtypes):
    """Also where the token layer has another precision than those above, and than the mixer."""
    mixer = ElmoMixer(3)
    layers = [torch.randn(4, 8).to(dtype) for dtype in (*dtypes, torch.float32)]
    given = [layer.clone() for layer in layers]
    expected = mixer(layers).detach()
    with torch.no_grad():
        mixed = mixer(layers)
    assert mixed.dtype == expected.dtype
    assert torch.equal(mixed, expected)
    assert all(map(torch.equal, layers, given))
