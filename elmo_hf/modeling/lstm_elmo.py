# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
The recurrent layers of the biLM: LSTMs with projection and clipping (Sak et al. 2014, https://arxiv.org/abs/1402.1128).

[`ElmoPacking`] lays a batch out so that padding is never computed, [`lstm`] is the loop over time, and
[`ElmoRecurrentLayer`] holds the weights. [`lstm_autograd`] and [`lstm_cpu`] are faster functions with the signature and
the results of [`lstm`]; the environment variable `ELMO_HF_ENGINE=plain` switches them off.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .checks_elmo import check_shape
from .configuration_elmo import ElmoConfig
from .lstm_autograd_elmo import lstm_autograd
from .lstm_cpu_elmo import lstm_cpu
from .products_elmo import (
    PackedMatrix,
    PackedWeights,
    needs_gradient,
    packed_dtype,
    product_dtype,
    uses_plain_engine,
    without_autocast,
)
from .quantization_elmo import NO_TRAINING, ElmoInt8Weight, has_int8_products, quantize_weight

# The number of values in a direction's recurrent matrix from which a product is bound by memory bandwidth: packing and
# bf16 are then faster even for one sequence.
LARGE_MATRIX = 2**20
# Up to this many sequences, smaller layers are faster with one recurrent product for both directions, unpacked.
FEW_SEQUENCES = 2
WEIGHTS = ("input_weight", "recurrent_weight", "projection_weight")


class ElmoStates(NamedTuple):
    """
    The states of the recurrent layers, batch first.

    Attributes:
        hidden (`torch.Tensor` of shape `(batch, layers, directions, output_size)`): Last (projected) outputs.
        cell (`torch.Tensor` of shape `(batch, layers, directions, cell_size)`): Last cells.
    """

    hidden: torch.Tensor
    cell: torch.Tensor


@dataclass
class ElmoPacking:
    """
    The words of a batch in the order of the recurrence: time step by time step, the longest sequence first, so that
    step `t` holds exactly the sequences longer than `t` (as in `torch.nn.utils.rnn.PackedSequence`).

    A sequence is a row of the batch, or one segment of a row. "Words" are the unmasked positions of the batch.

    Attributes:
        order (`torch.LongTensor` of shape `(directions, words)`): The position in the flattened batch of each packed
            word, per direction.
        inverse (`torch.LongTensor` of shape `(batch * positions, directions)`): The index of each position's word among
            the packed words of all directions, those of the second after those of the first. Masked positions have the
            index after the last.
        batch_sizes (`list[int]`): Number of sequences at each time step; it never increases.
        rows (`torch.LongTensor` of shape `(sequences,)`): The batch row of each sequence, the longest first.
        shape (`tuple[int, int]`): `(batch, positions)`
    """

    order: torch.Tensor
    inverse: torch.Tensor
    batch_sizes: list[int]
    rows: torch.Tensor
    shape: tuple[int, int]

    @staticmethod
    @torch.compiler.disable  # depends on the values of the mask
    def of(mask: torch.Tensor, segments: torch.Tensor | None, reading_orders: list[int]) -> "ElmoPacking":
        """
        Args:
            mask: `(batch, positions)`, true for words.
            segments: `(batch, positions)`; where the value changes along a row, a new sequence starts.
            reading_orders: 0 (left to right) or 1 (right to left) for each direction.
        """
        # In NumPy: for arrays this small a call to PyTorch costs several times as much.
        is_word = mask.cpu().numpy()
        words = is_word.reshape(-1).nonzero()[0]  # positions in the flattened batch
        row = words // max(is_word.shape[1], 1)
        starts = np.ones(len(words), dtype=bool)  # whether a word starts a sequence
        starts[1:] = row[1:] != row[:-1]
        if segments is not None:
            segment = segments.cpu().numpy().reshape(-1)[words]
            starts[1:] |= segment[1:] != segment[:-1]
        sequence = starts.cumsum() - 1  # (words,)
        first = starts.nonzero()[0]  # (sequences,): the first word of each
        lengths = np.append(first[1:], len(words)) - first
        by_length = (-lengths).argsort(kind="stable")
        rank = np.empty_like(by_length)
        rank[by_length] = np.arange(len(by_length))

        longest = int(lengths.max(initial=0))
        batch_sizes = len(lengths) - np.bincount(lengths, minlength=longest + 1).cumsum()[:longest]
        step_starts = batch_sizes.cumsum() - batch_sizes

        offset = np.arange(len(words)) - first[sequence]  # (words,): of the word in its sequence
        order = np.empty((len(reading_orders), len(words)), dtype=np.int64)
        inverse = np.full((is_word.size, len(reading_orders)), order.size, dtype=np.int64)
        for direction, is_backward in enumerate(reading_orders):
            step = lengths[sequence] - 1 - offset if is_backward else offset
            packed = step_starts[step] + rank[sequence]  # (words,): the index of each word among the packed words
            order[direction, packed] = words
            inverse[words, direction] = packed + direction * len(words)
        tensors = [torch.from_numpy(array).to(mask.device) for array in (order, inverse, row[first][by_length])]
        return ElmoPacking(tensors[0], tensors[1], batch_sizes.tolist(), tensors[2], is_word.shape)

    def pack(self, vectors: torch.Tensor) -> torch.Tensor:
        """
        `(batch, positions, directions * size)` → `(directions, words, size)` in packed order.
        """
        directions = vectors.flatten(0, 1).unflatten(-1, (len(self.order), -1)).unbind(1)  # (batch * positions, size)
        return torch.stack([some.index_select(0, order) for some, order in zip(directions, self.order, strict=True)])

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """`(directions, words, size)` → `(batch, positions, directions * size)`, zeros where masked."""
        directions, words, size = packed.shape
        vectors = packed.flatten(0, 1)
        if words < math.prod(self.shape):
            vectors = torch.cat([vectors, vectors.new_zeros(1, size)])
        inverse = self.inverse.to(packed.device).flatten()
        return vectors.index_select(0, inverse).view(*self.shape, directions * size)

    def pack_states(self, states: ElmoStates) -> list[torch.Tensor]:
        """Hidden and cell of the packed sequences, `(layers, directions, sequences, size)` each."""
        return [state[self.rows].permute(1, 2, 0, 3) for state in states]

    def unpack_states(self, last_states: list[ElmoStates], before: ElmoStates) -> ElmoStates:
        """
        The states after each row's last word. The state of a row without words does not change.

        Args:
            last_states: One per recurrent layer, `(directions, sequences, size)`; empty if there are no words.
            before: The states before the first words.
        """
        if not last_states:
            return before
        with without_autocast(self.rows.device):
            new = [
                state.index_copy(0, self.rows, torch.stack([last.to(state) for last in of_layers]).permute(2, 0, 1, 3))
                for state, of_layers in zip(before, zip(*last_states, strict=True), strict=True)
            ]
        return ElmoStates(*new)

    def pack_resets(self, state_resets: torch.Tensor, reading_orders: list[int]) -> torch.Tensor:
        """`(batch, words)` → `(words,)` in packed order, true where the state is reset to zeros before the word."""
        check_shape("state_resets", state_resets, tuple(self.shape))
        if 1 in reading_orders:
            raise ValueError(
                "`state_resets` needs rows of its own for the backward direction: give `backward_char_ids`."
            )
        return state_resets.flatten()[self.order[0]] != 0


class LSTMWeights(NamedTuple):
    """
    The weights of a layer, of the directions that run. [`lstm_cpu`] gets lists of packed matrices, one per direction,
    except for the weights that [`ElmoRecurrentLayer._unpacked_names`] names.

    Attributes:
        input (`torch.Tensor` of shape `(directions, size, 4 * cells)`): Gates i, j, f, o; j is the candidate.
        recurrent (`torch.Tensor` of shape `(directions, size, 4 * cells)`)
        bias (`torch.Tensor` of shape `(directions, 1, 4 * cells)`): With the forget bias added.
        projection (`torch.Tensor` of shape `(directions, cells, size)`): `None` if there is no projection.
        cell_clip, projection_clip (`float`): Bounds of the cell and of the projected output; `None`: no bound.
    """

    input: Any
    recurrent: Any
    bias: torch.Tensor
    projection: Any
    cell_clip: float | None
    projection_clip: float | None

    def of(self, directions: slice) -> "LSTMWeights":
        """The weights of some directions."""
        return self._replace(
            input=self.input[directions],
            recurrent=self.recurrent[directions],
            bias=self.bias[directions],
            projection=None if self.projection is None else self.projection[directions],
        )


def lstm(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: LSTMWeights,
    batch_sizes: list[int],
    resets: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    The definition: one layer, all directions, on any device, differentiable.

    Args:
        inputs: `(directions, words, size)`, packed.
        hidden: `(directions, sequences, size)`, the state before the first word.
        cell: `(directions, sequences, cells)`
        weights: Products run in their dtype; states have their own dtype.
        batch_sizes: Number of sequences at each time step.
        resets: `(words,)`, packed; true where the state is reset to zeros before the word.

    Returns:
        The outputs `(directions, words, size)`, and both states after each sequence's last word.
    """
    dtype, state_dtype = weights.input.dtype, cell.dtype
    gates_of_inputs = torch.baddbmm(weights.bias, inputs.to(dtype), weights.input)  # (directions, words, 4 * cells)
    resets_of_steps = [None] * len(batch_sizes) if resets is None else resets.split(batch_sizes)
    outputs, ended = [], []
    for gates, reset in zip(gates_of_inputs.split(batch_sizes, dim=1), resets_of_steps, strict=True):
        sequences = gates.shape[1]
        if sequences < hidden.shape[1]:  # the shortest sequences have ended
            ended.append((hidden[:, sequences:], cell[:, sequences:]))
            hidden, cell = hidden[:, :sequences], cell[:, :sequences]
        if reset is not None:
            hidden, cell = hidden.masked_fill(reset[:, None], 0), cell.masked_fill(reset[:, None], 0)
        gates = torch.baddbmm(gates, hidden.to(dtype), weights.recurrent)  # (directions, sequences, 4 * cells)
        input_gate, candidate, forget_gate, output_gate = gates.to(state_dtype).chunk(4, dim=-1)
        cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        if weights.cell_clip is not None:
            cell = cell.clamp(-weights.cell_clip, weights.cell_clip)
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)  # (directions, sequences, cells)
        if weights.projection is not None:
            hidden = torch.bmm(hidden.to(dtype), weights.projection).to(state_dtype)  # (directions, sequences, size)
            if weights.projection_clip is not None:
                hidden = hidden.clamp(-weights.projection_clip, weights.projection_clip)
        outputs.append(hidden)
    ended.append((hidden, cell))
    last_hidden, last_cell = (torch.cat(states[::-1], dim=1) for states in zip(*ended, strict=True))
    return torch.cat(outputs, dim=1), last_hidden, last_cell


class ElmoRecurrentLayer(GradientCheckpointingLayer):
    """
    One LSTM layer in one or both directions. Each direction reads only its own lower layer.

    Weights are stored as `(directions, inputs, outputs)`, which is fastest for the small products of a time step on a
    CPU.
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
        self.packed = PackedWeights()
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
        batch_sizes: list[int],
        directions: list[int],
        resets: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Args:
            inputs: `(directions, words, size)`, packed by [`ElmoPacking`].
            hidden: `(directions, sequences, size)`, the state before the first word.
            cell: `(directions, sequences, cells)`
            batch_sizes: Number of sequences at each time step.
            directions: The layer's directions that run, as indices into its weights.
            resets: `(words,)`, packed; true where the state is reset to zeros before the word.

        Returns:
            The outputs `(directions, words, size)`, and both states after each sequence's last word.
        """
        device = inputs.device
        dtype = torch.float32 if self.is_quantized else product_dtype(self.bias.dtype, device)
        state_dtype = torch.promote_types(dtype, torch.float32)
        inputs = self.dropout(inputs.to(state_dtype))  # before the skip connection, as in the original
        hidden, cell = hidden.to(state_dtype), cell.to(state_dtype)
        learns = self._is_being_trained(inputs, hidden, cell)
        can_pack = not learns and self._can_pack(device)
        if not can_pack:
            self.packed.clear()  # the weights are about to change, or the copies are not used
        runs_packed = can_pack and self._suits_packing(batch_sizes[0])
        loop = lstm_cpu if runs_packed else lstm_autograd if learns and not uses_plain_engine() else lstm
        if runs_packed:
            weights = self._packed_weights(directions, device, batch_sizes[0])
        else:
            weights = self._weights(directions, dtype)
        with without_autocast(device):
            outputs, hidden, cell = loop(inputs, hidden, cell, weights, batch_sizes, resets)
        return outputs + inputs if self.residual else outputs, hidden, cell

    def _is_being_trained(self, *activations: torch.Tensor) -> bool:
        """
        Whether this call is part of training, which int8 weights refuse. (Gradient checkpointing first runs the layer
        without gradients.)
        """
        if self.is_quantized:
            if self.training or needs_gradient(*activations):
                raise ValueError(NO_TRAINING)
            return False
        parameters = list(self.parameters(recurse=False))
        learns = needs_gradient(*activations, *parameters)
        return learns or (self.training and any(parameter.requires_grad for parameter in parameters))

    def _can_pack(self, device: torch.device) -> bool:
        """Whether [`lstm_cpu`] can run, with packed copies of the weights."""
        if self.is_quantized:
            return has_int8_products(device)
        return self.packed.usable(self, *(weight for weight in self._weight_tensors() if weight is not None))

    def _suits_packing(self, sequences: int) -> bool:
        """Not few sequences through a small layer in half precision: each call would convert its unpacked weights."""
        is_converted = not self.is_quantized and self.bias.dtype != torch.float32
        return not is_converted or "recurrent_weight" not in self._unpacked_names(sequences)

    def _unpacked_names(self, sequences: int) -> tuple[str, ...]:
        """The weights that [`lstm_cpu`] gets as tensors: with few rows, one product for both directions is faster."""
        if self._is_large:
            return ()
        return ("recurrent_weight", "projection_weight") if sequences <= FEW_SEQUENCES else ("projection_weight",)

    @property
    def _is_large(self) -> bool:
        return math.prod(self.recurrent_weight.shape[1:]) >= LARGE_MATRIX

    def _weight_tensors(self) -> list[torch.Tensor | None]:
        """Input, recurrent and projection weights as floats, of all directions."""
        weights: list[Any] = [getattr(self, name) for name in WEIGHTS]
        return [weight.dequantize().mT if isinstance(weight, ElmoInt8Weight) else weight for weight in weights]

    def _weights(self, directions: Sequence[int], dtype: torch.dtype) -> LSTMWeights:
        """The weights of some directions for [`lstm`] and [`lstm_autograd`]."""
        chosen = slice(directions[0], directions[-1] + 1)
        tensors = (None if weight is None else weight[chosen].to(dtype) for weight in self._weight_tensors())
        input, recurrent, projection = tensors
        bias = self._bias(chosen).to(dtype)
        return LSTMWeights(input, recurrent, bias, projection, self.cell_clip, self.projection_clip)

    def _packed_weights(self, directions: Sequence[int], device: torch.device, sequences: int) -> LSTMWeights:
        """The weights of some directions for [`lstm_cpu`]: small layers in fp32, large ones in bf16 if asked for."""
        chosen = slice(directions[0], directions[-1] + 1)
        bias = self._bias(chosen).float()
        if self.is_quantized:
            int8: list[ElmoInt8Weight | None] = [getattr(self, name) for name in WEIGHTS]
            matrices = [None if weight is None else weight.matrices()[chosen] for weight in int8]
        else:
            dtype = packed_dtype(self.bias.dtype, device) if self._is_large else torch.float32
            matrices = []
            for name in WEIGHTS:
                weight = getattr(self, name)
                if weight is None:
                    matrices.append(None)
                elif name in self._unpacked_names(sequences):
                    matrices.append(weight[chosen].to(dtype))
                else:
                    matrices.append(self.packed.get(name, dtype, _pack_directions, weight)[chosen])
        input, recurrent, projection = matrices
        return LSTMWeights(input, recurrent, bias, projection, self.cell_clip, self.projection_clip)

    def _bias(self, directions: slice) -> torch.Tensor:
        """`(directions, 1, 4 * cells)`, with the forget bias added."""
        bias = self.bias[directions].clone()
        bias[:, 2 * self.cell_size : 3 * self.cell_size].add_(self.forget_bias)
        return bias.unsqueeze(1)

    @property
    def is_quantized(self) -> bool:
        """Whether the weights of the products are int8."""
        return isinstance(self.input_weight, ElmoInt8Weight)

    def quantize(self):
        """Turns the weights of the products into int8, in place."""
        for name in WEIGHTS:
            if isinstance(weight := getattr(self, name), nn.Parameter):
                # The inputs of the projection are the cells' outputs: a few are large, and most are small.
                quantize_weight(self, name, weight.mT, fine=name == "projection_weight")
        self.packed.clear()

    def initialize(self):
        """The original's initialisation, TensorFlow's default (Glorot, uniform); the biases are zeros."""
        if not self.is_quantized:
            size, outputs = self.input_weight.shape[1:]
            bound = math.sqrt(6 / (2 * size + outputs))  # the original has one matrix for both weights
            init.uniform_(self.input_weight, -bound, bound)
            init.uniform_(self.recurrent_weight, -bound, bound)
            if self.projection_weight is not None:
                bound = math.sqrt(6 / sum(self.projection_weight.shape[1:]))
                init.uniform_(self.projection_weight, -bound, bound)
        init.zeros_(self.bias)


def _pack_directions(weight: torch.Tensor) -> list[PackedMatrix]:
    """`(directions, inputs, outputs)` → one matrix per direction."""
    return [PackedMatrix(matrix) for matrix in weight]


__all__ = ["ElmoPacking", "ElmoRecurrentLayer", "ElmoStates", "LSTMWeights", "lstm"]
