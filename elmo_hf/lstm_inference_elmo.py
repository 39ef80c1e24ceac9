# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
The LSTM over packed words without a gradient: nothing is kept, and memory is used again.

A tanh is a sigmoid, stretched: tanh(x) = 1 - 2 sigmoid(-2x). So all gates of a step go through one sigmoid, which is
several times as fast, where the candidate was multiplied by -2 before ([`stretched`]); packed weights have that in
them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from .lstm_elmo import LSTMClips, step_chunks
from .memory_elmo import new_beside
from .products_elmo import (
    MOST_FILLED,
    ROWS_PER_BLOCK,
    DenseMatrix,
    GateMatrix,
    Matrix,
    PackedMatrix,
    SmallMatrix,
    Total,
    blocks,
    filled,
    stretched,
)

ALL = slice(None)  # directions


class FewRowsMatrices(NamedTuple):
    """
    One layer's weights for few sequences at once.

    Args:
        input, recurrent: Of the gates.
        projection: `None` where the output is the cells'.
        is_stretched: Whether what gives the candidate is [`stretched`].
    """

    input: Matrix
    recurrent: Matrix | SmallMatrix
    projection: Matrix | None
    is_stretched: bool

    def of(self, directions: slice) -> "FewRowsMatrices":
        """Those of some directions."""
        if directions == ALL:
            return self
        projection = None if self.projection is None else self.projection[directions]
        return self._replace(input=self.input[directions], recurrent=self.recurrent[directions], projection=projection)

    def recurrent_for(self, sequences: int) -> Matrix:
        """That of the recurrence for so many sequences."""
        return self.recurrent.for_rows(sequences) if isinstance(self.recurrent, SmallMatrix) else self.recurrent

    def of_inputs(self, inputs: torch.Tensor, bias: torch.Tensor, step_sizes: list[int]) -> Iterable[Total]:
        """What comes from the inputs, `(directions, words, size)`: for each time step what its recurrence adds to."""
        if isinstance(self.recurrent_for(step_sizes[0]), PackedMatrix) and isinstance(self.input, PackedMatrix):
            return zip(*(product.split(step_sizes) for product in self.input.apart(inputs, bias)), strict=True)
        return self.input(inputs, bias).split(step_sizes, dim=1)

    @property
    def run_apart(self) -> bool:
        """Whether one direction runs after the other: their products are two in any case."""
        return isinstance(self.recurrent, PackedMatrix)


class ManyRowsMatrices(NamedTuple):
    """One layer's weights for many sequences at once; `projection` is `None` where the output is the cells'."""

    gates: GateMatrix
    projection: DenseMatrix | PackedMatrix | None

    def of(self, directions: slice) -> "ManyRowsMatrices":
        """Those of some directions."""
        return ManyRowsMatrices(
            self.gates[directions], None if self.projection is None else self.projection[directions]
        )

    @property
    def run_apart(self) -> bool:
        """Always."""
        return True


class LSTMPart(NamedTuple):
    """
    Time steps that follow each other.

    Args:
        steps: How many.
        matrices: For few sequences at once, or for many.
    """

    steps: int
    matrices: FewRowsMatrices | ManyRowsMatrices


