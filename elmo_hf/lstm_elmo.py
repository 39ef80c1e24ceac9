# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
The LSTM over packed words, step by step, and its gradient by hand.

As one `autograd.Function` a layer keeps seven tensors a step instead of some twenty, and its weights' gradients are one
product over many steps each. What is no product is in two functions without side effects, [`cell_step`] and
[`cell_step_gradient`], which `torch.compile` can turn into one pass over memory each.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

from .products_elmo import ROWS_PER_BLOCK, DenseMatrix, Matrix, PackedMatrix, has_onednn

# The products that need no recurrence run over as many time steps as give gates of this size: near the cache, and small
# enough for the allocator to hand the same memory out again.
GATE_BYTES_PER_CHUNK = 16 * 2**20
# Elements of a direction's recurrent matrix from which on oneDNN's products, direction by direction, are faster than
# PyTorch's for both; and words from which on they are for the gradient of the weights.
MIN_ONEDNN_SIZE, MIN_ONEDNN_WORDS = 2**20, 768
# On the way back such layers go through as many time steps at once.
GATE_BYTES_PER_LARGE_CHUNK = 84 * 2**20

# From the gradient of a function's value, and the value, to the gradient of its argument.
sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class LSTMWeights(NamedTuple):
    """
    One layer's weights.

    Attributes:
        input (`torch.Tensor` of shape `(directions, size, 4 * cells)`): Gates i, j, f, o.
        recurrent (`torch.Tensor` of shape `(directions, size, 4 * cells)`)
        bias (`torch.Tensor` of shape `(directions, 1, 4 * cells)`): The forget bias is in it.
        projection (`torch.Tensor` of shape `(directions, cells, size)`): `None` where the output is the cells'.
    """

    input: torch.Tensor
    recurrent: torch.Tensor
    bias: torch.Tensor
    projection: torch.Tensor | None

    def to(self, dtype: torch.dtype) -> "LSTMWeights":
        """The same weights in another precision."""
        projection = None if self.projection is None else self.projection.to(dtype)
        return LSTMWeights(self.input.to(dtype), self.recurrent.to(dtype), self.bias.to(dtype), projection)

    def zeros(self, dtype: torch.dtype) -> "LSTMWeights":
        """Zeros of the same shapes."""
        return LSTMWeights(*(None if weight is None else torch.zeros_like(weight, dtype=dtype) for weight in self))  # ty: ignore[invalid-argument-type]

    def of(self, directions: slice) -> "LSTMWeights":
        """Those of some directions, in the same memory."""
        return LSTMWeights(*(None if weight is None else weight[directions] for weight in self))  # ty: ignore[invalid-argument-type]

    def groups(self) -> list[slice]:
        """Directions whose products run together."""
        apart = _suits_onednn(self.recurrent)
        return [slice(first, first + 1) for first in range(len(self.input))] if apart else [slice(None)]

    def matrices(self) -> "LSTMMatrices":
        """For the way forward."""
        return LSTMMatrices(*(None if weight is None else self._matrix(weight) for weight in self._products()))  # ty: ignore[invalid-argument-type]

    def transposed(self) -> "LSTMMatrices":
        """For the way back."""
        return LSTMMatrices(*(None if weight is None else self._matrix(weight.mT) for weight in self._products()))  # ty: ignore[invalid-argument-type]

    def _products(self) -> tuple[torch.Tensor | None, ...]:
        return self.input, self.recurrent, self.projection

    def _matrix(self, weight: torch.Tensor) -> Matrix:
        return PackedMatrix(weight, reorder=False) if _suits_onednn(self.recurrent) else DenseMatrix(weight)


def _suits_onednn(weight: torch.Tensor) -> bool:
    """Whether oneDNN's products with such a weight, `(directions, inputs, outputs)`, are faster than PyTorch's."""
    large = weight[0].numel() >= MIN_ONEDNN_SIZE
    return large and weight.dtype == torch.float32 and weight.device.type == "cpu" and has_onednn()


class LSTMMatrices(NamedTuple):
    """One layer's weights in products; `projection` is `None` where the output is the cells'."""

    input: Matrix
    recurrent: Matrix
    projection: Matrix | None


