# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The LSTM over packed words without a gradient, its products given as functions."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from .lstm_elmo import LSTMClips, cell_step, step_chunks

Product = Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]


class LSTMProducts(NamedTuple):
    """
    One layer's products: functions `(rows, added)` → `rows @ W + added`, with rows `(directions, rows, inputs)` and
    what is added `(directions, rows or 1, outputs)` or `None`.
    """

    input: Product
    recurrent: Product
    projection: Product | None


def run_lstm(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    products: LSTMProducts,
    bias: torch.Tensor,
    clips: LSTMClips,
    step_sizes: list[int],
    keeps: list[torch.Tensor | None],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Runs one layer, in the precision of its arguments.

    Args:
        inputs: `(directions, words, size)`, packed: step by step, the longest sequence first.
        hidden: `(directions, sequences, size)`, the state before the first word.
        cell: `(directions, sequences, cells)`
        bias: `(directions, 1, 4 * cells)`; the forget bias is in it.
        step_sizes: Sequences at each time step, never growing.
        keeps: For each step what the state before it is multiplied by, `(sequences, 1)`, or `None`.

    Returns:
        The outputs `(directions, words, size)`, and both states after each sequence's last word.
    """
    outputs, last_hidden, last_cell = [], [], []
    start = 0
    steps_keep = iter(keeps)
    for sizes in step_chunks(step_sizes, bias.numel() * bias.element_size()):
        stop = start + sum(sizes)
        chunk = products.input(inputs[:, start:stop], bias)
        for size, gates in zip(sizes, chunk.split(sizes, dim=1), strict=True):
            if size < hidden.shape[1]:  # the shortest sequences have ended
                last_hidden.append(hidden[:, size:])
                last_cell.append(cell[:, size:])
                hidden, cell = hidden[:, :size], cell[:, :size]
            if (keep := next(steps_keep)) is not None:
                hidden, cell = hidden * keep, cell * keep
            *_, cell, hidden = cell_step(products.recurrent(hidden, gates), cell, clips.cell)
            if products.projection is not None:
                hidden = products.projection(hidden, None)
                if clips.projection is not None:
                    hidden = hidden.clamp_(-clips.projection, clips.projection)
            outputs.append(hidden)
        start = stop
    last_hidden.append(hidden)
    last_cell.append(cell)
    return torch.cat(outputs, dim=1), torch.cat(last_hidden[::-1], dim=1), torch.cat(last_cell[::-1], dim=1)


__all__ = ["LSTMProducts", "run_lstm"]
