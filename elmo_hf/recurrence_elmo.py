# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The recurrent layers: LSTMs with projection and clipping, both directions stepped together, without padding."""

import itertools
import math
from dataclasses import dataclass

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_elmo import ElmoConfig
from .precision_elmo import product_dtype

# The input products run over as many time steps as give gates of this size: near the cache, and small enough for the
# allocator to hand the same memory out again.
GATE_BYTES_PER_CHUNK = 16 * 2**20


@dataclass
class ElmoPacking:
    """
    How the words of a batch are laid out for the recurrence: time step by time step, the longest sequence first, so
    that step `t` holds exactly the sequences longer than `t`, and padding is nowhere.

    A sequence is a row of the batch, or one segment of it. Below, "words" are the unmasked positions in row order.

    Attributes:
        places (`torch.LongTensor` of shape `(directions, words)`): Where a word lies in each direction's layout.
        words (`torch.LongTensor` of shape `(directions, words)`): Which word lies there; the inverse of `places`.
        step_sizes (`list[int]`): Sequences at each time step; never growing.
        rows (`torch.LongTensor` of shape `(sequences,)`): The batch row of each sequence, the longest first.
    """

    places: torch.Tensor
    words: torch.Tensor
    step_sizes: list[int]
    rows: torch.Tensor

    @classmethod
    def of(cls, mask: torch.Tensor, segments: torch.Tensor | None, directions: list[int]) -> "ElmoPacking":
        """
        Args:
            mask: `(batch, words)`, true for words.
            segments: `(batch, words)`; where the number changes along a row, a new sequence starts.
            directions: 0 (left to right) and 1 (right to left), in the order wanted.
        """
        row = mask.nonzero()[:, 0]  # the batch row of every word
        starts = torch.ones_like(row, dtype=torch.bool)
        starts[1:] = row[1:] != row[:-1]
        if segments is not None:
            segment = segments[mask]
            starts[1:] |= segment[1:] != segment[:-1]
        sequence = starts.cumsum(0) - 1
        first = starts.nonzero().squeeze(-1)
        lengths = torch.bincount(sequence, minlength=len(first))
        order = lengths.argsort(descending=True, stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device)

        longest = int(lengths.max()) if len(lengths) else 0
        # How many sequences are longer than t, for every t.
        step_sizes = len(lengths) - torch.bincount(lengths, minlength=longest + 1).cumsum(0)[:longest]
        step_starts = step_sizes.cumsum(0) - step_sizes

        position = torch.arange(len(row), device=row.device) - first[sequence]
        steps = torch.stack([lengths[sequence] - 1 - position if d else position for d in directions])
        places = step_starts[steps] + rank[sequence] if longest else steps
        return cls(places, places.argsort(dim=1), step_sizes.tolist(), row[first][order])

    def pack(self, vectors: torch.Tensor) -> torch.Tensor:
        """`(words, size)` → `(directions, words, size)`, each direction in its own reading order."""
        return vectors[self.words]

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """`(directions, words, size)` → `(words, directions * size)`: the directions side by side."""
        places = self.places.to(packed.device)
        return torch.cat([layer[place] for layer, place in zip(packed, places, strict=True)], dim=-1)


