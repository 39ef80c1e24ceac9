"""The LSTM's gradient by hand against autograd on the plain formula."""

import pytest
import torch
from torch.testing import assert_close

from elmo_hf import lstm_elmo
from elmo_hf.lstm_elmo import LSTMClips, LSTMWeights, lstm

SIZE, CELLS = 3, 5
STEP_SIZES = [4, 4, 2, 1, 1]


# Before words of the first, a middle and the last step, of the only sequence at its step and of some at theirs.
RESETS = torch.tensor([0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1]).bool()


def plain_lstm(inputs, hidden, cell, weights, clips, step_sizes, resets=None):
    """The formula, step by step, for autograd."""
    outputs, last_hidden, last_cell, start = [], [], [], 0
    for size in step_sizes:
        last_hidden.append(hidden[:, size:])
        last_cell.append(cell[:, size:])
        hidden, cell = hidden[:, :size], cell[:, :size]
        if resets is not None:
            anew = resets[start : start + size].view(1, -1, 1)
            hidden, cell = torch.where(anew, 0.0, hidden), torch.where(anew, 0.0, cell)
        gates = inputs[:, start : start + size] @ weights.input + hidden @ weights.recurrent + weights.bias
        i, j, f, o = gates.chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * j.tanh()
        if clips.cell is not None:
            cell = cell.clamp(-clips.cell, clips.cell)
        hidden = o.sigmoid() * cell.tanh()
        if weights.projection is not None:
            hidden = hidden @ weights.projection
            if clips.projection is not None:
                hidden = hidden.clamp(-clips.projection, clips.projection)
        outputs.append(hidden)
        start += size
    endings = [[*ends, last] for ends, last in ((last_hidden, hidden), (last_cell, cell))]
    return torch.cat(outputs, dim=1), *(torch.cat(ends[::-1], dim=1) for ends in endings)


def random_case(directions: int, projected: bool, dtype: torch.dtype):
    """Leaf tensors: inputs, states and weights, large enough for the clips to bite."""
    generator = torch.Generator().manual_seed(directions)
    size = SIZE if projected else CELLS
    shapes = [(sum(STEP_SIZES), size), (STEP_SIZES[0], size), (STEP_SIZES[0], CELLS)]
    shapes += [(size, 4 * CELLS), (size, 4 * CELLS), (1, 4 * CELLS)]
    shapes += [(CELLS, size)] if projected else []
    tensors = [torch.randn(directions, *shape, generator=generator, dtype=dtype) for shape in shapes]
    return [tensor.requires_grad_() for tensor in tensors] + ([] if projected else [None])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["plain products", "oneDNN's products"])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [LSTMClips(None, None), LSTMClips(0.5, 0.3)])
@pytest.mark.parametrize("gate_bytes", [1, 2**24])
@pytest.mark.parametrize("resets", [None, RESETS, ~RESETS], ids=["no resets", "resets", "other resets"])
def test_values_and_gradients_are_those_of_the_plain_formula(
    directions, projected, clips, gate_bytes, resets, dtype, monkeypatch
):
    for name in ("GATE_BYTES_PER_CHUNK", "GATE_BYTES_PER_LARGE_CHUNK"):
        monkeypatch.setattr(lstm_elmo, name, gate_bytes)
    monkeypatch.setattr(lstm_elmo, "MIN_ONEDNN_SIZE", 0)  # those are for fp32 alone
    for name in ("MIN_ONEDNN_WORDS", "ROWS_PER_BLOCK"):
        monkeypatch.setattr(lstm_elmo, name, 3)  # some chunks are whole blocks, some have words left over, or too few
    closeness = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    tensors = random_case(directions, projected, dtype)
    leaves = [tensor for tensor in tensors if tensor is not None]
    inputs, hidden, cell, *weights = tensors
    weights = LSTMWeights(*weights)

    expected = plain_lstm(inputs, hidden, cell, weights, clips, STEP_SIZES, resets)
    found = lstm(inputs, hidden, cell, weights, clips, STEP_SIZES, dtype, resets)
    assert_close(found, expected, **closeness)
    weighting = [torch.randn_like(tensor) for tensor in expected]  # all three outputs count
    gradients = torch.autograd.grad(found, leaves, weighting)
    assert_close(gradients, torch.autograd.grad(expected, leaves, weighting), **closeness)
    with torch.no_grad():
        found = lstm(inputs, hidden, cell, weights, clips, STEP_SIZES, dtype, resets)
        assert_close(found, expected, **closeness)


def test_resets_everywhere_make_every_word_a_sequence_of_its_own():
    inputs, hidden, cell, *weights = random_case(2, True, torch.float64)
    weights, clips, words = LSTMWeights(*weights), LSTMClips(0.5, 0.3), sum(STEP_SIZES)
    everywhere = torch.ones(words, dtype=torch.bool)
    found, *_ = lstm(inputs, hidden, cell, weights, clips, STEP_SIZES, torch.float64, everywhere)
    zeros = torch.zeros(2, words, SIZE, dtype=torch.float64), torch.zeros(2, words, CELLS, dtype=torch.float64)
    expected, *_ = lstm(inputs, *zeros, weights, clips, [words], torch.float64)
    assert_close(found, expected)
    leaves = [inputs, *weights]
    assert_close(torch.autograd.grad(found.sum(), leaves), torch.autograd.grad(expected.sum(), leaves))


def test_resets_that_are_none_change_no_bit():
    inputs, hidden, cell, *weights = random_case(2, True, torch.float64)
    case = (inputs, hidden, cell, LSTMWeights(*weights), LSTMClips(3, 3), STEP_SIZES, torch.float64)
    expected, found = lstm(*case), lstm(*case, torch.zeros(sum(STEP_SIZES), dtype=torch.bool))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_half_precision_products_keep_states_and_gradients_in_fp32():
    inputs, hidden, cell, *weights = random_case(2, True, torch.float32)
    weights = LSTMWeights(*weights)
    clips = LSTMClips(3.0, 3.0)
    exact = lstm(inputs, hidden, cell, weights, clips, STEP_SIZES, torch.float32)
    rounded = lstm(inputs, hidden, cell, weights, clips, STEP_SIZES, torch.float16)
    assert all(tensor.dtype == torch.float32 for tensor in rounded)
    assert_close(rounded, exact, atol=2e-2, rtol=0)
    gradients = [torch.autograd.grad(outputs[0].sum(), weights) for outputs in (rounded, exact)]
    assert_close(gradients[0], gradients[1], atol=0.1, rtol=0.05)
    assert not torch.equal(gradients[0][0], gradients[1][0])


def test_a_second_way_back_is_refused_since_the_steps_are_freed():
    inputs, hidden, cell, *weights = random_case(1, True, torch.float64)
    loss = lstm(inputs, hidden, cell, LSTMWeights(*weights), LSTMClips(3, 3), STEP_SIZES, torch.float64)[0].sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