def run_lstm(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    parts: Sequence[LSTMPart],
    bias: torch.Tensor,
    clips: LSTMClips,
    step_sizes: list[int],
    keeps: list[torch.Tensor | None],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Runs one layer.

    Args:
        inputs: `(directions, words, size)`, packed: step by step, the longest sequence first.
        hidden: `(directions, sequences, size)`, the state before the first word.
        cell: `(directions, sequences, cells)`
        parts: What the time steps run with, one after the other, all of them.
        bias: `(directions, 1, 4 * cells)`; the forget bias is in it.
        step_sizes: Sequences at each time step, never growing.
        keeps: For each step what the state before it is multiplied by, `(sequences, 1)`, or `None`.

    Returns:
        The outputs `(directions, words, size)`, and both states after each sequence's last word.
    """
    outputs = hidden.new_empty(*inputs.shape[:2], hidden.shape[2])
    hidden, cell = (state.clone(memory_format=torch.contiguous_format) for state in (hidden, cell))
    step = word = 0
    for steps, matrices in parts:
        sizes, kept = step_sizes[step : step + steps], keeps[step : step + steps]
        words, active = slice(word, word + sum(sizes)), sizes[0]
        for group in _groups(len(inputs), matrices.run_apart):
            given = inputs[group, words], hidden[group, :active], cell[group, :active]
            rest = bias[group], clips, sizes, kept, outputs[group, words]
            chosen = matrices.of(group)
            if isinstance(chosen, ManyRowsMatrices):
                _run_many(*given, chosen, *rest)
            else:
                _run_few(*given, chosen, *rest)
        step, word = step + steps, words.stop
    return outputs, hidden, cell


def _groups(directions: int, apart: bool) -> list[slice]:
    """Directions that run side by side."""
    return [slice(first, first + 1) for first in range(directions)] if apart else [ALL]


def _run_few(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    matrices: FewRowsMatrices,
    bias: torch.Tensor,
    clips: LSTMClips,
    step_sizes: list[int],
    keeps: list[torch.Tensor | None],
    outputs: torch.Tensor,
):
    """
    The products of the inputs first, some time steps at a time. Writes the outputs; both states become those after each
    sequence's last word.
    """
    bias = stretched(bias.clone()) if matrices.is_stretched else bias
    now, active = hidden, hidden.shape[1]  # of the sequences that go on
    recurrent = matrices.recurrent_for(active)
    memory = _StepMemory(cell, recurrent)
    start = step = 0
    for sizes in step_chunks(step_sizes, bias.numel() * hidden.element_size()):
        stop = start + sum(sizes)
        totals = matrices.of_inputs(inputs[:, start:stop], bias, sizes)
        places = outputs[:, start:stop].split(sizes, dim=1)
        for size, total, place in zip(sizes, totals, places, strict=True):
            if size < active:  # the shortest sequences have ended
                hidden[:, size:active] = now[:, size:]
                now, cell, active = now[:, :size], cell[:, :size], size
                recurrent = matrices.recurrent_for(active)
                memory = _StepMemory(cell, recurrent)
            if (keep := keeps[step]) is not None:
                now = now * keep
                cell.mul_(keep)
            gates = recurrent.add(total, now, memory.gates)
            if gates.dtype != cell.dtype:
                gates = gates.to(cell.dtype)
            if not matrices.is_stretched:
                stretched(gates)
            given_out = _cell_step(memory.parts(gates.sigmoid_()), cell, clips.cell, memory.given_out)
            now = _project(given_out, matrices.projection, clips.projection, place)
            step += 1
        start = stop
        del totals, total, gates  # the next ones can have their memory
    hidden[:, :active] = now


class _StepMemory:
    """
    What every time step of so many sequences writes into. With few of them, memory and its parts take as long to make
    as to fill.

    Args:
        cell: `(directions, sequences, cells)`
        recurrent: What the gates come from.
    """

    def __init__(self, cell: torch.Tensor, recurrent: Matrix):
        shape = *cell.shape[:2], 4 * cell.shape[2]
        # For matrices that write where they are told.
        is_dense = isinstance(recurrent, DenseMatrix)
        self.gates = new_beside(recurrent.weight, cell, *shape) if is_dense else cell.new_empty(shape)
        self.given_out = torch.empty_like(cell, memory_format=torch.contiguous_format)
        self._parts = _gate_parts(self.gates)

    def parts(self, gates: torch.Tensor) -> Sequence[torch.Tensor]:
        """As [`_gate_parts`]; `gates` may be those of this memory, or others."""
        return self._parts if gates is self.gates else _gate_parts(gates)


def _gate_parts(gates: torch.Tensor) -> Sequence[torch.Tensor]:
    """`(…, 4 * cells)` → four times `(…, cells)`, in the same memory."""
    return gates.chunk(4, dim=-1)


def _run_many(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    matrices: ManyRowsMatrices,
    bias: torch.Tensor,
    clips: LSTMClips,
    step_sizes: list[int],
    keeps: list[torch.Tensor | None],
    outputs: torch.Tensor,
):
    """The same for one direction, the gates of a step in one product, sigmoids included."""
    (inputs,), (hidden,), (cell,), (outputs,) = inputs, hidden, cell, outputs
    bias = stretched(bias.flatten().to(inputs.dtype, copy=True))
    words, size_of_inputs = inputs.shape
    # What the products read: words, and beside each the state before it. A kernel may read on behind a step's rows.
    rows = inputs.new_zeros(words + MOST_FILLED, size_of_inputs + hidden.shape[1])
    rows[:words, :size_of_inputs] = inputs
    states = rows[:words, size_of_inputs:].split(step_sizes)
    now, given_out = hidden, cell.new_zeros(len(cell) + MOST_FILLED, cell.shape[1])
    # A packed projection takes as many rows as `filled` says: with what is left behind a step's own, none are copied.
    fills_up = isinstance(matrices.projection, PackedMatrix)
    start = 0
    for size, keep, state, places in zip(step_sizes, keeps, states, outputs.split(step_sizes), strict=True):
        if size < len(now):  # the shortest sequences have ended
            hidden[size : len(now)] = now[size:]
            now, cell = now[:size], cell[:size]
        if keep is not None:
            now = now * keep
            cell.mul_(keep)
        state.copy_(now)
        for first, of_block, place in zip(range(0, size, ROWS_PER_BLOCK), blocks(cell), blocks(places), strict=True):
            number, enough = len(place), filled(len(place))
            gates, memory = matrices.gates(rows[start : start + enough], bias), given_out[first : first + enough]
            own = memory
            if enough > number:  # the product had other rows behind
                gates, own = gates[:number], memory[:number]
            _cell_step(_gate_parts(gates), of_block, clips.cell, own)
            if matrices.projection is None:
                place.copy_(own)
            else:
                _clip(matrices.projection.alone(memory if fills_up else own), clips.projection, place)
            start += number
        now = places
    hidden[: len(now)] = now


def _cell_step(
    gates: Sequence[torch.Tensor], cell: torch.Tensor, clip: float | None, given_out: torch.Tensor
) -> torch.Tensor:
    """
    One time step of the cells, in place.

    Args:
        gates: Sigmoids of i, -2j, f, o, `(…, sequences, cells)` each. Their memory is used.
        cell: `(…, sequences, cells)`; becomes the new one.
        given_out: Memory for what the cells give out, of the same shape.

    Returns:
        `given_out`
    """
    input_gate, candidate, forget_gate, output_gate = gates
    input_gate.addcmul_(input_gate, candidate, value=-2)  # times tanh(j)
    torch.addcmul(input_gate, forget_gate, cell, out=cell)
    if clip is not None:
        cell.clamp_(-clip, clip)
    torch.sub(cell, cell, alpha=3, out=given_out).sigmoid_()  # of -2 cell; faster than a product with a number
    return torch.addcmul(output_gate, output_gate, given_out, value=-2, out=given_out)  # times tanh(cell)


def _project(
    unprojected: torch.Tensor, projection: Matrix | None, clip: float | None, place: torch.Tensor
) -> torch.Tensor:
    """Writes the layer's output into `place`, `(directions, sequences, size)`."""
    if projection is None:
        return place.copy_(unprojected)
    return _clip(projection(unprojected), clip, place)


def _clip(outputs: torch.Tensor, clip: float | None, place: torch.Tensor) -> torch.Tensor:
    """Writes outputs, `(rows, size)` or `(directions, sequences, size)`, into `place`, which may have fewer rows."""
    if len(outputs) > len(place):
        outputs = outputs[: len(place)]
    return place.copy_(outputs) if clip is None else torch.clamp(outputs, -clip, clip, out=place)


__all__ = ["ALL", "FewRowsMatrices", "LSTMPart", "ManyRowsMatrices", "run_lstm"]
