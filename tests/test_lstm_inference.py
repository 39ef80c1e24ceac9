"""The LSTM without a gradient: what it holds on to."""

import weakref

import torch

from elmo_hf.lstm_elmo import GATE_BYTES_PER_CHUNK, LSTMClips, LSTMMatrices
from elmo_hf.lstm_inference_elmo import run_lstm
from elmo_hf.products_elmo import DenseMatrix, PackedMatrix

SIZE, CELLS = 4, 256


class WatchedMatrix(PackedMatrix):
    """Gives arrays of its own, and counts those that somebody still holds when the next one is wanted."""

    def __init__(self, weight: torch.Tensor):
        super().__init__(weight)
        self.given: list[weakref.ref] = []
        self.held: list[int] = []

    def __call__(self, rows, bias=None):
        self.held.append(sum(array() is not None for array in self.given))
        array = super().__call__(rows, bias).numpy().copy()
        self.given.append(weakref.ref(array))
        return torch.from_numpy(array)


def test_gates_of_earlier_steps_are_not_kept_by_the_states_of_sequences_that_have_ended():
    words_a_chunk = GATE_BYTES_PER_CHUNK // (4 * CELLS * 4)
    step_sizes = [words_a_chunk - number for number in range(6)]  # one sequence ends at each step
    matrices = LSTMMatrices(
        WatchedMatrix(torch.randn(1, SIZE, 4 * CELLS)),
        PackedMatrix(torch.randn(1, SIZE, 4 * CELLS)),
        DenseMatrix(torch.randn(1, CELLS, SIZE)),
    )
    _, hidden, cell = run_lstm(
        torch.randn(1, sum(step_sizes), SIZE),
        torch.zeros(1, step_sizes[0], SIZE),
        torch.zeros(1, step_sizes[0], CELLS),
        matrices,
        torch.zeros(1, 1, 4 * CELLS),
        LSTMClips(3.0, 3.0),
        step_sizes,
        [None] * len(step_sizes),
    )
    assert hidden.shape[1] == cell.shape[1] == step_sizes[0]
    assert len(matrices.input.held) > 3 and not any(matrices.input.held)
