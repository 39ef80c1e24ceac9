# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""[`lstm`] for inference on a CPU: packed weights, gates and states updated in place."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .lstm_elmo import LSTMWeights

# The products of the inputs run over as many time steps as have gates of this size: they fit into the cache, and the
# allocator reuses their memory.
GATE_BYTES_PER_CHUNK = 16 * 2**20
# Of one time step: `(directions, sequences, 4 * cells)`, or `(sequences, 4 * cells)` for each direction.
Gates = torch.Tensor | tuple[torch.Tensor, ...]


def lstm_cpu(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: "LSTMWeights",
    batch_sizes: list[int],
    resets: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    As [`lstm`], without gradients. `weights` holds lists of packed matrices, one per direction. In small layers the
    projection, and for few sequences the recurrent weight, are fp32 tensors: both directions then run in one loop and
    share these products. Otherwise they run one after the other, so that the weights of a direction stay in the cache.
    """
    outputs = hidden.new_empty(*inputs.shape[:2], hidden.shape[2])
    hidden, cell = (state.clone(memory_format=torch.contiguous_format) for state in (hidden, cell))
    resets_of_steps = resets_per_step(resets, batch_sizes)
    group_size = len(inputs) if isinstance(weights.projection, torch.Tensor) else 1
    with torch.no_grad():
        for start in range(0, len(inputs), group_size):
            group = slice(start, start + group_size)
            states = hidden[group], cell[group]
            _run(inputs[group], *states, weights.of(group), batch_sizes, resets_of_steps, outputs[group])
    return outputs, hidden, cell


def _run(
    inputs: torch.Tensor,
    last_hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: "LSTMWeights",
    batch_sizes: list[int],
    resets: list[torch.Tensor | None],
    outputs: torch.Tensor,
):
    """
    Runs some directions; shapes as in [`lstm`]. Writes the outputs, and both states after each sequence's last word.
    """
    hidden = last_hidden  # of the sequences that have not ended
    memory = _gate_memory(weights, hidden.shape[1])
    steps = zip(outputs.split(batch_sizes, dim=1), resets, strict=True)
    start = 0
    for sizes in step_chunks(batch_sizes, weights.bias.nbytes):
        stop = start + sum(sizes)
        gates_of_inputs = _input_gates(inputs[:, start:stop], weights, sizes)
        for gates, (output, reset) in zip(gates_of_inputs, steps, strict=False):
            sequences = output.shape[1]
            if sequences < hidden.shape[1]:  # the shortest sequences have ended
                last_hidden[:, sequences : hidden.shape[1]] = hidden[:, sequences:]
                hidden, cell = hidden[:, :sequences], cell[:, :sequences]
            if reset is not None:
                hidden = hidden.masked_fill(reset[:, None], 0)
                cell.masked_fill_(reset[:, None], 0)
            gates = _add_recurrent(gates, hidden, weights, memory)  # (directions, sequences, 4 * cells)
            cell_output = _update_cell(gates, cell, weights.cell_clip)  # (directions, sequences, cells)
            if weights.projection is None:
                output.copy_(cell_output)
            else:
                _project(cell_output, weights, output)
            hidden = output
        start = stop
    last_hidden[:, : hidden.shape[1]] = hidden


def _input_gates(inputs: torch.Tensor, weights: "LSTMWeights", sizes: list[int]) -> Iterable[Gates]:
    """`(directions, words, size)` → the part of the gates that comes from the inputs, per time step."""
    products = [matrix(rows, bias[0]) for matrix, rows, bias in zip(weights.input, inputs, weights.bias, strict=True)]
    if isinstance(weights.recurrent, torch.Tensor):
        return torch.stack(products).split(sizes, dim=1)
    return zip(*(product.split(sizes) for product in products), strict=True)


def _add_recurrent(
    gates: Gates, hidden: torch.Tensor, weights: "LSTMWeights", memory: torch.Tensor | None
) -> torch.Tensor:
    """Adds the part of the gates that comes from the hidden state: → `(directions, sequences, 4 * cells)`"""
    if memory is not None and isinstance(gates, torch.Tensor):
        result = memory[: gates.numel()].view(gates.shape)
        return torch.baddbmm(gates, hidden, weights.recurrent, out=result)
    return _stack(matrix.add(rows, total) for matrix, rows, total in zip(weights.recurrent, hidden, gates, strict=True))


def _gate_memory(weights: "LSTMWeights", sequences: int) -> torch.Tensor | None:
    """
    Memory for the gates of a time step where the recurrent weight is a tensor; see docs/decisions/page-offset.md.
    """
    if not isinstance(weights.recurrent, torch.Tensor):
        return None
    page, value = 4096, weights.recurrent.element_size()
    values = sequences * weights.bias.numel()
    memory = weights.recurrent.new_empty(values + page // value)
    distance = (weights.recurrent.data_ptr() + page // 2 - memory.data_ptr()) % page  # in bytes
    return memory[distance // value :][:values]


def _stack(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """One tensor per direction → `(directions, …)`; a single one is not copied."""
    first, *others = tensors
    return torch.stack([first, *others]) if others else first.unsqueeze(0)


def _project(cell_output: torch.Tensor, weights: "LSTMWeights", output: torch.Tensor):
    """`(directions, sequences, cells)` → `output`, `(directions, sequences, size)`"""
    if isinstance(weights.projection, torch.Tensor):
        projected = torch.bmm(cell_output, weights.projection)
    else:
        projected = _stack(matrix(rows) for matrix, rows in zip(weights.projection, cell_output, strict=True))
    if weights.projection_clip is None:
        output.copy_(projected)
    else:
        torch.clamp(projected, -weights.projection_clip, weights.projection_clip, out=output)


def _update_cell(gates: torch.Tensor, cell: torch.Tensor, clip: float | None) -> torch.Tensor:
    """
    One time step of the cells, in place.

    tanh(x) is computed as 1 - 2 * sigmoid(-2x): all gates then go through one sigmoid, which is several times as fast.

    Args:
        gates: `(directions, sequences, 4 * cells)`, before activation; overwritten.
        cell: `(directions, sequences, cells)`; updated.

    Returns:
        The output of the cells, `(directions, sequences, cells)`.
    """
    input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
    candidate.mul_(-2)
    gates.sigmoid_()
    input_gate.addcmul_(input_gate, candidate, value=-2)  # times tanh(candidate)
    torch.addcmul(input_gate, forget_gate, cell, out=cell)
    if clip is not None:
        cell.clamp_(-clip, clip)
    squashed = torch.mul(cell, -2).sigmoid_()
    return torch.addcmul(output_gate, output_gate, squashed, value=-2, out=squashed)  # times tanh(cell)


def resets_per_step(resets: torch.Tensor | None, batch_sizes: list[int]) -> list[torch.Tensor | None]:
    """The resets of each time step, `(sequences,)`; `None` for a step without any."""
    if resets is None:
        return [None] * len(batch_sizes)
    return [reset if bool(reset.any()) else None for reset in resets.split(batch_sizes)]


def step_chunks(batch_sizes: list[int], bytes_per_word: int, chunk_bytes: int | None = None) -> Iterator[list[int]]:
    """
    Groups consecutive time steps whose gates fit into `chunk_bytes`, at least one step each.

    Args:
        bytes_per_word: Size of the gates of one word.
        chunk_bytes: Default: `GATE_BYTES_PER_CHUNK`.
    """
    words = max((GATE_BYTES_PER_CHUNK if chunk_bytes is None else chunk_bytes) // bytes_per_word, 1)
    chunk_of_step = [total // words for total in accumulate(batch_sizes)]
    for _, steps in groupby(zip(chunk_of_step, batch_sizes, strict=True), key=lambda step: step[0]):
        yield [size for _, size in steps]


__all__ = ["lstm_cpu", "resets_per_step", "step_chunks"]
