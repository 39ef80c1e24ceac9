"""The packed layout, and the three loops over time: the same values and gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from elmo_hf import ElmoConfig
from elmo_hf.modeling import lstm_autograd_elmo, lstm_cpu_elmo
from elmo_hf.modeling.lstm_autograd_elmo import lstm_autograd
from elmo_hf.modeling.lstm_cpu_elmo import lstm_cpu
from elmo_hf.modeling.lstm_elmo import ElmoPacking, ElmoRecurrentLayer, LSTMWeights, lstm
from elmo_hf.modeling.products_elmo import PackedMatrix
from tests.models import TINY

SIZE, CELLS = 3, 5
BATCH_SIZES = [4, 4, 2, 1, 1]
# Before words of the first, a middle and the last step; of the only sequence of a step, and of some of a step's.
RESETS = torch.tensor([0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1]).bool()

masks = st.integers(1, 5).flatmap(
    lambda words: st.lists(st.lists(st.booleans(), min_size=words, max_size=words), min_size=1, max_size=5)
)


# ---- the packed layout


@given(masks, st.integers(0, 2**31))
def test_packing_puts_each_direction_in_its_reading_order_and_back(mask, seed):
    mask = torch.tensor(mask)
    segments = torch.from_numpy(np.random.default_rng(seed).integers(0, 2, mask.shape)).sort(dim=1).values
    packing = ElmoPacking.of(mask, segments, [0, 1])
    words = 1 + torch.arange(mask.numel()).view(*mask.shape, 1) * mask.unsqueeze(-1)
    both = torch.cat([words, 100 + words], dim=-1) * mask.unsqueeze(-1)

    sequences = [[] for _ in packing.rows], [[] for _ in packing.rows]
    for direction, packed in enumerate(packing.pack(both)):
        start = 0
        for size in packing.batch_sizes:
            for sequence, word in enumerate(packed[start : start + size].flatten().tolist()):
                sequences[direction][sequence].append(word - 100 * direction)
            start += size
        assert start == mask.sum()
    expected = []
    for row in range(len(mask)):
        runs: dict[int, list[int]] = {}
        for place in mask[row].nonzero().flatten().tolist():
            runs.setdefault(int(segments[row, place]), []).append(int(words[row, place]))
        expected += [(row, run) for run in runs.values()]
    assert sorted(zip(packing.rows.tolist(), sequences[0], strict=True)) == sorted(expected)
    assert sequences[1] == [sequence[::-1] for sequence in sequences[0]]
    assert packing.batch_sizes == sorted(packing.batch_sizes, reverse=True)
    assert torch.equal(packing.unpack(packing.pack(both)), both)


def test_a_batch_without_positions_packs_into_nothing():
    for shape in ((0, 3), (2, 0), (0, 0)):
        packing = ElmoPacking.of(torch.zeros(shape, dtype=torch.bool), None, [0, 1])
        assert packing.batch_sizes == []
        assert packing.unpack(packing.pack(torch.zeros(*shape, 4))).shape == (*shape, 4)


# ---- the loops


def random_case(directions: int, projected: bool, dtype: torch.dtype, clips=(0.5, 0.3)):
    """Inputs, states and weights as leaf tensors, large enough for the clips to matter."""
    generator = torch.Generator().manual_seed(directions)
    size = SIZE if projected else CELLS
    shapes = [(sum(BATCH_SIZES), size), (BATCH_SIZES[0], size), (BATCH_SIZES[0], CELLS)]
    shapes += [(size, 4 * CELLS), (size, 4 * CELLS), (1, 4 * CELLS)]
    shapes += [(CELLS, size)] if projected else []
    tensors = [torch.randn(directions, *shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]
    inputs, hidden, cell, *weights = tensors
    return tensors, (inputs, hidden, cell, LSTMWeights(*weights, *([] if projected else [None]), *clips))


def test_the_plain_loop_is_the_textbook_s_step():
    """One sequence of one word in NumPy, gates i, j, f, o."""
    _, (inputs, hidden, cell, weights) = random_case(1, True, torch.float64)
    output, last_hidden, last_cell = lstm(inputs[:, :1], hidden[:, :1], cell[:, :1], weights, [1])
    w = [tensor.detach().numpy()[0] for tensor in weights[:4]]
    gates = inputs[0, :1].detach().numpy() @ w[0] + hidden[0, :1].detach().numpy() @ w[1] + w[2]
    i, j, f, o = np.split(gates, 4, axis=1)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    new_cell = np.clip(sigmoid(f) * cell[0, :1].detach().numpy() + sigmoid(i) * np.tanh(j), -0.5, 0.5)
    expected = np.clip((sigmoid(o) * np.tanh(new_cell)) @ w[3], -0.3, 0.3)
    np.testing.assert_allclose(output[0].detach(), expected, atol=1e-12)
    np.testing.assert_allclose(last_hidden[0].detach(), expected, atol=1e-12)
    np.testing.assert_allclose(last_cell[0].detach(), new_cell, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["plain products", "oneDNN's products"])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [(None, None), (0.5, 0.3)])
@pytest.mark.parametrize("chunk_bytes", [1, 2**24])
@pytest.mark.parametrize("resets", [None, RESETS, ~RESETS], ids=["no resets", "resets", "other resets"])
def test_the_gradient_by_hand_is_that_of_the_plain_loop(
    directions, projected, clips, chunk_bytes, resets, dtype, monkeypatch
):
    for name in ("GATE_BYTES_PER_CHUNK", "GATE_BYTES_PER_LARGE_CHUNK"):
        monkeypatch.setattr(lstm_autograd_elmo, name, chunk_bytes)
    monkeypatch.setattr(lstm_cpu_elmo, "GATE_BYTES_PER_CHUNK", chunk_bytes)
    monkeypatch.setattr(lstm_autograd_elmo, "MIN_ONEDNN_SIZE", 0)  # oneDNN's products are for fp32 only
    for name in ("MIN_ONEDNN_WORDS", "ROWS_PER_BLOCK"):
        monkeypatch.setattr(lstm_autograd_elmo, name, 3)  # whole blocks, words left over, and too few words
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    leaves, case = random_case(directions, projected, dtype, clips)

    expected = lstm(*case, BATCH_SIZES, resets)
    results = lstm_autograd(*case, BATCH_SIZES, resets)
    assert_close(results, expected, **tolerance)
    weighting = [torch.randn_like(tensor) for tensor in expected]  # all three outputs count
    gradients = torch.autograd.grad(results, leaves, weighting)
    assert_close(gradients, torch.autograd.grad(expected, leaves, weighting), **tolerance)
    with torch.no_grad():
        assert_close(lstm_autograd(*case, BATCH_SIZES, resets), expected, **tolerance)


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=300),
    directions=st.integers(1, 2),
    projected=st.booleans(),
    clips=st.sampled_from([(0.3, 0.2), (None, None)]),
    has_resets=st.booleans(),
    seed=st.integers(0, 9),
)
def test_the_cpu_loop_has_the_outputs_and_states_of_the_plain_one(
    lengths, directions, projected, clips, has_resets, seed
):
    cells = 16
    size = 8 if projected else cells
    torch.manual_seed(seed)
    batch_sizes = [sum(length > step for length in lengths) for step in range(max(lengths))]
    inputs = torch.randn(directions, sum(lengths), size)
    hidden, cell = torch.randn(directions, len(lengths), size), 0.3 * torch.randn(directions, len(lengths), cells)
    # Small enough for rounding errors not to grow from step to step.
    gates = torch.randn(2, directions, size, 4 * cells) / size**0.5
    projection = torch.randn(directions, cells, size) / cells**0.5 if projected else None
    bias = torch.randn(directions, 1, 4 * cells)
    resets = torch.rand(sum(lengths)) < 0.5 if has_resets else None
    weights = LSTMWeights(*gates[:1], gates[1], bias, projection, *clips)
    packed = weights._replace(
        **{
            name: None if weight is None else [PackedMatrix(matrix) for matrix in weight]
            for name, weight in (("input", gates[0]), ("recurrent", gates[1]), ("projection", projection))
        }
    )
    before = inputs.clone(), hidden.clone(), cell.clone()
    results = lstm_cpu(inputs, hidden, cell, packed, batch_sizes, resets)
    assert_close(results, lstm(inputs, hidden, cell, weights, batch_sizes, resets), atol=1e-5, rtol=1e-5)
    assert all(map(torch.equal, (inputs, hidden, cell), before))  # the arguments stay as they are


@pytest.mark.parametrize("loop", [lstm, lstm_autograd])
def test_resets_everywhere_make_every_word_a_sequence_of_its_own(loop):
    leaves, (inputs, hidden, cell, weights) = random_case(2, True, torch.float64)
    words = sum(BATCH_SIZES)
    everywhere = torch.ones(words, dtype=torch.bool)
    outputs, *_ = loop(inputs, hidden, cell, weights, BATCH_SIZES, everywhere)
    zeros = torch.zeros(2, words, SIZE, dtype=torch.float64), torch.zeros(2, words, CELLS, dtype=torch.float64)
    expected, *_ = loop(inputs, *zeros, weights, [words])
    assert_close(outputs, expected)
    leaves = [inputs, *weights[:4]]
    assert_close(torch.autograd.grad(outputs.sum(), leaves), torch.autograd.grad(expected.sum(), leaves))


def test_half_precision_products_leave_states_in_fp32():
    _, (inputs, hidden, cell, weights) = random_case(2, True, torch.float32, (3.0, 3.0))
    halves = LSTMWeights(*(weight.detach().half().requires_grad_() for weight in weights[:4]), 3.0, 3.0)
    exact = lstm_autograd(inputs, hidden, cell, weights, BATCH_SIZES)
    for loop in (lstm, lstm_autograd):
        rounded = loop(inputs, hidden, cell, halves, BATCH_SIZES)
        assert all(tensor.dtype == torch.float32 for tensor in rounded)
        assert_close(rounded, exact, atol=2e-2, rtol=0)
        assert not torch.equal(rounded[0], exact[0])


def test_a_second_backward_pass_is_refused_since_the_steps_are_freed():
    _, case = random_case(1, True, torch.float64)
    loss = lstm_autograd(*case, BATCH_SIZES)[0].sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@pytest.mark.parametrize("scale", [1e-4, 1.0, 3.0])
def test_a_tanh_made_of_sigmoids_loses_no_digit_that_counts(scale):
    torch.manual_seed(0)
    weight = scale * torch.randn(1, 4, 4 * 256)
    nothing = PackedMatrix(torch.zeros(256, 4 * 256))
    weights = LSTMWeights([PackedMatrix(weight[0])], [nothing], torch.zeros(1, 1, 4 * 256), None, None, None)
    inputs = torch.randn(1, 64, 4)
    output, *_ = lstm_cpu(inputs, torch.zeros(1, 64, 256), torch.zeros(1, 64, 256), weights, [64])
    i, j, _, o = (inputs.double() @ weight.double()).chunk(4, dim=-1)
    assert (output - o.sigmoid() * torch.tanh(i.sigmoid() * torch.tanh(j))).abs().max() < 1e-6


# ---- the layer


def layer_and_inputs(dtype: torch.dtype = torch.float64, **fields):
    torch.manual_seed(0)
    layer = ElmoRecurrentLayer(ElmoConfig(**(TINY | {"cell_size": 5, "projection_size": 3} | fields)), layer_index=1)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    layer = layer.to(dtype)
    size = layer.recurrent_weight.shape[1]
    batch_sizes = [3, 3, 2, 1]
    shapes = (sum(batch_sizes), size), (batch_sizes[0], size), (batch_sizes[0], 5)
    return layer, *(torch.randn(2, *shape, dtype=dtype, requires_grad=True) for shape in shapes), batch_sizes


@pytest.mark.medium
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"projection_size": None},
        {"cell_clip": None, "projection_clip": None},
        {"cell_clip": 0.5, "projection_clip": 0.4},
        {"skip_connections": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("resets", [None, torch.tensor([0, 1, 0, 0, 0, 1, 1, 0, 1]).bool()], ids=["", "resets"])
def test_gradients_of_the_layer_equal_finite_differences(fields, resets):
    layer, inputs, hidden, cell, batch_sizes = layer_and_inputs(**fields)
    parameters = list(layer.parameters())

    def run(inputs, hidden, cell, *weights):
        named = dict(zip(dict(layer.named_parameters()), weights, strict=True))
        return torch.func.functional_call(layer, named, (inputs, hidden, cell, batch_sizes, [0, 1], resets))

    assert torch.autograd.gradcheck(run, (inputs, hidden, cell, *parameters), eps=1e-6, atol=1e-6)


def test_the_directions_do_not_see_each_other():
    layer, inputs, hidden, cell, batch_sizes = layer_and_inputs()
    output, *_ = layer(inputs, hidden, cell, batch_sizes, [0, 1])
    output[0].sum().backward()
    assert inputs.grad[0].abs().sum() > 0
    assert inputs.grad[1].abs().sum() == 0
    for direction in (0, 1):
        one = slice(direction, direction + 1)
        single, *_ = layer(inputs[one], hidden[one], cell[one], batch_sizes, [direction])
        assert_close(single[0], output[direction])


@pytest.mark.medium
@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_reset_divides_a_sequence_into_two(data, lengths):
    """The words of sentences one after the other in a row, against the sentences as segments."""
    layer, *_ = layer_and_inputs()
    starts = [[0, *sorted(data.draw(st.sets(st.integers(1, 3).filter(lambda p, n=n: p < n))))] for n in lengths]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    resets = torch.zeros(mask.shape, dtype=torch.bool)
    for row, places in enumerate(starts):
        resets[row, places] = True
    words = torch.randn(*mask.shape, 2 * 3, dtype=torch.float64)
    outputs = []
    for segments, are_reset in ((None, True), (resets.cumsum(dim=1), False)):
        packing = ElmoPacking.of(mask, segments, [0, 0])
        states = (torch.ones(2, len(packing.rows), size, dtype=torch.float64) for size in (3, 5))
        hidden, cell = (state if are_reset else torch.zeros_like(state) for state in states)
        packed_resets = resets.flatten()[packing.order[0]] if are_reset else None
        output, *_ = layer(packing.pack(words), hidden, cell, packing.batch_sizes, [0, 1], packed_resets)
        outputs.append(packing.unpack(output))
    assert_close(*outputs)


def test_dropout_is_on_the_input_and_the_skip_connection_carries_it():
    layer, inputs, hidden, cell, batch_sizes = layer_and_inputs(dropout=0.5)
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    output, *_ = layer.train()(inputs, torch.zeros_like(hidden), torch.zeros_like(cell), batch_sizes, [0, 1])
    dropped = output == 0
    assert 0 < dropped.float().mean() < 1
    assert_close(output[~dropped], 2 * inputs[~dropped])


@pytest.mark.parametrize("is_large", [True, False])
def test_recurrent_weights_are_packed_for_many_sequences_and_large_layers(is_large, monkeypatch):
    monkeypatch.setattr("elmo_hf.modeling.lstm_elmo.LARGE_MATRIX", 0 if is_large else 10**9)
    layer, inputs, hidden, cell, _ = layer_and_inputs(torch.float32)
    layer.eval()
    with torch.no_grad():
        layer(inputs[:, :2], hidden[:, :2], cell[:, :2], [2], [0, 1])
        assert ("recurrent_weight" in layer.packed._packed) == is_large
        layer(inputs[:, :3], hidden, cell, [3], [0, 1])
    assert "recurrent_weight" in layer.packed._packed
    layer(inputs[:, :3], hidden, cell, [3], [0, 1])  # with gradients: the weights may change soon
    assert not layer.packed._packed


def test_the_environment_can_ask_for_the_plain_loop_only(monkeypatch):
    layer, inputs, hidden, cell, batch_sizes = layer_and_inputs(torch.float32)
    expected = layer(inputs, hidden, cell, batch_sizes, [0, 1])
    monkeypatch.setenv("ELMO_HF_ENGINE", "plain")

    def refuse(*_):
        raise AssertionError("not the plain loop")

    monkeypatch.setattr("elmo_hf.modeling.lstm_elmo.lstm_autograd", refuse)
    monkeypatch.setattr("elmo_hf.modeling.lstm_elmo.lstm_cpu", refuse)
    assert_close(layer(inputs, hidden, cell, batch_sizes, [0, 1]), expected, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        assert_close(layer(inputs, hidden, cell, batch_sizes, [0, 1]), expected, atol=1e-5, rtol=1e-5)
    monkeypatch.setenv("ELMO_HF_ENGINE", "quick")
    with pytest.raises(ValueError, match="ELMO_HF_ENGINE must be `fast` or `plain`, found 'quick'"):
        layer(inputs, hidden, cell, batch_sizes, [0, 1])


def test_the_plain_loop_runs_on_a_device_without_values_or_float64():
    """The meta device has shapes only: what asks for values, or for an operator of CPUs alone, fails."""
    layer, inputs, hidden, cell, batch_sizes = layer_and_inputs(torch.float32)
    layer = layer.to("meta")
    outputs = layer(*(tensor.to("meta") for tensor in (inputs, hidden, cell)), batch_sizes, [0, 1])
    assert [output.shape for output in outputs] == [inputs.shape, hidden.shape, cell.shape]
    assert {output.dtype for output in outputs} == {torch.float32}
    with torch.no_grad():
        layer.eval()(*(tensor.to("meta") for tensor in (inputs, hidden, cell)), batch_sizes, [0, 1])
