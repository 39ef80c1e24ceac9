# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
[`lstm`] with its gradient by hand, for training.

Autograd would store about twenty tensors per time step of [`lstm`]. This `autograd.Function` stores seven, and computes
the gradients of the weights with one product over many steps. The element-wise parts, [`cell_step`] and
[`cell_step_backward`], have no side effects, so that `torch.compile` can turn each into one pass over memory.
"""

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from .lstm_cpu_elmo import GATE_BYTES_PER_CHUNK, resets_per_step, step_chunks
from .products_elmo import ROWS_PER_BLOCK, PackedMatrix, has_onednn, without_autocast

if TYPE_CHECKING:
    from .lstm_elmo import LSTMWeights

# The number of values in a direction's recurrent matrix from which oneDNN's products, one direction at a time, are
# faster than PyTorch's product for both; and the number of words from which this holds for the weights' gradients.
MIN_ONEDNN_SIZE, MIN_ONEDNN_WORDS = 2**20, 768
# The size of a chunk's gates in the backward pass of such layers.
GATE_BYTES_PER_LARGE_CHUNK = 84 * 2**20

# The gradient of a function's argument from the gradient of its value, and the value.
sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward

# Rows `(directions, rows, inputs)` times a weight, plus a total `(directions, rows, outputs)` if one is given.
Product = Callable[..., torch.Tensor]


def lstm_autograd(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: "LSTMWeights",
    batch_sizes: list[int],
    resets: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As [`lstm`]."""
    input, recurrent, bias, projection, *clips = weights
    # The state before each step is multiplied with this, `(sequences, 1)`: 0 where it is reset. `None`: no reset.
    carry_masks = [
        None if reset is None else (~reset).to(hidden.dtype).unsqueeze(1)
        for reset in resets_per_step(resets, batch_sizes)
    ]
    settings = _Settings(*clips, batch_sizes, carry_masks)
    return _LSTM.apply(inputs, hidden, cell.contiguous(), input, recurrent, bias, projection, settings)


class _Settings(NamedTuple):
    """The arguments of both passes that have no gradients."""

    cell_clip: float | None
    projection_clip: float | None
    batch_sizes: list[int]
    carry_masks: list[torch.Tensor | None]


class _Weights(NamedTuple):
    """The weights of [`LSTMWeights`], or their gradients; the bias is `(directions, 1, 4 * cells)`."""

    input: torch.Tensor
    recurrent: torch.Tensor
    bias: torch.Tensor
    projection: torch.Tensor | None

    def of(self, directions: slice) -> "_Weights":
        """The weights of some directions, as views."""
        return _Weights(*(None if weight is None else weight[directions] for weight in self))  # ty: ignore[invalid-argument-type]

    def direction_groups(self) -> list[slice]:
        """The directions whose products run in one call."""
        if not _suits_onednn(self.recurrent):
            return [slice(None)]
        return [slice(direction, direction + 1) for direction in range(len(self.input))]


class _Step(NamedTuple):
    """The tensors of a time step that the backward pass needs; all but the first `(directions, sequences, cells)`."""

    previous_hidden: torch.Tensor  # (directions, sequences, size)
    previous_cell: torch.Tensor
    input_gate: torch.Tensor
    candidate: torch.Tensor
    forget_gate: torch.Tensor
    output_gate: torch.Tensor
    cell: torch.Tensor


# ---- products


def _suits_onednn(weight: torch.Tensor) -> bool:
    """Whether oneDNN's products with a weight `(directions, inputs, outputs)` are faster than PyTorch's."""
    is_large = weight[0].numel() >= MIN_ONEDNN_SIZE
    return is_large and weight.dtype == torch.float32 and weight.device.type == "cpu" and has_onednn()


def _product(weight: torch.Tensor, use_onednn: bool) -> Product:
    """The product with a weight `(directions, inputs, outputs)`."""
    if not use_onednn:

        def product(rows: torch.Tensor, total: torch.Tensor | None = None) -> torch.Tensor:
            return torch.bmm(rows, weight) if total is None else torch.baddbmm(total, rows, weight)

        return product
    matrices = [PackedMatrix(matrix, reorder=False) for matrix in weight]

    def onednn_product(rows: torch.Tensor, total: torch.Tensor | None = None) -> torch.Tensor:
        products = torch.stack([matrix(some) for matrix, some in zip(matrices, rows, strict=True)])
        return products if total is None else products.add_(total)

    return onednn_product


