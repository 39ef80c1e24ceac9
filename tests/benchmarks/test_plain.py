"""The plain version that training is measured against has the same loss, states and gradients."""

from functools import partial

import pytest
import torch

from benchmarks.plain import pretraining_loss, run_model
from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoStates

SIZES = {
    "char_filters": [[1, 4], [2, 4], [3, 8]],
    "cell_size": 12,
    "projection_size": 6,
    "num_highway_layers": 1,
    "dropout": 0.0,
}
SOFTMAXES = {
    "full": {"softmax_type": "full"},
    "sampled": {"softmax_type": "sampled", "softmax_samples": 20},
    "adaptive": {"softmax_type": "adaptive", "softmax_cutoffs": [10, 40]},
}


def window(streams: int = 3, words: int = 5) -> dict[str, torch.Tensor]:
    """Random streams, one of them set back in the middle."""
    shape = streams, words
    inputs = {f"{side}char_ids": torch.randint(1, 262, (*shape, 50)) for side in ("", "backward_")}
    inputs |= {f"{side}labels": torch.randint(0, 100, shape) for side in ("", "backward_")}
    inputs["state_resets"] = torch.zeros(shape, dtype=torch.bool)
    inputs["state_resets"][1, 2] = True
    return inputs


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of all parameters, by name."""
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_a_step_of_pretraining(softmax):
    torch.manual_seed(0)
    model = ElmoForPreTraining(ElmoConfig(vocab_size=100, **SIZES, **SOFTMAXES[softmax])).train()
    inputs = window()
    state = ElmoStates(torch.randn(3, 2, 2, 6), torch.randn(3, 2, 2, 12))
    torch.manual_seed(1)  # the same samples
    output = model(**inputs, initial_state=state)
    ours = gradients(model, output.loss)
    torch.manual_seed(1)
    loss, states = pretraining_loss(model, inputs, state)
    plain = gradients(model, loss)
    torch.testing.assert_close((loss, *states), (output.loss, *output.states), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(plain, ours, atol=1e-5, rtol=1e-5)


def test_the_layers_that_a_head_reads():
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**SIZES), add_mixer=False).train()
    char_ids = torch.randint(1, 262, (3, 5, 50))
    char_ids[1, 3:] = 0
    mask = (char_ids > 0).any(dim=-1)
    factors = torch.randn(3, 5, 12)
    both = []
    for run in (model, partial(run_model, model)):
        layers = run(None, char_ids, mask, output_hidden_states=True).hidden_states
        both.append((layers, gradients(model, sum((layer * factors).sum() for layer in layers))))
    torch.testing.assert_close(*both, atol=1e-5, rtol=1e-5)
