"""Compiled kernels stand in for the plain ones for a while, and compute the same."""

import shutil

import pytest
import torch

from elmo_hf.modeling import lstm_autograd_elmo, softmax_elmo
from elmo_hf.pretraining.compilation import KERNELS, compiled_kernels


def kernels() -> list:
    return [getattr(module, name) for module, name, _ in KERNELS]


@pytest.fixture
def compilations(monkeypatch):
    """Functions that were given to a `torch.compile` that wraps them, with its options."""
    given = []

    def compile(function, **options):
        given.append((function, options))
        return lambda *arguments: function(*arguments)

    monkeypatch.setattr(torch, "compile", compile)
    return given


def test_kernels_are_replaced_within_and_restored_after(compilations):
    plain = kernels()
    with compiled_kernels():
        assert not set(kernels()) & set(plain)
        assert [function for function, _ in compilations] == plain
        gates, cell = torch.randn(1, 2, 12), torch.randn(1, 2, 3)
        torch.testing.assert_close(lstm_autograd_elmo.cell_step(gates, cell, None), plain[0](gates, cell, None))
    assert kernels() == plain


def test_only_the_softmax_is_compiled_for_any_shape(compilations):
    with compiled_kernels():
        pass
    assert {function.__name__: options for function, options in compilations} == {
        "cell_step": {"dynamic": False},
        "cell_step_backward": {"dynamic": False},
        "cross_entropy": {"dynamic": True},
    }


def test_kernels_are_restored_after_an_error_within(compilations):
    plain = kernels()
    with pytest.raises(KeyboardInterrupt), compiled_kernels():
        raise KeyboardInterrupt
    assert kernels() == plain


def test_kernels_are_restored_where_compilation_fails(monkeypatch):
    plain, calls = kernels(), []

    def compile(function, **options):
        calls.append(function)
        if len(calls) == 2:
            raise RuntimeError("no compiler")
        return lambda *arguments: None

    monkeypatch.setattr(torch, "compile", compile)
    with pytest.raises(RuntimeError, match="no compiler"), compiled_kernels():
        pytest.fail("never begun")
    assert kernels() == plain


def test_unwanted_compilation_changes_nothing(compilations):
    plain = kernels()
    with compiled_kernels(False):
        assert kernels() == plain
    assert kernels() == plain
    assert not compilations


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_kernels_equal_the_plain_ones():
    torch.manual_seed(0)
    gates, cell = 3 * torch.randn(2, 5, 32), 2 * torch.randn(2, 5, 8)
    d_output, d_cell = torch.randn(2, 2, 5, 8)
    logits, labels = (4 * torch.randn(9, 30)).requires_grad_(), torch.randint(0, 30, (9,))

    def compute():
        *activated, new_cell, cell_output = lstm_autograd_elmo.cell_step(gates, cell, 1.5)
        step = lstm_autograd_elmo._Step(torch.zeros(0), cell, *activated, new_cell)
        loss = softmax_elmo.cross_entropy(logits, labels)
        return [
            *activated,
            new_cell,
            cell_output,
            *lstm_autograd_elmo.cell_step_backward(d_output, d_cell, step, 1.5),
            loss,
            *torch.autograd.grad(loss, logits),
        ]

    plain = compute()
    assert (plain[4].abs() == 1.5).any()  # clipped
    with compiled_kernels():
        compiled = compute()
    for one, other in zip(compiled, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
