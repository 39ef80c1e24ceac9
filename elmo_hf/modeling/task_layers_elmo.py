# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
The layers that a head puts on top of ELMo: a BiLSTM, and attention within a sentence or between two.

All of them take sentences `(sentences, words, size)` and a mask `(sentences, words)` that is true for the words, which
are the first positions of each row.
"""

from typing import Any

import torch
from torch import nn
from transformers import initialization as init

from .products_elmo import autocast_dtype, linear, matmul, product_dtype, without_autocast


class ElmoTaskLinear(nn.Linear):
    """A linear layer whose product runs in the precision of [`product_dtype`]."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(…, in_features)` → `(…, out_features)`"""
        return linear(input, self.weight, self.bias)


class ElmoTaskLSTMLayer(nn.LSTM):
    """
    One LSTM layer in one direction, from a state of zeros, whose products run in the precision of [`product_dtype`].

    It reads its parameters in `forward`: the list that [`nn.LSTM`] makes of them in advance does not follow weights
    that are offloaded and loaded again for each call.
    """

    def __init__(self, input_size: int, size: int):
        super().__init__(input_size, size, batch_first=True)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, size)`"""
        weights: list[Any] = [self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0]
        if autocast_dtype(inputs.device) is None:
            dtype = product_dtype(weights[0].dtype, inputs.device)
            inputs, weights = inputs.to(dtype), [weight.to(dtype) for weight in weights]
            with without_autocast(inputs.device):
                return self._run(inputs, weights)
        return self._run(inputs, weights)

    def _run(self, inputs: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        state = inputs.new_zeros(1, len(inputs), self.hidden_size)
        has_biases, num_layers, dropout, bidirectional, batch_first = True, 1, 0.0, False, True
        return torch.lstm(
            inputs, (state, state), weights, has_biases, num_layers, dropout, self.training, bidirectional, batch_first
        )[0]


class ElmoTaskLSTM(nn.Module):
    """
    A bidirectional LSTM over sentences of different lengths.

    Each direction is a layer of its own, and the backward one reads each sentence reversed. Padding then comes last in
    both directions and changes nothing, and torch runs its fused kernels for full batches instead of the loop over
    packed sequences.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of each direction's output.
        num_layers (`int`): Stacked layers.
        dropout (`float`): Dropout between the layers, in training only.
    """

    def __init__(self, input_size: int, size: int, num_layers: int = 1, dropout: float = 0.0):
        super().__init__()
        sizes = [input_size] + [2 * size] * (num_layers - 1)
        self.size, self.output_size = size, 2 * size
        self.forward_layers = nn.ModuleList(ElmoTaskLSTMLayer(layer_input, size) for layer_input in sizes)
        self.backward_layers = nn.ModuleList(ElmoTaskLSTMLayer(layer_input, size) for layer_input in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, 2 * size)`, zero where masked."""
        if not words.numel():
            return words.new_zeros(*mask.shape, 2 * self.size)
        order = _reversed_order(mask)
        for index, (forward, backward) in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            if index:
                words = self.dropout(words)
            reversed_output = backward(_reorder(words, order))  # (sentences, words, size)
            words = torch.cat(
                [forward(words), _reorder(reversed_output, order)], dim=-1
            )  # (sentences, words, 2 * size)
        return words.masked_fill(~mask.unsqueeze(-1), 0)


class ElmoHighwayLSTMLayer(nn.Module):
    """
    One LSTM layer in one direction with highway connections (Zhang et al. 2016; He et al. 2017): a gate chooses between
    the output of the cell and a projection of the input, before the output goes to the next word.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of the output.
        dropout (`float`): Dropout on the state that goes from word to word, in training only. One mask per sentence
            (Gal & Ghahramani 2016).
    """

    def __init__(self, input_size: int, size: int, dropout: float = 0.0):
        super().__init__()
        self.size, self.dropout = size, nn.Dropout(dropout)
        # Rows: input gate, forget gate, cell, output gate, highway gate; for the input also the projection.
        self.input_weight = nn.Parameter(torch.empty(6 * size, input_size))
        self.recurrent_weight = nn.Parameter(torch.empty(5 * size, size))
        self.bias = nn.Parameter(torch.empty(5 * size))

    @torch.no_grad()
    def initialize(self):
        """Orthogonal weights per gate, zero biases except 1 for the forget gate."""
        for weight in (self.input_weight, self.recurrent_weight):
            for gate in weight.split(self.size):
                init.orthogonal_(gate)
        init.zeros_(self.bias)
        init.ones_(self.bias[self.size : 2 * self.size])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, size)`"""
        projected = linear(inputs, self.input_weight)  # (sentences, words, 6 * size)
        from_input, carried = projected.split([5 * self.size, self.size], dim=-1)
        from_input = from_input + self.bias
        state = cell = projected.new_zeros(len(inputs), self.size)
        kept = self.dropout(torch.ones_like(state))
        outputs = []
        for step in range(inputs.shape[1]):
            gates = from_input[:, step] + linear(state * kept, self.recurrent_weight)  # (sentences, 5 * size)
            entering, staying, new, leaving, highway = gates.chunk(5, dim=-1)
            cell = entering.sigmoid() * new.tanh() + staying.sigmoid() * cell
            highway = highway.sigmoid()
            state = highway * leaving.sigmoid() * cell.tanh() + (1 - highway) * carried[:, step]
            outputs.append(state)
        return torch.stack(outputs, dim=1)


