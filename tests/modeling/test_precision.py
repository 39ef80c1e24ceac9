"""Which precision products run in: bf16 only where it works, never at the price of the process."""

import signal

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_hf import ElmoConfig, ElmoForPreTraining
from elmo_hf.modeling import products_elmo
from elmo_hf.modeling.products_elmo import (
    AMX_TRIAL,
    amx_works,
    bf16_is_fast,
    bf16_is_fatal,
    packed_dtype,
    product_dtype,
)
from elmo_hf.modeling.task_layers_elmo import ElmoTaskLinear, ElmoTaskLSTMLayer
from tests.models import TINY, random_words, tiny_model

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _asked_anew():
    for answer in (bf16_is_fast, bf16_is_fatal):
        answer.cache_clear()
    yield
    for answer in (bf16_is_fast, bf16_is_fatal):
        answer.cache_clear()


def processor(monkeypatch, avx512_bf16: bool, amx: bool):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)


@pytest.mark.parametrize(
    ("avx512_bf16", "amx", "works", "expected"),
    [
        (False, False, True, False),
        (True, False, False, True),  # nothing to try
        (True, True, True, True),
        (True, True, False, False),
    ],
)
def test_bf16_products_are_for_processors_that_have_them_and_amx_that_works(
    monkeypatch, avx512_bf16, amx, works, expected
):
    processor(monkeypatch, avx512_bf16, amx)
    monkeypatch.setattr(products_elmo, "amx_works", lambda: works)
    assert bf16_is_fast() is expected


def test_amx_is_tried_once(monkeypatch):
    trials = []
    processor(monkeypatch, True, True)
    monkeypatch.setattr(products_elmo, "amx_works", lambda: trials.append(1) or False)
    assert [bf16_is_fast(), bf16_is_fast()] == [False, False]
    assert len(trials) == 1


@pytest.mark.parametrize("code", [f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})", "raise SystemExit(3)"])
def test_a_trial_that_dies_is_told_and_costs_nothing_else(code, monkeypatch):
    told = []
    monkeypatch.setattr(products_elmo.logger, "warning", told.append)
    assert not amx_works(code)
    assert len(told) == 1
    assert ("SIGILL" in told[0]) == ("os.kill" in code)
    assert "fp32" in told[0]


def test_a_trial_that_lives_means_amx_works():
    assert amx_works("pass")
    compile(AMX_TRIAL, "trial", "exec")


def test_inside_another_program_nothing_is_started(monkeypatch):
    monkeypatch.setattr(products_elmo.sys, "executable", "/usr/sbin/a-server")
    monkeypatch.setattr(products_elmo.subprocess, "run", lambda *_, **__: pytest.fail("started a process"))
    assert not amx_works()


@pytest.mark.parametrize("usable", [False, True])
def test_half_precision_weights_are_multiplied_in_bf16_only_where_that_pays(monkeypatch, usable):
    monkeypatch.setattr(products_elmo, "bf16_is_fast", lambda: usable)
    fast = torch.bfloat16 if usable else torch.float32
    assert packed_dtype(torch.bfloat16, CPU) == fast
    assert packed_dtype(torch.float16, CPU) == torch.float32
    assert packed_dtype(torch.float32, CPU) == torch.float32
    assert product_dtype(torch.bfloat16, CPU) == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert packed_dtype(torch.float32, CPU) == fast


def test_where_bf16_is_fatal_autocast_multiplies_in_fp32(monkeypatch):
    """Every product that is not of a head's own modules: encoder, layers, softmax, both ways."""
    monkeypatch.setattr(products_elmo, "bf16_is_fatal", lambda: True)
    monkeypatch.setattr(products_elmo, "bf16_is_fast", lambda: False)
    torch.manual_seed(0)
    model = ElmoForPreTraining(ElmoConfig(**TINY)).eval()
    char_ids, labels = random_words(np.random.default_rng(0), 2, 3), torch.ones(2, 3, dtype=torch.long)
    expected = model(char_ids=char_ids, labels=labels).loss
    expected.backward()
    with torch.autocast("cpu", torch.bfloat16), Dtypes() as seen:
        loss = model(char_ids=char_ids, labels=labels).loss
    loss.backward()
    assert torch.equal(loss, expected)
    assert torch.bfloat16 not in seen.dtypes
    with torch.autocast("cpu", torch.bfloat16), Dtypes() as seen:
        ElmoTaskLinear(3, 2)(torch.randn(4, 3))
        ElmoTaskLSTMLayer(3, 2)(torch.randn(4, 3, 3))
    assert torch.bfloat16 not in seen.dtypes


class Dtypes(TorchDispatchMode):
    """The precisions of all results under it."""

    def __init__(self):
        super().__init__()
        self.dtypes = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.dtypes |= {value.dtype for value in tree_leaves(result) if isinstance(value, torch.Tensor)}
        return result


@pytest.mark.parametrize("usable", [False, True])
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_half_precision_vectors_are_near_those_in_fp32(monkeypatch, rows, dtype, usable):
    if usable and not bf16_is_fast():
        pytest.skip("this processor has no bf16 products")
    monkeypatch.setattr(products_elmo, "bf16_is_fast", lambda: usable)
    model = tiny_model(cell_size=64, projection_size=32)
    char_ids = random_words(np.random.default_rng(0), rows, 9)
    with torch.no_grad():
        expected = model(char_ids=char_ids).last_hidden_state
        vectors = model.to(dtype)(char_ids=char_ids).last_hidden_state
    assert vectors.dtype == dtype
    assert torch.nn.functional.cosine_similarity(vectors.float(), expected, dim=-1).min() > 0.999
