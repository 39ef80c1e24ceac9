# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The recurrent layers: LSTMs with projection and clipping, both directions stepped together, without padding."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_elmo import ElmoConfig
from .lstm_elmo import LSTMClips, LSTMWeights, lstm, state_keeps
from .lstm_inference_elmo import ALL, FewRowsMatrices, LSTMPart, ManyRowsMatrices, run_lstm
from .memory_elmo import aligned
from .precision_elmo import packed_dtype, product_dtype, without_autocast
from .products_elmo import (
    DenseMatrix,
    GateMatrix,
    Matrix,
    PackedMatrix,
    PackedWeight,
    SmallMatrix,
    needs_gradient,
)
from .quantization_elmo import NO_TRAINING, ElmoInt8Weight, quantize_weight

# Numbers in a direction's recurrent matrix from which on a layer is a large one: its products wait for their weights.
# The directions run one after the other then, and bf16 pays.
MIN_PACKED_SIZE = 2**20
# Sequences from which on a time step is faster with one product for all of its gates: with small weights, and with
# large ones, on average over all steps.
MANY_ROWS, MANY_ROWS_IF_LARGE = 20, 32
WEIGHTS = ("input_weight", "recurrent_weight", "projection_weight")


@dataclass
class ElmoPacking:
    """
    How the words of a batch are laid out for the recurrence: time step by time step, the longest sequence first, so
    that step `t` holds exactly the sequences longer than `t`, and padding is nowhere.

    A sequence is a row of the batch, or one segment of it. Below, "words" are the unmasked positions in row order.

    Attributes:
        places (`torch.LongTensor` of shape `(words, directions)`): Where a word lies in the layouts of the directions,
            the second behind the first.
        words (`torch.LongTensor` of shape `(directions, words)`): Which word lies where in each layout.
        step_sizes (`list[int]`): Sequences at each time step; never growing.
        rows (`torch.LongTensor` of shape `(sequences,)`): The batch row of each sequence, the longest first.
    """

    places: torch.Tensor
    words: torch.Tensor
    step_sizes: list[int]
    rows: torch.Tensor

    @staticmethod
    @torch.compiler.disable  # it depends on the values of the mask
    def of(mask: torch.Tensor, segments: torch.Tensor | None, directions: list[int]) -> "ElmoPacking":
        """
        Args:
            mask: `(batch, words)`, true for words.
            segments: `(batch, words)`; where the number changes along a row, a new sequence starts.
            directions: 0 (left to right) and 1 (right to left), in the order wanted.
        """
        # In NumPy: for a few numbers a call of PyTorch's costs several times as much.
        seen = mask.cpu().numpy()
        if len(seen) == 1 and segments is None:
            return ElmoPacking._of_one(int(seen.sum()), directions, mask.device)
        row = seen.nonzero()[0]  # the batch row of every word
        starts = np.ones(len(row), dtype=bool)
        starts[1:] = row[1:] != row[:-1]
        if segments is not None:
            segment = segments.cpu().numpy()[seen]
            starts[1:] |= segment[1:] != segment[:-1]
        sequence = starts.cumsum() - 1
        first = starts.nonzero()[0]
        lengths = np.append(first[1:], len(row)) - first
        order = (-lengths).argsort(kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))

        longest = int(lengths.max(initial=0))
        # How many sequences are longer than t, for every t.
        step_sizes = len(lengths) - np.bincount(lengths, minlength=longest + 1).cumsum()[:longest]
        step_starts = step_sizes.cumsum() - step_sizes

        position = np.arange(len(row)) - first[sequence]
        places = np.empty((len(row), len(directions)), dtype=np.int64)
        words = np.empty((len(directions), len(row)), dtype=np.int64)
        for number, direction in enumerate(directions):
            steps = lengths[sequence] - 1 - position if direction else position
            place = step_starts[steps] + rank[sequence]
            words[number, place] = np.arange(len(row))
            places[:, number] = place + number * len(row)
        on_device = [torch.from_numpy(some).to(mask.device) for some in (places, words, row[first][order])]
        return ElmoPacking(*on_device[:2], step_sizes.tolist(), on_device[2])

    @staticmethod
    def _of_one(number: int, directions: list[int], device: torch.device) -> "ElmoPacking":
        """That of a single sequence of so many words: each direction is their order, or its reverse."""
        words, order = np.empty((len(directions), number), dtype=np.int64), np.arange(number)
        for of_direction, direction in zip(words, directions, strict=True):
            of_direction[:] = order[::-1] if direction else order
        places = (words + number * np.arange(len(directions))[:, None]).T
        on_device = [torch.from_numpy(some).to(device) for some in (places, words)]
        return ElmoPacking(*on_device, [1] * number, torch.zeros(min(number, 1), dtype=torch.long, device=device))

    def pack(self, vectors: torch.Tensor) -> torch.Tensor:
        """
        `(words, size)`, or one such matrix per direction, → `(directions, words, size)`, each direction in its own
        reading order.
        """
        if vectors.ndim == 2:
            return vectors.index_select(0, self.words.flatten()).view(*self.words.shape, vectors.shape[1])
        return torch.stack([layer.index_select(0, words) for layer, words in zip(vectors, self.words, strict=True)])

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """`(directions, words, size)` → `(words, directions * size)`: the directions side by side."""
        places = self.places.to(packed.device)
        return packed.flatten(0, 1).index_select(0, places.flatten()).view(*places.shape, packed.shape[2]).flatten(1)