# ---- forward pass


def _forward(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: _Weights,
    settings: _Settings,
    steps: list[_Step],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As [`lstm`]; appends to `steps` what the backward pass needs."""
    use_onednn = _suits_onednn(weights.recurrent)
    input_product, recurrent_product = (_product(weight, use_onednn) for weight in (weights.input, weights.recurrent))
    projection = None if weights.projection is None else _product(weights.projection, use_onednn)
    dtype, outputs, ended = weights.input.dtype, [], []
    carry_masks, start = iter(settings.carry_masks), 0
    for sizes in step_chunks(settings.batch_sizes, weights.bias.nbytes):
        stop = start + sum(sizes)
        chunk = input_product(inputs[:, start:stop], weights.bias)
        for gates in chunk.split(sizes, dim=1):
            sequences = gates.shape[1]
            if sequences < hidden.shape[1]:  # the shortest sequences have ended
                ended.append((hidden[:, sequences:], cell[:, sequences:]))
                hidden, cell = hidden[:, :sequences], cell[:, :sequences]
            if (carry := next(carry_masks)) is not None:
                hidden, cell = hidden * carry, cell * carry
            gates = recurrent_product(hidden.to(dtype), gates)
            *activated, new_cell, unprojected = cell_step(gates, cell, settings.cell_clip)
            steps.append(_Step(hidden, cell, *activated, new_cell))
            hidden, cell = unprojected.to(cell.dtype), new_cell
            if projection is not None:
                hidden = projection(unprojected).to(cell.dtype)
                if settings.projection_clip is not None:
                    hidden = hidden.clamp_(-settings.projection_clip, settings.projection_clip)
            outputs.append(hidden)
        start = stop
    ended.append((hidden, cell))
    last_hidden, last_cell = (torch.cat(states[::-1], dim=1) for states in zip(*ended, strict=True))
    return torch.cat(outputs, dim=1), last_hidden, last_cell


def cell_step(gates: torch.Tensor, cell: torch.Tensor, clip: float | None) -> tuple[torch.Tensor, ...]:
    """
    One time step of the cells, element by element.

    Args:
        gates: `(directions, sequences, 4 * cells)`, before activation.
        cell: `(directions, sequences, cells)`

    Returns:
        The activated gates i, j, f, o, the new cell and the output of the cells, `(directions, sequences, cells)` each;
        all but the cell in the dtype of `gates`.
    """
    input_gate, candidate, forget_gate, output_gate = gates.to(cell.dtype).chunk(4, dim=-1)
    input_gate, candidate = torch.sigmoid(input_gate), _tanh(candidate)
    forget_gate, output_gate = torch.sigmoid(forget_gate), torch.sigmoid(output_gate)
    new_cell = forget_gate * cell + input_gate * candidate
    if clip is not None:
        new_cell = new_cell.clamp(-clip, clip)
    output = output_gate * _tanh(new_cell)
    activated = (gate.to(gates.dtype) for gate in (input_gate, candidate, forget_gate, output_gate))
    return *activated, new_cell, output.to(gates.dtype)


def _tanh(x: torch.Tensor) -> torch.Tensor:
    """Through a sigmoid: three times as fast on a CPU."""
    if torch.compiler.is_compiling():
        return 2 * torch.sigmoid(2 * x) - 1
    return torch.sigmoid(x + x).mul_(2).sub_(1) if x.device.type == "cpu" else torch.tanh(x)


# ---- backward pass


def cell_step_backward(
    d_output: torch.Tensor, d_cell: torch.Tensor, step: _Step, clip: float | None
) -> tuple[torch.Tensor, ...]:
    """
    The backward pass of [`cell_step`].

    Args:
        d_output: Gradient of the output of the cells, `(directions, sequences, cells)`.
        d_cell: Gradient of the new cell from the steps after this one.

    Returns:
        Gradients of the gates i, j, f, o before activation, and the output of the cells again, in the dtype of
        `d_output`; then the gradient of the previous cell. `(directions, sequences, cells)` each.
    """
    gates = (step.input_gate, step.candidate, step.forget_gate, step.output_gate)
    input_gate, candidate, forget_gate, output_gate = (gate.to(d_cell.dtype) for gate in gates)
    squashed = _tanh(step.cell)
    output = output_gate * squashed
    d_out = d_output.to(d_cell.dtype)
    d_new = d_cell + tanh_backward(d_out * output_gate, squashed)
    if clip is not None:
        d_new = torch.where(step.cell.abs() < clip, d_new, 0.0)
    d_gates = (
        sigmoid_backward(d_new * candidate, input_gate),
        tanh_backward(d_new * input_gate, candidate),
        sigmoid_backward(d_new * step.previous_cell, forget_gate),
        sigmoid_backward(d_out * squashed, output_gate),
    )
    return *(tensor.to(d_output.dtype) for tensor in (*d_gates, output)), d_new * forget_gate


class _LSTM(torch.autograd.Function):
    """[`lstm_autograd`]: backward through the steps of a chunk, then the weights' gradients for the whole chunk."""

    @staticmethod
    def forward(ctx, inputs, hidden, cell, input, recurrent, bias, projection, settings):
        weights = _Weights(input, recurrent, bias, projection)
        inputs = inputs.to(input.dtype)
        results, steps = [], []
        for group in weights.direction_groups():
            states = hidden[group], cell[group]
            results.append(_forward(inputs[group], *states, weights.of(group), settings, steps))
        outputs, last_hidden, last_cell = (torch.cat(parts) for parts in zip(*results, strict=True))
        ctx.settings = settings
        ctx.save_for_backward(inputs, outputs, *weights, *chain.from_iterable(steps))
        return outputs, last_hidden, last_cell

    @staticmethod
    @once_differentiable
    def backward(ctx, d_outputs, d_last_hidden, d_last_cell):
        inputs, outputs, *saved = ctx.saved_tensors
        weights, saved = _Weights(*saved[:4]), saved[4:]
        fields, num_steps = len(_Step._fields), len(ctx.settings.batch_sizes)
        steps = [_Step(*saved[first : first + fields]) for first in range(0, len(saved), fields)]

        d_weights = _Weights(
            *(None if weight is None else torch.zeros_like(weight, dtype=outputs.dtype) for weight in weights)  # ty: ignore[invalid-argument-type]
        )
        gradients = []
        with without_autocast(d_outputs.device):
            for index, group in enumerate(weights.direction_groups()):
                backward = _BackwardPass(weights.of(group), ctx.settings, d_last_hidden[group], d_last_cell[group])
                d_inputs = backward.run(
                    inputs[group],
                    outputs[group],
                    d_outputs[group],
                    steps[index * num_steps : (index + 1) * num_steps],
                    d_weights.of(group),
                )
                gradients.append((d_inputs, backward.d_hidden, backward.d_cell))
        return *(torch.cat(parts) for parts in zip(*gradients, strict=True)), *d_weights, None


class _BackwardPass:
    """
    Goes through the time steps from the last to the first.

    Attributes:
        d_hidden (`torch.Tensor` of shape `(directions, sequences, size)`): Gradient of the hidden state before the
            current step, of the sequences that are active there.
        d_cell (`torch.Tensor` of shape `(directions, sequences, cells)`): The same for the cell.
    """

    def __init__(self, weights: _Weights, settings: _Settings, d_last_hidden: torch.Tensor, d_last_cell: torch.Tensor):
        self.weights, self.settings = weights, settings
        self.carry_masks = list(settings.carry_masks)
        self.use_onednn = _suits_onednn(weights.recurrent)
        self.input_product = _product(weights.input.mT, self.use_onednn)
        self.recurrent_product = _product(weights.recurrent.mT, self.use_onednn)
        projection = weights.projection
        self.projection = None if projection is None else _product(projection.mT, self.use_onednn)
        self.d_last_hidden, self.d_last_cell = d_last_hidden, d_last_cell
        self.d_hidden, self.d_cell = d_last_hidden[:, :0], d_last_cell[:, :0]

    def run(
        self,
        inputs: torch.Tensor,
        outputs: torch.Tensor,
        d_outputs: torch.Tensor,
        steps: list[_Step],
        d_weights: _Weights,
    ) -> torch.Tensor:
        """
        All time steps, in chunks. The gradients of the weights are added to `d_weights`.

        Returns:
            The gradient of the inputs, `(directions, words, size)`.
        """
        d_inputs = []
        stop = inputs.shape[1]
        chunk_bytes = GATE_BYTES_PER_LARGE_CHUNK if self.use_onednn else GATE_BYTES_PER_CHUNK
        for sizes in reversed(list(step_chunks(self.settings.batch_sizes, self.weights.bias.nbytes, chunk_bytes))):
            start = stop - sum(sizes)
            chunk, steps = steps[-len(sizes) :], steps[: -len(sizes)]
            d_gates, unprojected, d_projected = self._chunk(chunk, outputs[:, start:stop], d_outputs[:, start:stop])
            _add_weight_gradients(d_weights, inputs[:, start:stop], chunk, d_gates, unprojected, d_projected)
            d_inputs.append(self.input_product(d_gates))
            stop = start
        return torch.cat(d_inputs[::-1], dim=1)

    def _chunk(
        self, steps: list[_Step], outputs: torch.Tensor, d_outputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Args:
            steps: Consecutive time steps, the first one first.
            outputs: Of these steps, `(directions, words, size)`.
            d_outputs: Their gradients.

        Returns:
            In the dtype of the products: the gradients of the gates before activation `(directions, words, 4 * cells)`,
            the outputs of the cells `(directions, words, cells)`, and the gradients of the layer's outputs before
            clipping `(directions, words, size)`.
        """
        weight, clip = self.weights.input, self.settings.projection_clip
        d_gates = weight.new_empty(*outputs.shape[:2], weight.shape[2])
        unprojected = weight.new_empty(*outputs.shape[:2], weight.shape[2] // 4)
        d_projected = weight.new_empty(outputs.shape)
        stop = outputs.shape[1]
        for step in reversed(steps):
            start = stop - step.cell.shape[1]
            self._add_ended_sequences(step.cell.shape[1])
            d_output = self.d_hidden + d_outputs[:, start:stop]
            if self.projection is not None and clip is not None:
                d_output.masked_fill_(outputs[:, start:stop].abs() >= clip, 0)
            d_output = d_output.to(weight.dtype)
            d_projected[:, start:stop] = d_output
            if self.projection is not None:
                d_output = self.projection(d_output)
            *d_step, output, self.d_cell = cell_step_backward(d_output, self.d_cell, step, self.settings.cell_clip)
            unprojected[:, start:stop] = output
            torch.cat(d_step, dim=-1, out=d_gates[:, start:stop])
            self.d_hidden = self.recurrent_product(d_gates[:, start:stop]).to(self.d_last_hidden.dtype)
            if (carry := self.carry_masks.pop()) is not None:
                self.d_hidden, self.d_cell = self.d_hidden * carry, self.d_cell * carry
            stop = start
        return d_gates, unprojected, d_projected

    def _add_ended_sequences(self, sequences: int):
        """Adds the sequences whose last step is the current one."""
        ending = slice(self.d_hidden.shape[1], sequences)
        if ending.start < sequences:
            self.d_hidden = torch.cat([self.d_hidden, self.d_last_hidden[:, ending]], dim=1)
            self.d_cell = torch.cat([self.d_cell, self.d_last_cell[:, ending]], dim=1)


def _add_weight_gradients(
    d_weights: _Weights,
    inputs: torch.Tensor,
    steps: list[_Step],
    d_gates: torch.Tensor,
    unprojected: torch.Tensor,
    d_projected: torch.Tensor,
):
    """Adds the gradients of the weights from consecutive time steps. All other arguments are those of these steps."""
    previous_hidden = torch.cat([step.previous_hidden.to(inputs.dtype) for step in steps], dim=1)
    _add_product(d_weights.input, inputs.mT, d_gates)
    _add_product(d_weights.recurrent, previous_hidden.mT, d_gates)
    ones = d_gates.new_ones(len(d_gates), 1, d_gates.shape[1])
    _add_product(d_weights.bias, ones, d_gates)  # as a product: a sum over bf16 is slow
    if d_weights.projection is not None:
        _add_product(d_weights.projection, unprojected.mT, d_projected)


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor):
    """`total += left @ right`. Allocates another tensor of the size of `total` only if that is faster."""
    if total.dtype != left.dtype:
        total.add_(torch.bmm(left, right))
        return
    outputs, words = left.shape[1:]
    if outputs > 1 and words >= MIN_ONEDNN_WORDS and _suits_onednn(total):
        words -= words % ROWS_PER_BLOCK  # oneDNN compiles and caches a kernel for each number of rows
        for direction, of_left, of_right in zip(total, left, right, strict=True):
            direction.add_(PackedMatrix(of_right[:words], reorder=False).product(of_left[:, :words].contiguous()))
        left, right = left[:, :, words:], right[:, words:]
    if left.shape[2]:
        total.baddbmm_(left, right)


__all__ = ["cell_step", "cell_step_backward", "lstm_autograd"]
