"""The time inside products is all of theirs, and of nothing else."""

import itertools
import time

import numpy as np
import pytest
import torch

from benchmarks.timed_products import PRODUCTS, TimedProducts
from elmo_hf import ElmoModel
from tests.models import random_words, tiny_model


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """One second passes from each look at it to the next."""
    seconds = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))


def test_products_are_counted_and_other_work_is_not():
    rows = torch.ones(1, 2, 2)
    with TimedProducts() as products:
        torch.bmm(rows, rows)
        torch.mm(rows[0], rows[0])
        torch.add(rows, rows)
        time.perf_counter()
    assert products.seconds == 2.0


def test_a_models_vectors_are_the_same_and_functions_are_theirs_again_behind_it():
    before = [getattr(place, name, None) for place, name in PRODUCTS]
    model: ElmoModel = tiny_model()
    few, many = (random_words(np.random.default_rng(0), rows, 3) for rows in (2, 40))
    for char_ids in (few, many):
        with torch.no_grad():
            expected = model(char_ids=char_ids).last_hidden_state
            with TimedProducts() as products:
                assert torch.equal(model(char_ids=char_ids).last_hidden_state, expected)
        assert products.seconds > 0
    assert [getattr(place, name, None) for place, name in PRODUCTS] == before
