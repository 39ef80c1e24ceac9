"""Packed weights: the same products, never from old weights, no memory that could be had back."""

import copy
import pickle
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoModel
from elmo_hf.products_elmo import (
    DenseMatrix,
    PackedMatrix,
    PackedWeight,
    SmallMatrix,
    in_blocks,
    weight_state,
)
from tests.models import random_words, tiny_model


@given(st.integers(1, 200), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**31), st.booleans())
def test_packed_products_equal_plain_ones(rows, inputs, outputs, seed, with_bias):
    generator = torch.Generator().manual_seed(seed)
    left, weight = torch.randn(rows, inputs, generator=generator), torch.randn(outputs, inputs, generator=generator)
    bias = torch.randn(outputs, generator=generator) if with_bias else None
    expected = torch.nn.functional.linear(left.double(), weight.double(), None if bias is None else bias.double())
    matrix = PackedMatrix(weight.T.unsqueeze(0))
    found = matrix(left.unsqueeze(0), None if bias is None else bias.view(1, 1, -1))
    torch.testing.assert_close(found[0], expected.float(), rtol=1e-5, atol=1e-5)
    total = torch.ones(1, rows, outputs)
    torch.testing.assert_close(matrix.add(total, left.unsqueeze(0))[0], (left @ weight.T) + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", [1, 5, 300])
@pytest.mark.parametrize("kind", [DenseMatrix, PackedMatrix])
def test_products_are_those_of_each_direction(kind, number):
    rows, weight, bias = torch.randn(2, number, 3), torch.randn(2, 3, 4), torch.randn(2, 1, 4)
    matrix = kind(weight)
    expected = torch.stack([rows[direction] @ weight[direction] for direction in (0, 1)])
    torch.testing.assert_close(matrix[1:](rows[1:]), expected[1:])
    torch.testing.assert_close(matrix(rows), expected)
    torch.testing.assert_close(matrix(rows, bias), expected + bias)
    torch.testing.assert_close(matrix.add(torch.ones(2, number, 4), rows), expected + 1)
    apart = torch.ones(2, number + 3, 4)[:, 3:]  # as the gates of a time step among others
    torch.testing.assert_close(matrix.add(apart, rows), expected + 1)
    torch.testing.assert_close(matrix.add(torch.ones(2, number, 4), rows, torch.empty(2, number, 4)), expected + 1)
    of_each = [torch.ones(number, 4), 2 * torch.ones(number, 4)]
    shifted = expected + torch.tensor([1, 2]).view(2, 1, 1)
    torch.testing.assert_close(matrix.add(of_each, rows), shifted)
    torch.testing.assert_close(matrix.add(of_each, rows, torch.empty(2, number, 4)), shifted)


@pytest.mark.parametrize("number", [1, 5, 300])
def test_packed_products_of_the_directions_may_stay_apart(number):
    rows, bias = torch.randn(2, number, 3), torch.randn(2, 1, 4)
    matrix = PackedMatrix(torch.randn(2, 3, 4))
    assert all(map(torch.equal, matrix.apart(rows, bias), matrix(rows, bias)))


@pytest.mark.parametrize("number", [1, 2, 3, 13])
def test_a_small_layer_s_recurrent_weight_has_its_candidate_stretched_in_both_layouts(number):
    rows, weight = torch.randn(2, number, 3), torch.randn(2, 3, 8)
    expected = rows @ weight
    expected[..., 2:4] *= -2
    small = SmallMatrix(weight)
    matrix = small.for_rows(number)
    assert isinstance(matrix, DenseMatrix if number <= 2 else PackedMatrix)
    torch.testing.assert_close(matrix(rows), expected)
    torch.testing.assert_close(small[1:].for_rows(number)(rows[1:]), expected[1:])
    torch.testing.assert_close(matrix.add(torch.ones(2, number, 8), rows), expected + 1)


@pytest.mark.parametrize("number", [3, 300])
@pytest.mark.parametrize(("name", "activation"), [("relu", torch.relu), ("sigmoid", torch.sigmoid)])
def test_an_activation_may_be_a_part_of_a_packed_product(name, activation, number):
    rows, weight, bias = torch.randn(1, number, 3), torch.randn(1, 3, 4), torch.randn(1, 1, 4)
    torch.testing.assert_close(PackedMatrix(weight)(rows, bias, name), activation(rows @ weight + bias))


@given(st.integers(0, 700))
def test_rows_go_through_in_blocks_of_few_sizes_and_keep_their_places(number):
    rows, sizes = torch.randn(number, 2), []
    assert torch.equal(in_blocks(lambda block: sizes.append(len(block)) or block * 2, rows), rows * 2)
    *full, last = sizes
    assert set(full) <= {256}
    assert last in {*range(9), *range(10, 33, 2), *range(36, 65, 4), *range(80, 257, 16)}
    assert 0 <= sum(sizes) - number < 16


def pack(weight: torch.Tensor) -> PackedMatrix:
    return PackedMatrix(weight.unsqueeze(0))


def packed_once(packed: PackedWeight, weight: torch.Tensor) -> PackedMatrix | None:
    with torch.no_grad():
        return packed.get(weight, torch.float32, pack, weight)


def test_a_weight_is_packed_once():
    packed, weight = PackedWeight(), torch.nn.Parameter(torch.randn(8, 8))
    assert packed_once(packed, weight) is packed_once(packed, weight)


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.add_(1),
        lambda weight: weight.data.mul_(1.001),  # leaves the version as it is
        lambda weight: setattr(weight, "data", weight.data + 1),
        lambda weight: weight.data[5].zero_(),
        lambda weight: weight.data[5].neg_(),
        lambda weight: weight.data.copy_(weight.data.flip(0)),
        lambda weight: setattr(weight, "data", weight.data.T),  # at the same address
        lambda weight: torch.optim.Adagrad([weight], fused=True).step(),  # leaves it too
    ],
    ids=["in place", "data in place", "other data", "a row", "signs", "rows", "transposed", "optimiser"],
)
@pytest.mark.parametrize("size", [8, 32])
def test_a_changed_weight_is_packed_again(change, size):
    packed, weight = PackedWeight(), torch.nn.Parameter(torch.randn(size, size))
    weight.grad = torch.ones_like(weight)
    packed_once(packed, weight)
    with torch.no_grad():
        change(weight)
    torch.testing.assert_close(packed_once(packed, weight)(torch.eye(size)[None])[0], weight.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8], ids=str)
