"""The packed layout and the recurrent layer: right gradients, whatever the lengths and the chunks."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, lstm_elmo
from elmo_hf.recurrence_elmo import (
    MANY_ROWS,
    MANY_ROWS_IF_LARGE,
    MIN_PACKED_SIZE,
    ElmoPacking,
    ElmoRecurrentLayer,
    many_steps,
)
from tests.models import TINY

masks = st.integers(1, 5).flatmap(
    lambda words: st.lists(st.lists(st.booleans(), min_size=words, max_size=words), min_size=1, max_size=5)
)


@given(masks, st.integers(0, 2**31))
def test_packing_puts_each_direction_in_its_reading_order_and_back(mask, seed):
    mask = torch.tensor(mask)
    segments = torch.from_numpy(np.random.default_rng(seed).integers(0, 2, mask.shape)).sort(dim=1).values
    packing = ElmoPacking.of(mask, segments, [0, 1])
    words = torch.arange(int(mask.sum())).unsqueeze(-1)

    sequences = [[] for _ in packing.rows], [[] for _ in packing.rows]
    for direction, packed in enumerate(packing.pack(words)):
        start = 0
        for size in packing.step_sizes:
            for sequence, word in enumerate(packed[start : start + size].flatten().tolist()):
                sequences[direction][sequence].append(word)
            start += size
        assert start == len(words)
    expected, word = [], 0
    for row in range(len(mask)):
        runs: dict[int, list[int]] = {}
        for place in mask[row].nonzero().flatten().tolist():
            runs.setdefault(int(segments[row, place]), []).append(word)
            word += 1
        expected += [(row, run) for run in runs.values()]
    assert sorted(zip(packing.rows.tolist(), sequences[0], strict=True)) == sorted(expected)
    assert sequences[1] == [sequence[::-1] for sequence in sequences[0]]
    assert packing.step_sizes == sorted(packing.step_sizes, reverse=True)
    assert torch.equal(packing.unpack(packing.pack(words)), torch.cat([words, words], dim=-1))


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.sampled_from([[0], [1], [0, 1], [1, 0]]))
def test_a_single_row_is_packed_as_it_is_among_others(row, directions):
    alone = ElmoPacking.of(torch.tensor([row]), None, directions)
    among = ElmoPacking.of(torch.tensor([row, [False] * len(row)]), None, directions)
    assert alone.step_sizes == among.step_sizes
    for name in ("places", "words", "rows"):
        assert torch.equal(getattr(alone, name), getattr(among, name)), name


def layer_and_inputs(**fields):
    torch.manual_seed(0)
    layer = ElmoRecurrentLayer(ElmoConfig(**(TINY | {"cell_size": 5, "projection_size": 3} | fields)), layer_index=1)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    layer = layer.double()
    size = layer.recurrent_weight.shape[1]
    sizes, sequences = [3, 3, 2, 1], 3
    inputs = torch.randn(2, sum(sizes), size, dtype=torch.float64, requires_grad=True)
    hidden = torch.randn(2, sequences, size, dtype=torch.float64, requires_grad=True)
    cell = torch.randn(2, sequences, 5, dtype=torch.float64, requires_grad=True)
    return layer, inputs, hidden, cell, sizes


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
def test_gradients_of_the_recurrent_layer_equal_finite_differences(fields, resets):
    layer, inputs, hidden, cell, sizes = layer_and_inputs(**fields)
    parameters = list(layer.parameters())

    def run(inputs, hidden, cell, *weights):
        named = dict(zip(dict(layer.named_parameters()), weights, strict=True))
        return torch.func.functional_call(layer, named, (inputs, hidden, cell, sizes, [0, 1], resets))

    assert torch.autograd.gradcheck(run, (inputs, hidden, cell, *parameters), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("gate_bytes", [1, 500, 1000, 10**9])
def test_the_size_of_the_chunks_changes_nothing(gate_bytes, monkeypatch):
    layer, inputs, hidden, cell, sizes = layer_and_inputs()
    expected = layer(inputs, hidden, cell, sizes, [0, 1])
    monkeypatch.setattr(lstm_elmo, "GATE_BYTES_PER_CHUNK", gate_bytes)
    for found, wanted in zip(layer(inputs, hidden, cell, sizes, [0, 1]), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_the_directions_do_not_see_each_other():
    layer, inputs, hidden, cell, sizes = layer_and_inputs()
    output, *_ = layer(inputs, hidden, cell, sizes, [0, 1])
    output[0].sum().backward()
    assert inputs.grad[0].abs().sum() > 0
    assert inputs.grad[1].abs().sum() == 0
    for direction in (0, 1):
        alone, *_ = layer(
            inputs[direction : direction + 1],
            hidden[direction : direction + 1],
            cell[direction : direction + 1],
            sizes,
            [direction],
        )
        torch.testing.assert_close(alone[0], output[direction])


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_reset_divides_a_sequence_into_two(data, lengths):
    """The packed words of sentences one behind the other, against those of the sentences as sequences."""
    layer, *_ = layer_and_inputs()
    starts = [[0, *sorted(data.draw(st.sets(st.integers(1, 3).filter(lambda p, n=n: p < n))))] for n in lengths]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    resets = torch.zeros(mask.shape, dtype=torch.bool)
    for row, places in enumerate(starts):
        resets[row, places] = True
    words = torch.randn(int(mask.sum()), 3, dtype=torch.float64)
    outputs = []
    for segments, anew in ((None, resets[mask]), (resets.cumsum(dim=1), None)):
        packing = ElmoPacking.of(mask, segments, [0, 0])
        states = (torch.ones(2, len(packing.rows), size, dtype=torch.float64) for size in (3, 5))
        hidden, cell = (state if anew is not None else torch.zeros_like(state) for state in states)
        packed_anew = None if anew is None else anew[packing.words[0]]
        output, *_ = layer(packing.pack(words), hidden, cell, packing.step_sizes, [0, 1], packed_anew)
        outputs.append(packing.unpack(output))
    torch.testing.assert_close(*outputs)


def test_dropout_is_on_the_input_and_the_skip_connection_carries_it():
    layer, inputs, hidden, cell, sizes = layer_and_inputs(dropout=0.5)
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    output, *_ = layer.train()(inputs, torch.zeros_like(hidden), torch.zeros_like(cell), sizes, [0, 1])
    dropped = output == 0
    assert 0 < dropped.float().mean() < 1
    torch.testing.assert_close(output[~dropped], 2 * inputs[~dropped])


def test_small_weights_have_the_steps_with_many_sequences_and_large_ones_all_or_none():
    many, more = MANY_ROWS, MANY_ROWS_IF_LARGE
    assert many_steps([2 * many, many, many - 1, 1], MIN_PACKED_SIZE - 1) == 2
    assert many_steps([many - 1, 1], MIN_PACKED_SIZE - 1) == 0
    assert many_steps([2 * more - 1, 1], MIN_PACKED_SIZE) == 2
    assert many_steps([2 * more - 2, 1], MIN_PACKED_SIZE) == 0