def is_large(weight: torch.Tensor) -> bool:
    """Whether a layer with this recurrent weight, `(directions, size, 4 * cells)`, is a large one."""
    return math.prod(weight.shape[1:]) >= MIN_PACKED_SIZE


def many_steps(step_sizes: list[int], weight_size: int) -> int:
    """
    How many of the first time steps have many sequences. Large weights are not kept in two layouts for a single call:
    either all steps have many, on average, or none.

    Args:
        step_sizes: Sequences at each time step, never growing.
        weight_size: Numbers in a direction's recurrent matrix.
    """
    if weight_size < MIN_PACKED_SIZE:
        return sum(size >= MANY_ROWS for size in step_sizes)
    return len(step_sizes) if sum(step_sizes) >= MANY_ROWS_IF_LARGE * len(step_sizes) else 0


def _of(matrix: Any, directions: slice) -> Any:
    return matrix if directions == ALL else matrix[directions]


def _pack_small_projection(weight: torch.Tensor) -> Matrix:
    return DenseMatrix(aligned(weight))


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
        # Packed one after the other, they need less memory meanwhile.
        self.packed_input, self.packed_recurrent, self.packed_projection = (PackedWeight() for _ in range(3))
        self.packed_gates = PackedWeight()  # for many sequences at once
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
        resets: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Args:
            inputs: `(directions, words, size)`, packed as [`ElmoPacking`] says.
            hidden: `(directions, sequences, size)`, the state before the first word.
            cell: `(directions, sequences, cell_size)`
            step_sizes: Sequences at each time step.
            directions: Which of the layer's directions run, as indices into its weights.
            resets: `(words,)`, packed, true where the state is set back to zeros before the word.

        Returns:
            The outputs, `(directions, words, size)`, and both states after each sequence's last word.
        """
        dtype = torch.float32 if self.is_quantized else product_dtype(self.input_weight)
        state_dtype = torch.promote_types(dtype, torch.float32)
        inputs = inputs.to(state_dtype)
        if self.dropout.training:
            inputs = self.dropout(inputs)  # the skip connection carries the dropped input: the original's
        hidden, cell = hidden.to(state_dtype), cell.to(state_dtype)
        chosen = ALL if len(directions) == len(self.bias) else slice(directions[0], directions[-1] + 1)
        clips = LSTMClips(self.cell_clip, self.projection_clip)
        if self.is_quantized:
            if self.training or needs_gradient(inputs, hidden, cell):
                raise ValueError(NO_TRAINING)
            learns = False
        else:
            learns = needs_gradient(inputs, hidden, cell, self.bias, *(getattr(self, name) for name in WEIGHTS))
        if learns:
            parts = None
            self._forget_packed()  # the weights will be others soon
        else:
            parts = self._parts(inputs, dtype, chosen, step_sizes)
        with without_autocast(inputs.device):
            if parts is None:
                output, hidden, cell = lstm(
                    inputs, hidden, cell, self._weights(chosen), clips, step_sizes, dtype, resets
                )
            else:
                keeps = state_keeps(resets, step_sizes, state_dtype)
                with torch.no_grad():
                    output, hidden, cell = run_lstm(
                        inputs, hidden, cell, parts, self._bias(chosen), clips, step_sizes, keeps
                    )
        return output + inputs if self.residual else output, hidden, cell

    def _parts(self, inputs: torch.Tensor, dtype: torch.dtype, chosen: slice, step_sizes: list[int]) -> list[LSTMPart]:
        """What the time steps run with, without a gradient."""
        many = 0 if self.is_quantized else many_steps(step_sizes, math.prod(self.recurrent_weight.shape[1:]))
        matrices = self._many_rows_matrices(inputs, chosen) if many else None
        parts = [] if matrices is None else [LSTMPart(many, matrices)]
        if left := len(step_sizes) - sum(part.steps for part in parts):
            parts.append(LSTMPart(left, self._few_rows_matrices(inputs, dtype, chosen)))
        return parts

    def _few_rows_matrices(self, inputs: torch.Tensor, dtype: torch.dtype, chosen: slice) -> FewRowsMatrices:
        """The weights of the chosen directions, packed where they can be."""
        if self.is_quantized:
            int8: list[ElmoInt8Weight | None] = [getattr(self, name) for name in WEIGHTS]
            matrices = (None if weight is None else weight.matrix(chosen) for weight in int8)
            return FewRowsMatrices(*matrices, is_stretched=False)  # ty: ignore[invalid-argument-type]
        weights, projection = (self.input_weight, self.recurrent_weight), self._projection(inputs, chosen, dtype)
        if not any(map(self._passes, weights)):
            pack = PackedMatrix.of_gates if is_large(self.recurrent_weight) else SmallMatrix
            input = self._packed(self.packed_input, inputs, PackedMatrix.of_gates, self.input_weight)
            recurrent = self._packed(self.packed_recurrent, inputs, pack, self.recurrent_weight)
            if input is not None and recurrent is not None:
                return FewRowsMatrices(_of(input, chosen), _of(recurrent, chosen), projection, is_stretched=True)
        gates = (DenseMatrix(weight[chosen].to(dtype)) for weight in weights)
        return FewRowsMatrices(*gates, projection, is_stretched=False)

    def _many_rows_matrices(self, inputs: torch.Tensor, chosen: slice) -> ManyRowsMatrices | None:
        """The same for many sequences at once; `None` where they cannot be packed in fp32."""
        if self._packed_dtype != torch.float32:
            return None
        gates = self._packed(self.packed_gates, inputs, GateMatrix, self.input_weight, self.recurrent_weight)
        if gates is None:
            return None
        return ManyRowsMatrices(gates[chosen], self._projection(inputs, chosen, torch.float32))

    def _projection(self, inputs: torch.Tensor, chosen: slice, dtype: torch.dtype) -> DenseMatrix | PackedMatrix | None:
        weight = self.projection_weight
        if weight is None:
            return None
        pack = PackedMatrix if is_large(self.recurrent_weight) else _pack_small_projection
        packed = self._packed(self.packed_projection, inputs, pack, weight)
        return DenseMatrix(weight[chosen].to(dtype)) if packed is None else _of(packed, chosen)

    def _packed(self, packed: PackedWeight, inputs: torch.Tensor, pack: Callable[..., Any], *weights) -> Any:
        """What `pack` makes of the weights; `None` where nothing may be kept."""
        return None if any(map(self._passes, weights)) else packed.get(inputs, self._packed_dtype, pack, *weights)

    @property
    def _packed_dtype(self) -> torch.dtype:
        """Small layers are multiplied in fp32 everywhere: they wait for no weights."""
        return packed_dtype(self.recurrent_weight) if is_large(self.recurrent_weight) else torch.float32

    def _passes(self, weight: nn.Parameter) -> bool:
        """Whether it will be another soon: in training, which gradient checkpointing runs without gradients first."""
        return self.training and weight.requires_grad

    def _forget_packed(self):
        for packed in (self.packed_input, self.packed_recurrent, self.packed_gates, self.packed_projection):
            packed.clear()

    def _weights(self, chosen: slice) -> LSTMWeights:
        """The weights of the given directions, the forget bias added."""
        projection = self.projection_weight
        return LSTMWeights(
            self.input_weight[chosen],
            self.recurrent_weight[chosen],
            self._bias(chosen),
            None if projection is None else projection[chosen],
        )

    def _bias(self, chosen: slice) -> torch.Tensor:
        """`(directions, 1, 4 * cells)`, the forget bias added."""
        bias = self.bias[chosen].clone()
        bias[:, 2 * self.cell_size : 3 * self.cell_size].add_(self.forget_bias)
        return bias.unsqueeze(1)

    @property
    def is_quantized(self) -> bool:
        """Whether the weights of the products are int8."""
        return isinstance(self.input_weight, ElmoInt8Weight)

    def quantize(self):
        """Turns the weights of the products into int8, in place."""
        # What the cells give out has a few large numbers among many small ones.
        for name in WEIGHTS:
            if isinstance(weight := getattr(self, name), nn.Parameter):
                quantize_weight(self, name, weight.mT, fine=name == "projection_weight")
        self._forget_packed()

    def glorot_bounds(self) -> dict[str, float]:
        """Bound of the uniform initialisation of every weight matrix: the original's, TensorFlow's default."""
        if self.is_quantized:
            return {}
        size, outputs = self.input_weight.shape[1:]
        kernel = math.sqrt(6 / (2 * size + outputs))  # input and recurrent weights are one matrix there
        bounds = {"input_weight": kernel, "recurrent_weight": kernel}
        if self.projection_weight is not None:
            bounds["projection_weight"] = math.sqrt(6 / sum(self.projection_weight.shape[1:]))
        return bounds


__all__ = ["ElmoPacking", "ElmoRecurrentLayer", "is_large", "many_steps"]