@pytest.mark.parametrize("size", [0, 1, 7, 70_001])
@pytest.mark.parametrize(
    "lay", [lambda table: table[:, 0].contiguous(), lambda table: table[:, 0]], ids=["side by side", "apart"]
)
def test_a_weight_of_any_layout_has_a_state_that_tells_its_values(dtype, size, lay):
    table = torch.arange(3 * size).remainder(100).view(size, 3).to(dtype)
    weight, same = lay(table), lay(table.clone())
    assert weight_state(weight).is_moved(weight_state(same))
    if size:
        same[0] += 1
        assert weight_state(weight).values != weight_state(same).values


def test_a_packed_weight_can_still_give_up_its_memory():
    """As sharded training does between calls."""
    weight = torch.nn.Parameter(torch.randn(8, 8))
    assert packed_once(PackedWeight(), weight) is not None
    weight.untyped_storage().resize_(0)


def test_large_weights_are_compared_in_many_rows_and_columns():
    packed, weight = PackedWeight(), torch.nn.Parameter(torch.randn(512, 2048))
    packed_once(packed, weight)
    first = packed._packed
    weight.data[:, ::2] *= 1.5  # every second column
    assert packed_once(packed, weight) is not first


def test_what_was_packed_is_forgotten_when_the_weight_learns():
    """A step of training may change it in ways that are not seen."""
    packed, weight = PackedWeight(), torch.nn.Parameter(torch.randn(8, 8))
    packed_once(packed, weight)
    assert packed.get(weight, torch.float32, pack, weight) is None
    assert packed._packed is None


@pytest.mark.parametrize("smallest", [0, 2**20], ids=["packed", "dense"])
def test_a_model_that_was_trained_gives_the_vectors_of_its_new_weights(monkeypatch, smallest):
    monkeypatch.setattr("elmo_hf.recurrence_elmo.MIN_PACKED_SIZE", smallest)
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 2, 5)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1, fused=True)
    for _ in range(3):
        model.train()(char_ids=char_ids).last_hidden_state.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            found = model.eval()(char_ids=char_ids).last_hidden_state
        expected = model(char_ids=char_ids).last_hidden_state.detach()  # where gradients are wanted nothing is packed
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_bias_learns_where_nothing_else_does():
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 2, 3)
    model.requires_grad_(False)
    bias = model.token_encoder.projection.bias.requires_grad_()
    model(char_ids=char_ids).last_hidden_state.sum().backward()
    assert bias.grad.abs().sum() > 0


def test_a_weight_that_is_brought_for_each_call_is_not_packed_for_good():
    """Offloaded weights are to take no memory between calls."""
    packed, weight = PackedWeight(), torch.randn(8, 8)
    kept = [weight.clone() for _ in range(6)]  # at once, so that they lie at different addresses
    assert [packed_once(packed, one) is not None for one in kept] == [True] * 4 + [False] * 2
    assert packed._packed is None
    brought = weakref.ref(kept.pop())
    assert brought() is None


def test_nothing_is_packed_where_a_gradient_is_wanted_or_packing_is_off():
    weight = torch.nn.Parameter(torch.randn(8, 8))
    assert PackedWeight().get(weight.detach(), torch.float32, pack, weight) is None
    assert packed_once(PackedWeight(enabled=False), weight) is None
    assert packed_once(PackedWeight(), weight.detach().double()) is None
    with torch.backends.mkldnn.flags(enabled=False):
        assert packed_once(PackedWeight(), weight) is None
    frozen = weight.detach()
    assert PackedWeight().get(frozen, torch.float32, pack, frozen) is not None


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_of_a_model_pack_for_themselves(clone):
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 2, 3)
    with torch.no_grad():
        expected = model(char_ids=char_ids).last_hidden_state
        other = clone(model)
        torch.testing.assert_close(other(char_ids=char_ids).last_hidden_state, expected)
        other.token_encoder.projection.weight.zero_()
        torch.testing.assert_close(model(char_ids=char_ids).last_hidden_state, expected)


def test_packing_can_be_turned_off_and_on(monkeypatch):
    monkeypatch.setattr("elmo_hf.recurrence_elmo.MIN_PACKED_SIZE", 0)
    model: ElmoModel = tiny_model()
    few, many = (random_words(np.random.default_rng(0), rows, 3) for rows in (2, 40))
    packs = [
        packed for module in model.modules() for packed in vars(module).values() if isinstance(packed, PackedWeight)
    ]

    @torch.no_grad()
    def vectors():
        return torch.cat([model(char_ids=char_ids).last_hidden_state for char_ids in (few, many)])

    expected = vectors()
    assert all(packed._packed for packed in packs)
    model.pack_weights(False)
    assert not any(packed._packed for packed in packs)
    torch.testing.assert_close(vectors(), expected, rtol=1e-5, atol=1e-5)
    assert not any(packed._packed for packed in packs)
    model.pack_weights()
    assert torch.equal(vectors(), expected)
