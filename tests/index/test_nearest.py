"""Exact search: the same as comparing with everything at once, a block at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.index import nearest as module
from elmo_hf.index.nearest import ROUNDING, nearest


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def random_units(generator: np.random.Generator, count: int, size: int, spread: float = 1.0) -> np.ndarray:
    """With a small spread they are close to each other, as vectors of one word are."""
    return unit(1 + spread * generator.standard_normal((count, size))).astype(np.float32)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)


@given(
    count=st.integers(1, 40),
    size=st.integers(2, 9),
    k=st.integers(1, 45),
    dtype=st.sampled_from([np.float16, np.float32]),
    spread=st.sampled_from([0.001, 0.05, 5.0]),
    wanted=st.sampled_from([None, 0, 3, 99]),
    distinct=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_blocks_find_what_one_look_at_everything_finds(count, size, k, dtype, spread, wanted, distinct, seed):
    generator = np.random.default_rng(seed)
    vectors = random_units(generator, count, size, spread).astype(dtype)
    vectors[generator.integers(0, count, count // 3)] = vectors[0]  # equal ones
    query = random_units(generator, 1, size, spread)[0]
    keys = generator.integers(0, 5, count).astype(np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", 7)
        neighbours = nearest(vectors, query, k, keys, wanted, distinct)

    cosines = vectors.astype(np.float64) @ query
    allowed = [row for row in np.argsort(-cosines, kind="stable") if wanted is None or keys[row] == wanted]
    if distinct:
        allowed = [row for place, row in enumerate(allowed) if keys[row] not in keys[allowed[:place]]]
    np.testing.assert_allclose(neighbours.cosines, cosines[allowed[:k]], atol=1e-6)
    np.testing.assert_allclose(neighbours.cosines, cosines[neighbours.rows], atol=1e-6)
    assert len(set(neighbours.rows)) == len(neighbours.rows)


def test_of_equals_the_first_of_the_corpus_comes_first(small_blocks):
    vectors = np.tile(np.eye(4, dtype=np.float16), (20, 1))
    neighbours = nearest(vectors, np.eye(4, dtype=np.float32)[2], 5, np.zeros(80, np.uint64))
    assert neighbours.rows.tolist() == [2, 6, 10, 14, 18]


@pytest.mark.parametrize("size", [1, 8, 100, 512, 1024, 4096])
@pytest.mark.parametrize("shape", ["random", "positive", "spiky"])
def test_products_in_half_precision_are_as_close_as_the_search_relies_on(size, shape):
    """Else a near neighbour could be passed over: sums must be kept in single precision."""
    generator = np.random.default_rng(size)
    vectors = generator.standard_normal((500, size))
    vectors = {"random": vectors, "positive": np.abs(vectors), "spiky": vectors**5}[shape]
    vectors = torch.from_numpy(unit(vectors))
    query = vectors[0]
    products = torch.mv(vectors.half(), query.half()).double()
    assert (products - vectors.half().double() @ query).abs().max() < ROUNDING / 2


def test_no_more_than_a_block_is_looked_at_together(small_blocks, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "_tensor", lambda vectors: seen.append(len(vectors)) or torch.from_numpy(vectors))
    vectors = random_units(np.random.default_rng(0), 100, 5).astype(np.float16)
    nearest(vectors, vectors[0].astype(np.float32), 3, np.zeros(100, np.uint64))
    assert max(seen) == 7
