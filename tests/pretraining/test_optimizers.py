"""Muon for the matrices of the LSTMs, AdamW for everything else."""

import copy

import pytest
import torch

from elmo_hf.pretraining import PretrainingSettings

from .runs import tiny_language_model


def stepper_of(model, **changes):
    """Muon with a learning rate at which a step can be seen, and no weight decay."""
    settings = {"optimizer": "muon", "learning_rate": 0.1, "weight_decay": 0.0} | changes
    return PretrainingSettings(**settings).build_optimizer(model)


def give_gradients(model, seed=0):
    """Random ones for all parameters."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def test_each_gate_of_each_direction_takes_an_orthogonal_step():
    model = tiny_language_model(cell_size=8, projection_size=4)
    layer = model.elmo.layers[0]
    before = copy.deepcopy(layer.recurrent_weight.detach())
    stepper = stepper_of(model)
    give_gradients(model)
    stepper.step()
    change = (layer.recurrent_weight.detach() - before).unflatten(2, (4, 8))  # (directions, 4, gates, cells)
    for direction in change:
        for gate in direction.transpose(0, 1):
            singular = torch.linalg.svdvals(gate)
            # Newton-Schulz brings them near one size, not to it.
            assert singular.max() / singular.min() < 2.5


@pytest.mark.parametrize("moved", [False, True])
def test_all_parameters_change_and_all_gradients_are_cleared(moved):
    model = tiny_language_model()
    before = copy.deepcopy(model.state_dict())
    stepper = stepper_of(model)
    if moved:  # as Accelerate does after the optimiser is made
        model._apply(torch.clone)
    give_gradients(model)
    stepper.step()
    assert [name for name, value in model.state_dict().items() if torch.equal(value, before[name])] == []
    stepper.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_weight_decay_leaves_biases_alone():
    model = tiny_language_model()
    stepper = stepper_of(model, weight_decay=0.5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    stepper.step()
    for name, parameter in model.named_parameters():
        assert bool((parameter == 1.0).all()) == name.endswith("bias"), name


def test_a_frozen_layer_stays_as_it_is():
    model = tiny_language_model()
    model.elmo.layers[0].requires_grad_(False)
    before = copy.deepcopy(model.elmo.layers[0].state_dict())
    stepper = stepper_of(model, weight_decay=0.5)
    give_gradients(model)
    stepper.step()
    assert all(torch.equal(value, before[name]) for name, value in model.elmo.layers[0].state_dict().items())


@pytest.mark.parametrize("steps", [0, 3])
def test_a_restored_state_takes_the_same_next_step(steps):
    model = tiny_language_model()
    stepper = stepper_of(model)
    for seed in range(steps):
        give_gradients(model, seed)
        stepper.step()
    other = copy.deepcopy(model)
    other_stepper = stepper_of(other, learning_rate=0.5)
    other_stepper.load_state_dict(copy.deepcopy(stepper.state_dict()))
    for each, its_stepper in ((model, stepper), (other, other_stepper)):
        for group in its_stepper.param_groups:
            group["lr"] = 0.01
        give_gradients(each, seed=99)
        its_stepper.step()
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items())
