"""Every model computes the same values on all engines, and the same gradients by hand and by autograd."""

import pytest
import torch
from torch.testing import assert_close

from tests.modeling.test_offloading import MODELS, batch_for, new_model, outputs_of

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_plain_engine(name, engine, monkeypatch):
    outputs = outputs_of(new_model(name), name)
    monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
    assert_close(outputs, outputs_of(new_model(name), name), **CLOSE)


# The samples of a sampled softmax are drawn in training: another seed gives another loss.
@pytest.mark.parametrize("name", [name for name in MODELS if "labels" in batch_for(name) or name == "questions"])
def test_gradients_are_those_of_the_plain_engine(name, monkeypatch):
    by_hand = gradients(name)
    assert any(parameter.startswith("elmo.layers.") for parameter in by_hand)
    monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
    assert_close(by_hand, gradients(name), **CLOSE)


def gradients(name: str) -> dict[str, torch.Tensor]:
    model = new_model(name, freeze_bilm=False).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    torch.manual_seed(1)
    model(**batch_for(name)).loss.backward()
    return {key: weight.grad for key, weight in model.named_parameters() if weight.grad is not None}
