"""Packed weights: the same products, never from old weights, no memory beyond what is needed."""

import copy
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoModel
from elmo_hf.modeling.products_elmo import PackedMatrix, PackedWeights, _is_mapped, in_blocks, packed_weights, page_out
from tests.models import random_words, tiny_model

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for its memory")


@given(st.integers(1, 600), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**31), st.booleans(), st.booleans())
def test_packed_products_equal_plain_ones(rows, inputs, outputs, seed, with_bias, reorder):
    generator = torch.Generator().manual_seed(seed)
    left, weight = torch.randn(rows, inputs, generator=generator), torch.randn(inputs, outputs, generator=generator)
    bias = torch.randn(outputs, generator=generator) if with_bias else None
    expected = left.double() @ weight.double() + (0 if bias is None else bias.double())
    matrix = PackedMatrix(weight, reorder)
    torch.testing.assert_close(matrix(left, bias), expected.float(), rtol=1e-5, atol=1e-5)
    total = torch.ones(rows + 3, outputs)[3:]  # as the gates of a time step among others
    torch.testing.assert_close(matrix.add(left, total), left @ weight + 1, rtol=1e-5, atol=1e-5)


@given(st.integers(0, 700))
def test_rows_go_through_in_blocks_and_keep_their_places(count):
    rows, sizes = torch.randn(count, 2), []
    assert torch.equal(in_blocks(lambda block: sizes.append(len(block)) or block * 2, rows), rows * 2)
    *full, last = sizes
    assert set(full) <= {256}
    assert last <= 256
    assert sum(sizes) == count


def get(packed: PackedWeights, weight: torch.Tensor) -> PackedMatrix:
    return packed.get("weight", torch.float32, PackedMatrix, weight)


def test_a_weight_is_packed_once():
    packed, weight = PackedWeights(), torch.nn.Parameter(torch.randn(8, 8))
    assert get(packed, weight) is get(packed, weight)


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.add_(1),
        lambda weight: weight[5].zero_(),
        lambda weight: setattr(weight, "data", weight.data + 1),
        lambda weight: weight.copy_(weight.flip(0)),
        lambda weight: torch.optim.SGD([weight], lr=0.1).step(),
        lambda weight: weight.data.add_(1),
        lambda weight: weight.data[:1].add_(1),
    ],
    ids=["in place", "a row", "other data", "loaded", "optimiser", "through data", "its first row through data"],
)
def test_a_changed_weight_is_packed_again(change):
    packed, weight = PackedWeights(), torch.nn.Parameter(torch.randn(8, 8))
    weight.grad = torch.ones_like(weight)
    get(packed, weight)
    with torch.no_grad():
        change(weight)
    torch.testing.assert_close(get(packed, weight)(torch.eye(8)), weight.detach())


@pytest.mark.parametrize("first", [0, 1], ids=["all values", "all but the first row"])
def test_weights_written_through_data_are_packed_again_or_when_asked(first):
    """Such a write leaves address and version as they are; the first values tell."""
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 4, 3)
    model.cache_words(100)
    with torch.no_grad():
        before = model(char_ids=char_ids).last_hidden_state
        for parameter in model.parameters():
            parameter.data.view(-1)[16 * first :].mul_(0.5)
        if first:
            model.pack_weights()
            model.cache_words(100)
        after = model(char_ids=char_ids).last_hidden_state
    expected = model(char_ids=char_ids).last_hidden_state.detach()  # with gradients nothing is packed
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(after, before, atol=1e-3)


def test_a_packed_weight_can_still_give_up_its_memory():
    """As sharded training does between calls."""
    weight = torch.nn.Parameter(torch.randn(8, 8))
    get(PackedWeights(), weight)
    weight.untyped_storage().resize_(0)


@pytest.mark.parametrize("optimizer", [torch.optim.Adagrad, torch.optim.AdamW])
def test_a_model_that_was_trained_gives_the_vectors_of_its_new_weights(optimizer):
    """Fused optimisers do not raise a weight's version."""
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 4, 5)
    optimizer = optimizer(model.parameters(), lr=0.1, fused=True)
    for mode in (True, False, True):
        model.train(mode)(char_ids=char_ids).last_hidden_state.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            vectors = model.eval()(char_ids=char_ids).last_hidden_state
        expected = model(char_ids=char_ids).last_hidden_state.detach()  # with gradients nothing is packed
        torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_a_change_of_mode_drops_the_packed_copies(mode, frozen):
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 4, 5)
    if frozen:
        model.freeze_bilm()
    with torch.no_grad():
        model(char_ids=char_ids)
    assert all(packed._packed for packed in packed_weights(model))
    model.train(mode)
    assert not any(packed._packed for packed in packed_weights(model))


def test_a_bias_learns_where_nothing_else_does():
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 2, 3)
    model.requires_grad_(False)
    bias = model.token_encoder.projection.bias.requires_grad_()
    model(char_ids=char_ids).last_hidden_state.sum().backward()
    assert bias.grad.abs().sum() > 0


def test_nothing_is_packed_where_that_is_off_or_impossible(monkeypatch):
    module, weight = torch.nn.Module(), torch.nn.Parameter(torch.randn(8, 8))
    assert PackedWeights().usable(module, weight)
    assert not PackedWeights(enabled=False).usable(module, weight)
    assert not PackedWeights().usable(module, weight, weight.detach().double())
    assert not PackedWeights().usable(module, weight.detach().to("meta"))
    with torch.backends.mkldnn.flags(enabled=False):
        assert not PackedWeights().usable(module, weight)
    monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
    assert not PackedWeights().usable(module, weight)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_of_a_model_pack_for_themselves(clone):
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 3, 3)
    with torch.no_grad():
        expected = model(char_ids=char_ids).last_hidden_state
        other = clone(model)
        torch.testing.assert_close(other(char_ids=char_ids).last_hidden_state, expected)
        other.token_encoder.projection.weight.zero_()
        torch.testing.assert_close(model(char_ids=char_ids).last_hidden_state, expected)


def test_packing_can_be_turned_off_and_on():
    model: ElmoModel = tiny_model()
    few, many = (random_words(np.random.default_rng(0), rows, 3) for rows in (2, 40))

    @torch.no_grad()
    def vectors():
        return torch.cat([model(char_ids=char_ids).last_hidden_state for char_ids in (few, many)])

    expected = vectors()
    assert all(packed._packed for packed in packed_weights(model))
    model.pack_weights(False)
    torch.testing.assert_close(vectors(), expected, rtol=1e-5, atol=1e-5)
    assert not any(packed._packed for packed in packed_weights(model))
    model.pack_weights()
    assert torch.equal(vectors(), expected)


# ---- memory


def resident_megabytes() -> int:
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024


@on_linux
def test_mapped_weights_leave_memory_once_they_are_packed_and_can_be_read_again(tmp_path):
    """64 MB of weights: the pages of a file can be read again, so they need not stay."""
    torch.save({"weight": torch.randn(4096, 4096)}, tmp_path / "weight.pt")
    weight = torch.load(tmp_path / "weight.pt", mmap=True)["weight"]
    total = weight.sum()  # reads all of it
    assert _is_mapped(weight)
    assert not _is_mapped(weight.clone())
    before = resident_megabytes()
    page_out(weight)
    assert resident_megabytes() < before - 32
    assert weight.sum() == total


def test_memory_that_is_not_of_a_file_keeps_its_values():
    weight = torch.arange(2**20, dtype=torch.float32)
    page_out(weight)
    assert torch.equal(weight, torch.arange(2**20, dtype=torch.float32))