class ElmoAlternatingLSTM(nn.Module):
    """
    A deep LSTM over sentences of different lengths whose layers read forward and backward by turns, with highway
    connections (He et al. 2017).

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of each layer's output.
        num_layers (`int`): Stacked layers; the first reads forward.
        dropout (`float`): Dropout on the recurrent state of each layer, in training only.
    """

    def __init__(self, input_size: int, size: int, num_layers: int = 1, dropout: float = 0.0):
        super().__init__()
        self.output_size = size
        sizes = [input_size] + [size] * (num_layers - 1)
        self.layers = nn.ModuleList(ElmoHighwayLSTMLayer(layer_input, size, dropout) for layer_input in sizes)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, size)`, zero where masked."""
        if not words.numel():
            return words.new_zeros(*mask.shape, self.output_size)
        order = _reversed_order(mask)
        for index, layer in enumerate(self.layers):
            words = _reorder(layer(_reorder(words, order)), order) if index % 2 else layer(words)
        return words.masked_fill(~mask.unsqueeze(-1), 0)


def _reversed_order(mask: torch.Tensor) -> torch.Tensor:
    """The places `(sentences, words)` that reverse the words of each sentence and leave the padding where it is."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(dim=1, keepdim=True) - 1 - places, places)


def _reorder(words: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """`(sentences, words, size)` with the words of each sentence in the `order` `(sentences, words)`."""
    return words.gather(1, order.unsqueeze(-1).expand(-1, -1, words.shape[-1]))


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The softmax over the last axis where the mask is true; zeros where it is false."""
    probabilities = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min).softmax(dim=-1)
    return (probabilities * mask).to(scores.dtype)


def attend(words: torch.Tensor, others: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """
    Dot-product attention without scaling.

    Args:
        words: `(sentences, words, size)`, the queries.
        others: `(sentences, others, size)`, keys and values.
        mask: `(sentences, others)`; the output is zero for sentences where it is false everywhere.

    Returns:
        `(sentences, words, size)`
    """
    weights = masked_softmax(matmul(words, others.mT), mask.unsqueeze(1))  # (sentences, words, others)
    return matmul(weights, others)


class ElmoBiattention(nn.Module):
    """
    The self-attention of the paper's sentiment model, the biattentive network of McCann et al. (2017), after its
    encoder: a BiLSTM reads each word and what it attends to.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of each direction's output.
    """

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.integrate = ElmoTaskLSTM(3 * input_size, size)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, 2 * size)`"""
        attended = attend(words, words, mask)
        return self.integrate(torch.cat([words, words - attended, words * attended], dim=-1), mask)


class ElmoCrossAttention(nn.Module):
    """
    The attention between two sentences of ESIM (Chen et al. 2017): a BiLSTM reads each word and what it attends to in
    the other sentence.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of each direction's output.
    """

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.project = ElmoTaskLinear(4 * input_size, size)
        self.compose = ElmoTaskLSTM(size, size)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(2 * pairs, words, input_size)`, the two sentences of a pair adjacent → `(2 * pairs, words, 2 * size)`"""
        attended = attend(words, _swap_pairs(words), _swap_pairs(mask))
        enhanced = torch.cat([words, attended, words - attended, words * attended], dim=-1)
        return self.compose(torch.relu(self.project(enhanced)), mask)


def _swap_pairs(sentences: torch.Tensor) -> torch.Tensor:
    """`(2 * pairs, …)` with the two sentences of each pair swapped."""
    return sentences.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


__all__ = [
    "ElmoAlternatingLSTM",
    "ElmoBiattention",
    "ElmoCrossAttention",
    "ElmoHighwayLSTMLayer",
    "ElmoTaskLSTM",
    "ElmoTaskLSTMLayer",
    "ElmoTaskLinear",
    "attend",
    "masked_softmax",
]