class ElmoRecurrentLayer(GradientCheckpointingLayer):
    """
    One LSTM layer in one or both directions, as in the original (Sak et al. 2014, https://arxiv.org/abs/1402.1128):
    gates i, j, f, o; the recurrence runs on the projected output; cell and output are clipped by value.

    Weights are stored `(directions, inputs, outputs)`, the layout in which small per-step products are fastest on a
    CPU. Each direction reads only its own lower layer.
    """

    def __init__(self, config: ElmoConfig, layer_index: int):
        super().__init__()
        directions, cells, size = config.num_directions, config.cell_size, config.output_size
        self.cell_size = cells
        self.cell_clip = config.cell_clip
        self.projection_clip = config.projection_clip
        self.forget_bias = config.forget_bias
        self.residual = config.skip_connections and layer_index > 0
        self.dropout = nn.Dropout(config.dropout)
        self.input_weight = nn.Parameter(torch.empty(directions, size, 4 * cells))
        self.recurrent_weight = nn.Parameter(torch.empty(directions, size, 4 * cells))
        self.bias = nn.Parameter(torch.empty(directions, 4 * cells))
        self.projection_weight = None
        if config.projection_size is not None:
            self.projection_weight = nn.Parameter(torch.empty(directions, cells, size))

    def forward(
        self,
        inputs: torch.Tensor,
        hidden: torch.Tensor,
        cell: torch.Tensor,
        step_sizes: list[int],
        directions: list[int],
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Args:
            inputs: `(directions, words, size)`, packed as [`ElmoPacking`] says.
            hidden: `(directions, sequences, size)`, the state before the first word.
            cell: `(directions, sequences, cell_size)`
            step_sizes: Sequences at each time step.
            directions: Which of the layer's directions run, as indices into its weights.

        Returns:
            The outputs, `(directions, words, size)`, and both states after each sequence's last word.
        """
        weights = self._weights(directions)
        dtype = weights["input"].dtype
        inputs = self.dropout(inputs.to(dtype))  # the skip connection carries the dropped input, as in the original
        hidden, cell = hidden.to(dtype), cell.to(dtype)

        outputs, last_hidden, last_cell = [], [], []
        start = 0
        for sizes in self._chunks(step_sizes, len(directions), dtype):
            stop = start + sum(sizes)
            gates = torch.baddbmm(weights["bias"], inputs[:, start:stop], weights["input"])
            for size, step_gates in zip(sizes, gates.split(sizes, dim=1), strict=True):
                if size < hidden.shape[1]:  # the shortest sequences have ended
                    last_hidden.append(hidden[:, size:])
                    last_cell.append(cell[:, size:])
                    hidden, cell = hidden[:, :size], cell[:, :size]
                hidden, cell = self._step(step_gates, hidden, cell, weights)
                outputs.append(hidden)
            start = stop

        output = torch.cat(outputs, dim=1)
        if self.residual:
            output = output + inputs
        last_hidden.append(hidden)
        last_cell.append(cell)
        return output, torch.cat(last_hidden[::-1], dim=1), torch.cat(last_cell[::-1], dim=1)

    def _weights(self, directions: list[int]) -> dict[str, torch.Tensor]:
        """The weights of the given directions in the precision of the products, the forget bias added."""
        dtype = product_dtype(self.input_weight)
        chosen = slice(directions[0], directions[-1] + 1)
        forget = torch.zeros_like(self.bias, dtype=dtype)
        forget[:, 2 * self.cell_size : 3 * self.cell_size] = self.forget_bias
        weights = {
            "input": self.input_weight[chosen].to(dtype),
            "recurrent": self.recurrent_weight[chosen].to(dtype),
            "bias": (self.bias.to(dtype) + forget)[chosen].unsqueeze(1),
        }
        if self.projection_weight is not None:
            weights["projection"] = self.projection_weight[chosen].to(dtype)
        return weights

    def _chunks(self, step_sizes: list[int], num_directions: int, dtype: torch.dtype):
        """Groups consecutive time steps whose gates fit into `GATE_BYTES_PER_CHUNK` (one step at least)."""
        words = GATE_BYTES_PER_CHUNK // (num_directions * 4 * self.cell_size * dtype.itemsize)
        chunk_of_step = [total // max(words, 1) for total in itertools.accumulate(step_sizes)]
        for _, steps in itertools.groupby(zip(chunk_of_step, step_sizes, strict=True), key=lambda step: step[0]):
            yield [size for _, size in steps]

    def _step(self, gates: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, weights: dict[str, torch.Tensor]):
        """
        One time step; `gates` `(directions, sequences, 4 * cell_size)` holds the input's part.

        Returns:
            The new output `(directions, sequences, size)` and cell `(directions, sequences, cell_size)`.
        """
        gates = torch.baddbmm(gates, hidden, weights["recurrent"])
        input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
        cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        if self.cell_clip is not None:
            cell = cell.clamp(-self.cell_clip, self.cell_clip)
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
        if "projection" in weights:
            hidden = torch.bmm(hidden, weights["projection"])
            if self.projection_clip is not None:
                hidden = hidden.clamp(-self.projection_clip, self.projection_clip)
        return hidden, cell

    def glorot_bounds(self) -> dict[str, float]:
        """Bound of the uniform initialisation of every weight matrix: the original's, TensorFlow's default."""
        size, outputs = self.input_weight.shape[1:]
        kernel = math.sqrt(6 / (2 * size + outputs))  # input and recurrent weights are one matrix there
        bounds = {"input_weight": kernel, "recurrent_weight": kernel}
        if self.projection_weight is not None:
            bounds["projection_weight"] = math.sqrt(6 / sum(self.projection_weight.shape[1:]))
        return bounds


__all__ = ["ElmoPacking", "ElmoRecurrentLayer"]
