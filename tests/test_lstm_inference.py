"""The LSTM without a gradient: one way for few sequences and one for many, and what they hold on to."""

import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.lstm_elmo import GATE_BYTES_PER_CHUNK, LSTMClips, state_keeps
from elmo_hf.lstm_inference_elmo import FewRowsMatrices, LSTMPart, ManyRowsMatrices, run_lstm
from elmo_hf.products_elmo import DenseMatrix, GateMatrix, PackedMatrix

SIZE, CELLS = 4, 256


class WatchedMatrix(PackedMatrix):
    """Gives arrays of its own, and counts those that somebody still holds when the next one is wanted."""

    def __init__(self, weight: torch.Tensor):
        super().__init__(weight)
        self.given: list[weakref.ref] = []
        self.held: list[int] = []

    def apart(self, rows, bias=None, activation="none"):
        self.held.append(sum(array() is not None for array in self.given))
        (product,) = super().apart(rows, bias, activation)
        array = product.numpy().copy()
        self.given.append(weakref.ref(array))
        return [torch.from_numpy(array)]


def test_gates_of_earlier_steps_are_not_kept_by_the_states_of_sequences_that_have_ended():
    words_a_chunk = GATE_BYTES_PER_CHUNK // (4 * CELLS * 4)
    step_sizes = [words_a_chunk - number for number in range(6)]  # one sequence ends at each step
    matrices = FewRowsMatrices(
        WatchedMatrix(torch.randn(1, SIZE, 4 * CELLS)),
        PackedMatrix(torch.randn(1, SIZE, 4 * CELLS)),
        DenseMatrix(torch.randn(1, CELLS, SIZE)),
        is_stretched=False,
    )
    _, hidden, cell = run_lstm(
        torch.randn(1, sum(step_sizes), SIZE),
        torch.zeros(1, step_sizes[0], SIZE),
        torch.zeros(1, step_sizes[0], CELLS),
        [LSTMPart(len(step_sizes), matrices)],
        torch.zeros(1, 1, 4 * CELLS),
        LSTMClips(3.0, 3.0),
        step_sizes,
        [None] * len(step_sizes),
    )
    assert hidden.shape[1] == cell.shape[1] == step_sizes[0]
    assert len(matrices.input.held) > 3
    assert not any(matrices.input.held)


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=300),
    directions=st.integers(1, 2),
    projects=st.booleans(),
    clips=st.sampled_from([LSTMClips(0.3, 0.2), LSTMClips(None, None)]),
    resets=st.booleans(),
    many_steps=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_many_sequences_at_once_have_the_outputs_and_states_of_few(
    lengths, directions, projects, clips, resets, many_steps, seed
):
    cells = 16
    size = 8 if projects else cells
    torch.manual_seed(seed)
    step_sizes = [sum(length > step for length in lengths) for step in range(max(lengths))]
    inputs = torch.randn(directions, sum(lengths), size)
    hidden, cell = torch.randn(directions, len(lengths), size), 0.3 * torch.randn(directions, len(lengths), cells)
    # Of a size at which a rounding error does not grow from step to step.
    weights = torch.randn(2, directions, size, 4 * cells) / size**0.5
    projection = DenseMatrix(torch.randn(directions, cells, size) / cells**0.5) if projects else None
    bias = torch.randn(directions, 1, 4 * cells)
    keeps = state_keeps(torch.rand(sum(lengths)) < 0.5 if resets else None, step_sizes, torch.float32)
    given_to_both = inputs, hidden, cell
    rest = bias, clips, step_sizes, keeps

    few = FewRowsMatrices(*map(DenseMatrix, weights), projection, is_stretched=False)
    many = ManyRowsMatrices(GateMatrix(*weights), projection)
    steps = len(step_sizes)
    parts = [LSTMPart(min(many_steps, steps), many), LSTMPart(max(steps - many_steps, 0), few)]
    expected_of_all = run_lstm(*given_to_both, [LSTMPart(steps, few)], *rest)
    found_of_all = run_lstm(*given_to_both, [part for part in parts if part.steps], *rest)
    for expected, found in zip(expected_of_all, found_of_all, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 3.0])
def test_a_tanh_made_of_sigmoids_loses_no_digit_that_counts(scale):
    weights = scale * torch.randn(2, 1, 4, 4 * CELLS)
    state = torch.zeros(1, 64, CELLS), torch.zeros(1, 64, CELLS)
    inputs, bias, rest = torch.randn(1, 64, 4), torch.zeros(1, 1, 4 * CELLS), (LSTMClips(None, None), [64], [None])
    matrices = GateMatrix(weights[0], torch.zeros(1, CELLS, 4 * CELLS))
    output, _, _ = run_lstm(inputs, *state, [LSTMPart(1, ManyRowsMatrices(matrices, None))], bias, *rest)
    gates = (inputs.double() @ weights[0].double()).chunk(4, dim=-1)
    expected = gates[3].sigmoid() * torch.tanh(gates[0].sigmoid() * torch.tanh(gates[1]))
    assert (output - expected).abs().max() < 1e-6
