# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The LSTM over packed words without a gradient: nothing is kept, and memory is used again within a step."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from .lstm_elmo import LSTMClips, LSTMMatrices, step_chunks
from .products_elmo import GateMatrix, Matrix, candidate_doubled


class ManyRowsMatrices(NamedTuple):
    """One layer's weights for many sequences at once; `projection` is `None` where the output is the cells'."""

    gates: GateMatrix
    projection: Matrix | None


class LSTMPart(NamedTuple):
    """
    Time steps that follow each other.

    Args:
        steps: How many.
        matrices: For few sequences at once, or for many.
    """

    steps: int
    matrices: LSTMMatrices | ManyRowsMatrices


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
    step = word = 0
    for steps, matrices in parts:
        sizes, kept = step_sizes[step : step + steps], keeps[step : step + steps]
        words, active = slice(word, word + sum(sizes)), sizes[0]
        given = inputs[:, words], hidden[:, :active], cell[:, :active]
        if isinstance(matrices, ManyRowsMatrices):
            states = _run_many(*given, matrices, bias, clips, sizes, kept, outputs[:, words])
        else:
            states = _run_few(*given, matrices, bias, clips, sizes, kept, outputs[:, words])
        # Those that have ended before keep theirs.
        hidden, cell = (torch.cat([new, old[:, active:]], 1) for new, old in zip(states, (hidden, cell), strict=True))
        step, word = step + steps, words.stop
    return outputs, hidden, cell


def _run_few(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    matrices: LSTMMatrices,
    bias: torch.Tensor,
    clips: LSTMClips,
    step_sizes: list[int],
    keeps: list[torch.Tensor | None],
    outputs: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Both directions side by side; the products of the inputs first, some time steps at a time. Writes the outputs, and
    gives both states.
    """
    last_hidden, last_cell = [], []
    start = step = 0
    for sizes in step_chunks(step_sizes, bias.numel() * hidden.element_size()):
        stop = start + sum(sizes)
        chunk = matrices.input(inputs[:, start:stop], bias)
        for size, gates in zip(sizes, chunk.split(sizes, dim=1), strict=True):
            if size < hidden.shape[1]:  # the shortest sequences have ended
                last_hidden.append(hidden[:, size:])
                last_cell.append(cell[:, size:].clone())
                hidden, cell = hidden[:, :size], cell[:, :size]
            if (keep := keeps[step]) is not None:
                hidden, cell = hidden * keep, cell * keep
            gates = matrices.recurrent.add(gates, hidden).to(cell.dtype)
            unprojected, cell = _cell_step(gates, cell, clips.cell)
            place = outputs[:, start : start + size]
            hidden = _project(unprojected, matrices.projection, clips.projection, place)
            start, step = start + size, step + 1
        cell = cell.clone()  # it lay in the memory of the gates, which the next ones can have now
        del chunk, gates
    last_hidden.append(hidden)
    last_cell.append(cell)
    return torch.cat(last_hidden[::-1], dim=1), torch.cat(last_cell[::-1], dim=1)


def _cell_step(gates: torch.Tensor, cell: torch.Tensor, clip: float | None) -> tuple[torch.Tensor, torch.Tensor]:
    """
    One time step of the cells, in the memory of the gates.

    Args:
        gates: `(directions, sequences, 4 * cells)`, before activation.
        cell: `(directions, sequences, cells)`

    Returns:
        What the cells give out, and the new cell, `(directions, sequences, cells)` each.
    """
    input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
    cell = forget_gate.sigmoid_().mul_(cell).addcmul_(input_gate.sigmoid_(), candidate.tanh_())
    if clip is not None:
        cell.clamp_(-clip, clip)
    return torch.tanh(cell).mul_(output_gate.sigmoid_()), cell


def _project(
    unprojected: torch.Tensor, projection: Matrix | None, clip: float | None, place: torch.Tensor
) -> torch.Tensor:
    """Writes the layer's output into `place`, `(directions, sequences, size)`."""
    if projection is None:
        return place.copy_(unprojected)
    projected = projection(unprojected)
    return place.copy_(projected) if clip is None else torch.clamp(projected, -clip, clip, out=place)


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
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same direction by direction, the gates of a step in one product."""
    bias = candidate_doubled(bias.squeeze(1).clone())
    states = [
        _run_direction(number, *given, matrices, bias[number], clips, step_sizes, keeps, outputs[number])
        for number, given in enumerate(zip(inputs, hidden, cell, strict=True))
    ]
    last_hidden, last_cell = (torch.stack(state) for state in zip(*states, strict=True))
    return last_hidden, last_cell


def _run_direction(
    direction: int,
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    matrices: ManyRowsMatrices,
    bias: torch.Tensor,
    clips: LSTMClips,
    step_sizes: list[int],
    keeps: list[torch.Tensor | None],
    outputs: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Writes the outputs, and gives both states.

    A tanh is a sigmoid, stretched: tanh(x) = 2 (sigmoid(2x) - 1/2). So the cells are kept doubled, and what they give
    out is halved until it is projected; both are exact.
    """
    projection = None if matrices.projection is None else matrices.projection[slice(direction, direction + 1)]
    last_hidden, last_cell = [], []
    cell, start = 2 * cell, 0
    for size, keep, given in zip(step_sizes, keeps, inputs.split(step_sizes), strict=True):
        if size < len(hidden):  # the shortest sequences have ended
            last_hidden.append(hidden[size:])
            last_cell.append(cell[size:].clone())
            hidden, cell = hidden[:size], cell[:size]
        if keep is not None:
            hidden, cell = hidden * keep, cell * keep
        gates = matrices.gates(direction, torch.cat([given, hidden], dim=1), bias)
        input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=1)
        cell = forget_gate.mul_(cell).addcmul_(input_gate, candidate.sub_(0.5), value=4)
        if clips.cell is not None:
            cell.clamp_(-2 * clips.cell, 2 * clips.cell)
        halved = torch.sigmoid(cell).sub_(0.5).mul_(output_gate)
        place = outputs[start : start + size]
        if projection is None:
            hidden = torch.mul(halved, 2, out=place)
        else:
            hidden = torch.mul(projection(halved.unsqueeze(0)).squeeze(0), 2, out=place)
            if clips.projection is not None:
                hidden.clamp_(-clips.projection, clips.projection)
        start += size
    last_hidden.append(hidden)
    last_cell.append(cell)
    return torch.cat(last_hidden[::-1]), torch.cat(last_cell[::-1]) / 2


__all__ = ["LSTMPart", "ManyRowsMatrices", "run_lstm"]