class LSTMClips(NamedTuple):
    """Bounds of the cell and of the projected output; `None` is no bound."""

    cell: float | None
    projection: float | None


class _Step(NamedTuple):
    """What the gradient needs of one time step, each `(directions, sequences, cells)`, but for the first."""

    previous_hidden: torch.Tensor  # (directions, sequences, size)
    previous_cell: torch.Tensor
    input_gate: torch.Tensor
    candidate: torch.Tensor
    forget_gate: torch.Tensor
    output_gate: torch.Tensor
    cell: torch.Tensor


def lstm(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: LSTMWeights,
    clips: LSTMClips,
    step_sizes: list[int],
    dtype: torch.dtype,
    resets: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Runs one layer, so that gradients can be computed. Without: [`run_lstm`].

    Args:
        inputs: `(directions, words, size)`, packed: step by step, the longest sequence first.
        hidden: `(directions, sequences, size)`, the state before the first word.
        cell: `(directions, sequences, cells)`
        step_sizes: Sequences at each time step, never growing.
        dtype: Precision of the products. All else is in that of the states.
        resets: `(words,)`, packed, true where the state is set back to zeros before the word.

    Returns:
        The outputs `(directions, words, size)`, and both states after each sequence's last word.
    """
    keeps = state_keeps(resets, step_sizes, hidden.dtype)
    return _LSTM.apply(inputs, hidden, cell.contiguous(), *weights, clips, step_sizes, dtype, keeps)


def state_keeps(resets: torch.Tensor | None, step_sizes: list[int], dtype: torch.dtype) -> list[torch.Tensor | None]:
    """For each step what the state before it is multiplied by, `(sequences, 1)`; `None` where all of it stays."""
    if resets is None:
        return [None] * len(step_sizes)
    steps = resets.split(step_sizes)
    return [(~step).to(dtype).unsqueeze(1) if step.any() else None for step in steps]


def _run(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: LSTMWeights,
    clips: LSTMClips,
    step_sizes: list[int],
    keeps: list[torch.Tensor | None],
    trace: list[_Step],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As [`lstm`]; what the gradient needs is added to `trace`."""
    outputs, last_hidden, last_cell = [], [], []
    matrices = weights.matrices()
    start = 0
    keep_of_step = iter(keeps)
    for sizes in _chunks(step_sizes, weights.input):
        stop = start + sum(sizes)
        chunk = matrices.input(inputs[:, start:stop], weights.bias)
        for size, gates in zip(sizes, chunk.split(sizes, dim=1), strict=True):
            if size < hidden.shape[1]:  # the shortest sequences have ended
                last_hidden.append(hidden[:, size:])
                last_cell.append(cell[:, size:])
                hidden, cell = hidden[:, :size], cell[:, :size]
            if (keep := next(keep_of_step)) is not None:
                hidden, cell = hidden * keep, cell * keep
            gates = matrices.recurrent.add(gates, hidden)
            *activated, new_cell, unprojected = cell_step(gates, cell, clips.cell)
            trace.append(_Step(hidden, cell, *activated, new_cell))
            hidden, cell = _project(unprojected, matrices.projection, clips.projection, cell.dtype), new_cell
            outputs.append(hidden)
        start = stop
    last_hidden.append(hidden)
    last_cell.append(cell)
    return torch.cat(outputs, dim=1), torch.cat(last_hidden[::-1], dim=1), torch.cat(last_cell[::-1], dim=1)


def _chunks(step_sizes: list[int], weight: torch.Tensor, gate_bytes: int | None = None) -> Iterator[list[int]]:
    return step_chunks(step_sizes, weight.shape[0] * weight.shape[2] * weight.dtype.itemsize, gate_bytes)


def step_chunks(step_sizes: list[int], gate_bytes: int, at_most: int | None = None) -> Iterator[list[int]]:
    """
    Groups consecutive time steps whose gates, `gate_bytes` a word, fit into `at_most` (one step at least).

    Args:
        at_most: Default: `GATE_BYTES_PER_CHUNK`.
    """
    words = (GATE_BYTES_PER_CHUNK if at_most is None else at_most) // gate_bytes
    chunk_of_step = [total // max(words, 1) for total in itertools.accumulate(step_sizes)]
    for _, steps in itertools.groupby(zip(chunk_of_step, step_sizes, strict=True), key=lambda step: step[0]):
        yield [size for _, size in steps]


def cell_step(gates: torch.Tensor, cell: torch.Tensor, clip: float | None) -> tuple[torch.Tensor, ...]:
    """
    One time step of the cells, all of it element by element.

    Args:
        gates: `(directions, sequences, 4 * cells)`, before activation.
        cell: `(directions, sequences, cells)`

    Returns:
        The activated gates i, j, f, o, the new cell, and what the cells give out, each
        `(directions, sequences, cells)`; all but the cell in the precision of `gates`.
    """
    input_gate, candidate, forget_gate, output_gate = gates.to(cell.dtype).chunk(4, dim=-1)
    input_gate, candidate = torch.sigmoid(input_gate), _tanh(candidate)
    forget_gate, output_gate = torch.sigmoid(forget_gate), torch.sigmoid(output_gate)
    new_cell = forget_gate * cell + input_gate * candidate
    if clip is not None:
        new_cell = new_cell.clamp(-clip, clip)
    given_out = output_gate * _tanh(new_cell)
    activated = (gate.to(gates.dtype) for gate in (input_gate, candidate, forget_gate, output_gate))
    return *activated, new_cell, given_out.to(gates.dtype)


def cell_step_gradient(
    d_output: torch.Tensor, d_cell: torch.Tensor, step: _Step, clip: float | None
) -> tuple[torch.Tensor, ...]:
    """
    The way back through [`cell_step`].

    Args:
        d_output: Gradient of what the cells give out, `(directions, sequences, cells)`.
        d_cell: Gradient of the new cell from the steps behind.

    Returns:
        Gradients of the gates i, j, f, o before activation, and what the cells gave out, in the precision of
        `d_output`; the gradient of the previous cell; each `(directions, sequences, cells)`.
    """
    gates = (step.input_gate, step.candidate, step.forget_gate, step.output_gate)
    input_gate, candidate, forget_gate, output_gate = (gate.to(d_cell.dtype) for gate in gates)
    squashed = _tanh(step.cell)
    given_out = output_gate * squashed
    d_given = d_output.to(d_cell.dtype)
    d_new = d_cell + tanh_backward(d_given * output_gate, squashed)
    if clip is not None:
        d_new = torch.where(step.cell.abs() < clip, d_new, 0.0)
    d_gates = (
        sigmoid_backward(d_new * candidate, input_gate),
        tanh_backward(d_new * input_gate, candidate),
        sigmoid_backward(d_new * step.previous_cell, forget_gate),
        sigmoid_backward(d_given * squashed, output_gate),
    )
    return *(tensor.to(d_output.dtype) for tensor in (*d_gates, given_out)), d_new * forget_gate


def _tanh(x: torch.Tensor) -> torch.Tensor:
    # Through a sigmoid it is three times as fast on a CPU.
    if torch.compiler.is_compiling():
        return 2 * torch.sigmoid(2 * x) - 1
    return torch.sigmoid(x + x).mul_(2).sub_(1) if x.device.type == "cpu" else torch.tanh(x)


def _project(hidden: torch.Tensor, projection: Matrix | None, clip: float | None, dtype: torch.dtype) -> torch.Tensor:
    """The layer's output, `(directions, sequences, size)`."""
    if projection is None:
        return hidden.to(dtype)
    projected = projection(hidden).to(dtype)
    return projected if clip is None else projected.clamp_(-clip, clip)


class _LSTM(torch.autograd.Function):
    """[`lstm`] with its gradient: back through the steps of a chunk, then the chunk's weights at once."""

    @staticmethod
    def forward(ctx, inputs, hidden, cell, input, recurrent, bias, projection, clips, step_sizes, dtype, keeps):
        inputs = inputs.to(dtype)
        weights = LSTMWeights(input, recurrent, bias, projection).to(dtype)
        ctx.clips, ctx.step_sizes, ctx.keeps, ctx.groups = clips, step_sizes, keeps, weights.groups()
        results, traces = [], []
        for group in ctx.groups:
            trace: list[_Step] = []
            given = inputs[group], hidden[group], cell[group], weights.of(group)
            results.append(_run(*given, clips, step_sizes, keeps, trace))
            traces += trace
        outputs, last_hidden, last_cell = (torch.cat(parts) for parts in zip(*results, strict=True))
        ctx.save_for_backward(inputs, outputs, *weights, *itertools.chain.from_iterable(traces))
        return outputs, last_hidden, last_cell

    @staticmethod
    @once_differentiable
    def backward(ctx, d_outputs, d_last_hidden, d_last_cell):
        with torch.autocast(d_outputs.device.type, enabled=False):
            return _LSTM._gradients(ctx, d_outputs, d_last_hidden, d_last_cell)

    @staticmethod
    def _gradients(ctx, d_outputs, d_last_hidden, d_last_cell):
        inputs, outputs, *saved = ctx.saved_tensors
        weights, saved = LSTMWeights(*saved[:4]), saved[4:]
        size = len(_Step._fields)
        traces = [_Step(*saved[first : first + size]) for first in range(0, len(saved), size)]

        totals = weights.zeros(outputs.dtype)
        gradients = []
        for number, group in enumerate(ctx.groups):
            steps = len(ctx.step_sizes)
            trace = traces[number * steps : (number + 1) * steps]
            way_back = _WayBack(weights.of(group), ctx.clips, list(ctx.keeps), d_last_hidden[group], d_last_cell[group])
            of_group = inputs[group], outputs[group], d_outputs[group], ctx.step_sizes, trace
            d_inputs = way_back.through_all(*of_group, totals.of(group))
            gradients.append((d_inputs, way_back.d_hidden, way_back.d_cell))
        return *(torch.cat(parts) for parts in zip(*gradients, strict=True)), *totals, None, None, None, None


class _WayBack:
    """
    Goes back through the time steps.

    Attributes:
        d_hidden (`torch.Tensor` of shape `(directions, sequences, size)`): Gradient of the state before the step that
            was passed last, for the sequences that had not ended there.
        d_cell (`torch.Tensor` of shape `(directions, sequences, cells)`)
    """

    def __init__(
        self,
        weights: LSTMWeights,
        clips: LSTMClips,
        keeps: list[torch.Tensor | None],
        d_last_hidden: torch.Tensor,
        d_last_cell: torch.Tensor,
    ):
        self.weights, self.clips, self.keeps = weights, clips, keeps
        self.matrices = weights.transposed()
        self.d_last_hidden, self.d_last_cell = d_last_hidden, d_last_cell
        self.d_hidden, self.d_cell = d_last_hidden[:, :0], d_last_cell[:, :0]

    def through_all(
        self,
        inputs: torch.Tensor,
        outputs: torch.Tensor,
        d_outputs: torch.Tensor,
        step_sizes: list[int],
        trace: list[_Step],
        totals: LSTMWeights,
    ) -> torch.Tensor:
        """
        All time steps, a chunk at a time. What they give for the weights is added to `totals`.

        Returns:
            The gradient of the inputs, `(directions, words, size)`.
        """
        d_inputs = []
        stop = inputs.shape[1]
        gate_bytes = GATE_BYTES_PER_LARGE_CHUNK if _suits_onednn(self.weights.recurrent) else GATE_BYTES_PER_CHUNK
        for sizes in reversed(list(_chunks(step_sizes, self.weights.input, gate_bytes))):
            start = stop - sum(sizes)
            steps, trace = trace[-len(sizes) :], trace[: -len(sizes)]
            d_gates, unprojected, d_projected = self.through(steps, outputs[:, start:stop], d_outputs[:, start:stop])
            _add_weight_gradients(totals, inputs[:, start:stop], steps, d_gates, unprojected, d_projected)
            d_inputs.append(self.matrices.input(d_gates))
            stop = start
        return torch.cat(d_inputs[::-1], dim=1)

    def through(
        self, steps: list[_Step], outputs: torch.Tensor, d_outputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Args:
            steps: Consecutive time steps, the first one first.
            outputs: `(directions, words, size)`, of these steps.
            d_outputs: Their gradients.

        Returns:
            In the precision of the products, the gradients of the gates before activation,
            `(directions, words, 4 * cells)`, what the cells gave out, `(directions, words, cells)`, and the gradients
            of the outputs before clipping, `(directions, words, size)`.
        """
        weight = self.weights.input
        d_gates = weight.new_empty(*outputs.shape[:2], weight.shape[2])
        unprojected = weight.new_empty(*outputs.shape[:2], weight.shape[2] // 4)
        d_projected = weight.new_empty(outputs.shape)
        stop = outputs.shape[1]
        for step in reversed(steps):
            start = stop - step.cell.shape[1]
            self._meet_endings(step.cell.shape[1])
            d_output = self.d_hidden + d_outputs[:, start:stop]
            if self.weights.projection is not None and self.clips.projection is not None:
                d_output.masked_fill_(outputs[:, start:stop].abs() >= self.clips.projection, 0)
            d_output = d_output.to(weight.dtype)
            d_projected[:, start:stop] = d_output
            if self.matrices.projection is not None:
                d_output = self.matrices.projection(d_output)
            *d_step, given_out, self.d_cell = cell_step_gradient(d_output, self.d_cell, step, self.clips.cell)
            unprojected[:, start:stop] = given_out
            torch.cat(d_step, dim=-1, out=d_gates[:, start:stop])
            d_hidden = self.matrices.recurrent(d_gates[:, start:stop])
            self.d_hidden = d_hidden.to(self.d_last_hidden.dtype)
            if (keep := self.keeps.pop()) is not None:
                self.d_hidden, self.d_cell = self.d_hidden * keep, self.d_cell * keep
            stop = start
        return d_gates, unprojected, d_projected

    def _meet_endings(self, size: int):
        """Takes in the sequences whose last step this is."""
        ending = slice(self.d_hidden.shape[1], size)
        if ending.start < size:
            self.d_hidden = torch.cat([self.d_hidden, self.d_last_hidden[:, ending]], dim=1)
            self.d_cell = torch.cat([self.d_cell, self.d_last_cell[:, ending]], dim=1)


def _add_weight_gradients(
    totals: LSTMWeights,
    inputs: torch.Tensor,
    steps: list[_Step],
    d_gates: torch.Tensor,
    unprojected: torch.Tensor,
    d_projected: torch.Tensor,
):
    """Adds what consecutive time steps give for the weights; all arguments are of these steps."""
    previous = torch.cat([step.previous_hidden.to(inputs.dtype) for step in steps], dim=1)
    _add_product(totals.input, inputs.mT, d_gates)
    _add_product(totals.recurrent, previous.mT, d_gates)
    ones = d_gates.new_ones(len(d_gates), 1, d_gates.shape[1])
    _add_product(totals.bias, ones, d_gates)  # as a product: a sum over bf16 is slow
    if totals.projection is not None:
        _add_product(totals.projection, unprojected.mT, d_projected)


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor):
    """`total += left @ right`; in one precision without another tensor as large as `total`, unless that is faster."""
    if total.dtype != left.dtype:
        total.add_(torch.bmm(left, right))
        return
    outputs, words = left.shape[1:]
    # Blocks, because a kernel is made and kept for every other number.
    if outputs > 1 and words >= MIN_ONEDNN_WORDS and _suits_onednn(total):
        words -= words % ROWS_PER_BLOCK
        for place, of_left, of_right in zip(total, left, right, strict=True):
            place.add_(PackedMatrix(of_right[None, :words], reorder=False).alone(of_left[:, :words].contiguous()))
        left, right = left[:, :, words:], right[:, words:]
    if left.shape[2]:
        total.baddbmm_(left, right)


__all__ = ["LSTMClips", "LSTMMatrices", "LSTMWeights", "lstm", "state_keeps", "step_chunks"]
