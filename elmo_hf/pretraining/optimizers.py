"""The optimisers of pretraining."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ..modeling.lstm_elmo import ElmoRecurrentLayer

NUM_GATES = 4
NEWTON_SCHULZ_STEPS = 5


class MuonWithAdamW(torch.optim.Optimizer):
    """
    Muon (Jordan et al. 2024) for the matrices of the LSTMs, AdamW for everything else.

    Muon works on matrices. Each direction is a separate matrix, and so is each gate of the input and recurrent weights:
    `torch.optim.Muon` gets views of these weights. Its step is scaled to the size of AdamW's (`match_rms_adamw`), so
    that one learning rate serves both.

    Args:
        model: The model whose trainable parameters are optimised.
        lr: The learning rate of both optimisers.
        weight_decay: The weight decay of matrices; biases have none.
        betas: The betas of AdamW.
    """

    def __init__(self, model: nn.Module, lr: float, weight_decay: float, betas: tuple[float, float]):
        self._views = [
            (weight, index, nn.Parameter(weight.detach()[index]))
            for weight, index in _lstm_matrices(model)
            if weight.requires_grad
        ]
        taken = {id(weight) for weight, _, _ in self._views}
        self.muon = torch.optim.Muon(
            [view for _, _, view in self._views],
            lr=lr,
            weight_decay=weight_decay,
            ns_steps=NEWTON_SCHULZ_STEPS,
            adjust_lr_fn="match_rms_adamw",
        )
        others = [(name, weight) for name, weight in model.named_parameters() if id(weight) not in taken]
        self.adamw = torch.optim.AdamW(decay_groups(others), lr=lr, betas=betas, weight_decay=weight_decay, fused=True)
        self._weights = list({id(weight): weight for weight, _, _ in self._views}.values())
        super().__init__([*self._weights, *(weight for _, weight in others if weight.requires_grad)], {"lr": lr})
        # The trainer sets the learning rate of every group, so these must be the groups of the two optimisers.
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """One step of both optimisers."""
        self._follow_weights()
        for weight, index, view in self._views:
            view.grad = None if weight.grad is None else weight.grad[index]
        self.muon.step()
        self.adamw.step()

    def zero_grad(self, set_to_none: bool = True):
        """Clears the gradients of all parameters."""
        self.adamw.zero_grad(set_to_none)
        for weight in self._weights:
            weight.grad = None
        for _, _, view in self._views:
            view.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The states of both optimisers."""
        return {"muon": self.muon.state_dict(), "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]):
        """Restores the states of both optimisers."""
        self._follow_weights()  # the states go to the device of the views
        self.muon.load_state_dict(state_dict["muon"])
        self.adamw.load_state_dict(state_dict["adamw"])
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]

    def _follow_weights(self):
        """Makes the views views of the weights again: a model that moves to another device gets new memory."""
        for weight, index, view in self._views:
            view.data = weight.detach()[index]


def decay_groups(parameters: list[tuple[str, nn.Parameter]]) -> list[dict[str, Any]]:
    """Two groups of the trainable parameters: matrices, and parameters without weight decay."""
    matrices, others = [], []
    for name, parameter in parameters:
        if parameter.requires_grad:  # an LSTM's bias has a row for each direction
            (others if parameter.ndim < 2 or name.endswith("bias") else matrices).append(parameter)
    return [{"params": matrices}, {"params": others, "weight_decay": 0.0}]


def _lstm_matrices(model: nn.Module) -> Iterator[tuple[nn.Parameter, tuple]]:
    """Yields every LSTM weight with the index of each of its matrices."""
    for layer in model.modules():
        if not isinstance(layer, ElmoRecurrentLayer):
            continue
        cells = layer.cell_size
        for direction in range(len(layer.bias)):
            for weight in (layer.input_weight, layer.recurrent_weight):
                for gate in range(NUM_GATES):
                    yield weight, (direction, slice(None), slice(gate * cells, (gate + 1) * cells))
            if layer.projection_weight is not None:
                yield layer.projection_weight, (direction,)


__all__ = ["MuonWithAdamW", "decay_groups"]
