# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The ELMo mixer: one vector per word from the layers of the biLM (section 3.2 of the paper)."""

from collections.abc import Sequence

import torch
from torch import nn

from .configuration_elmo import check_mixer_weights


class ElmoMixer(nn.Module):
    r"""
    `gamma * sum_j softmax(w)_j * layer_j`, uniform at the start (`w = 0`, `gamma = 1`).

    Args:
        num_layers (`int`): Layers to mix, the token layer included.
        weights (`"learned"`, `"top"` or `list[float]`): Learned weights, the top layer alone, or fixed probabilities.
            `gamma` is there in every case.
        layer_norm (`bool`): The original's normalisation: one mean and one variance over all unmasked values of a
            layer, so that a vector depends on the whole batch.
        dropout (`float`): Applied to the mix, in training only.
    """

    epsilon = 1e-12  # of the original's layer norm

    def __init__(
        self,
        num_layers: int,
        weights: str | Sequence[float] = "learned",
        layer_norm: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_mixer_weights("weights", weights, num_layers)
        self.num_layers = num_layers
        self.layer_norm = layer_norm
        self.fixed_weights: list[float] | None = None
        if weights == "learned":
            # One tensor, not a list of scalars: those come out empty under data parallelism.
            self.weights = nn.Parameter(torch.zeros(num_layers))
        else:
            self.register_parameter("weights", None)
            self.fixed_weights = [0.0] * (num_layers - 1) + [1.0] if weights == "top" else [float(w) for w in weights]
        self.gamma = nn.Parameter(torch.ones(1))
        self.dropout = nn.Dropout(dropout)

    def layer_weights(self) -> torch.Tensor:
        """The share of each layer in the mix, shape `(num_layers,)`, summing to 1; token layer first."""
        if self.weights is not None:
            return self.weights.softmax(dim=0)
        return torch.tensor(self.fixed_weights, dtype=self.gamma.dtype, device=self.gamma.device)

    def l2(self) -> torch.Tensor:
        """The squared norm of the learned weights, to be added to a loss: it pulls the mix towards the mean."""
        return self.gamma.new_zeros(()) if self.weights is None else self.weights.square().sum()

    def forward(self, layers: Sequence[torch.Tensor], mask: torch.Tensor | None = None) -> torch.Tensor:
        """
        Args:
            layers: `num_layers` tensors of shape `(..., hidden_size)`.
            mask: `(...)`, true for words; the others come out as zeros. `None`: all are words.

        Returns:
            The mix, `(..., hidden_size)`.
        """
        if len(layers) != self.num_layers:
            raise ValueError(f"This mixer mixes {self.num_layers} layers, got {len(layers)}.")
        if self.layer_norm:
            layers = [self._normalize(layer, mask) for layer in layers]
        first, *weights = self.layer_weights().unbind()
        mix = first * layers[0]
        if torch.is_grad_enabled() or any(layer.dtype != self.gamma.dtype for layer in layers):
            for weight, layer in zip(weights, layers[1:], strict=True):
                mix = torch.addcmul(mix, weight, layer)
            mix = self.gamma * mix
        else:  # the same in one place
            for weight, layer in zip(weights, layers[1:], strict=True):
                mix.addcmul_(weight, layer)
            mix.mul_(self.gamma)
        if self.dropout.training:
            mix = self.dropout(mix)
        return mix if mask is None else mix * mask.unsqueeze(-1).to(mix.dtype)

    def _normalize(self, layer: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        values = layer if mask is None else layer[mask.bool()]
        if values.numel() == 0:
            return layer
        variance, mean = torch.var_mean(values.float(), correction=0)
        return (layer - mean) * torch.rsqrt(variance + self.epsilon)


__all__ = ["ElmoMixer"]
