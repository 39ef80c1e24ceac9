"""Words of a batch by sentence, and pooling: only a sentence's own words count, in any order and in any parts."""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch.testing import assert_close

from elmo_hf import ElmoConfig
from elmo_hf.embedding.sentence_files import METHODS
from elmo_hf.modeling.pooling_elmo import (
    HEAD_POOLINGS,
    POOLINGS,
    REDUCTIONS,
    ElmoPooling,
    ElmoSentencePooling,
    ElmoSentences,
    PoolingAccumulator,
    number_segments,
    pool,
)

KINDS = list(HEAD_POOLINGS)


@given(data=st.data(), rows=st.integers(1, 4), words=st.integers(1, 6), segments=st.integers(1, 3))
def test_every_word_is_gathered_into_its_sentence_in_order_and_scattered_back(data, rows, words, segments):
    draw = lambda most: torch.tensor(  # noqa: E731
        data.draw(
            st.lists(st.lists(st.integers(0, most), min_size=words, max_size=words), min_size=rows, max_size=rows)
        )
    )
    is_word, numbers = draw(1).bool(), draw(segments - 1)
    values = torch.arange(rows * words).view(rows, words) + 1
    sentences = ElmoSentences.of(is_word, numbers if segments > 1 else None, segments)
    gathered = sentences.gather(values)
    assert len(gathered) == rows * segments
    for row in range(rows):
        for segment in range(segments):
            chosen = is_word[row] & (numbers[row] == segment if segments > 1 else True)
            pooled = gathered[row * segments + segment]
            mask = sentences.mask[row * segments + segment]
            assert pooled[mask].tolist() == values[row][chosen].tolist()
            assert mask.tolist() == sorted(mask.tolist(), reverse=True)  # left-aligned
            assert not pooled[~mask].any()
    assert torch.equal(sentences.scatter(gathered), values * is_word)


@given(st.lists(st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=4, max_size=4), max_size=3))
def test_segments_are_numbered_by_their_changes(rows):
    table = torch.tensor(rows, dtype=torch.long).view(-1, 4, 2)
    numbers, count = number_segments(table[..., 0], table[..., 1].bool())
    expected = []
    for row in rows:
        values, number = [value for value, is_word in row if is_word], 0
        for place, value in enumerate(values):
            number += place > 0 and value != values[place - 1]
            expected.append(number)
    assert numbers[table[..., 1].bool()].tolist() == expected
    assert count == max(expected, default=0) + 1


def test_vectors_go_the_same_way_and_gradients_back():
    is_word = torch.tensor([[0, 1, 1, 0], [0, 1, 0, 0]], dtype=torch.bool)
    vectors = torch.randn(2, 4, 3, requires_grad=True)
    sentences = ElmoSentences.of(is_word)
    spread = sentences.scatter(sentences.gather(vectors))
    assert torch.equal(spread, vectors * is_word.unsqueeze(-1))
    spread.sum().backward()
    assert torch.equal(vectors.grad, is_word.unsqueeze(-1).expand(2, 4, 3).float())


def test_a_batch_without_words_has_sentences_of_one_empty_place():
    sentences = ElmoSentences.of(torch.zeros(2, 3, dtype=torch.bool))
    assert sentences.mask.tolist() == [[False], [False]]
    assert not sentences.scatter(torch.ones(2, 1)).any()


# ==== Pooling


@st.composite
def sentences_of_words(draw) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors `(sentences, words, 3)`, and a mask that is true for any of the words."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 5)))
    words = draw(arrays.arrays(np.float32, (*shape, 3), elements=st.floats(-100, 100, width=32)))
    return torch.from_numpy(words), torch.from_numpy(draw(arrays.arrays(bool, shape)))


def pooling_of(kind: str) -> ElmoPooling:
    torch.manual_seed(0)
    return ElmoPooling(kind, 3)


def reference(pooling: ElmoPooling, kind: str, words: torch.Tensor) -> torch.Tensor:
    """`(words, 3)` → `(output_size,)`"""
    if not len(words):
        return torch.zeros(pooling.output_size)
    parts = {"mean": words.mean(0), "max": words.amax(0), "min": words.amin(0)}
    if pooling.score is not None:
        parts["attention"] = pooling.score(words).squeeze(-1).softmax(0) @ words
    names = ["max", "mean", "min", "attention"] if kind == "biattentive" else [kind]
    return torch.cat([parts[name] for name in names])


@pytest.mark.parametrize("kind", KINDS)
@given(batch=sentences_of_words())
def test_each_sentence_is_pooled_over_its_own_words(kind, batch):
    words, mask = batch
    pooling = pooling_of(kind)
    expected = torch.stack([reference(pooling, kind, row[chosen]) for row, chosen in zip(words, mask, strict=True)])
    assert_close(pooling(words, mask), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", REDUCTIONS)
@given(batch=sentences_of_words(), value=st.sampled_from([0.0, 1e30, -1e30, torch.inf, -torch.inf, torch.nan]))
def test_masked_words_have_no_influence_whatever_they_are(name, batch, value):
    words, mask = batch
    changed = words.masked_fill(~mask.unsqueeze(-1), value)
    assert torch.equal(pool(changed, name, mask), pool(words, name, mask))


@pytest.mark.parametrize("kind", KINDS)
@given(batch=sentences_of_words(), padding=st.integers(1, 3), left=st.booleans())
def test_padding_on_either_side_changes_nothing(kind, batch, padding, left):
    words, mask = batch
    sides = (padding, 0) if left else (0, padding)
    padded = torch.nn.functional.pad(words, (0, 0, *sides)), torch.nn.functional.pad(mask, sides)
    pooling = pooling_of(kind)
    assert_close(pooling(*padded), pooling(words, mask), rtol=1e-6, atol=1e-5)


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
@given(batch=sentences_of_words(), data=st.data())
def test_the_order_of_the_words_does_not_matter(kind, batch, data):
    words, mask = batch
    order = torch.tensor(data.draw(st.permutations(range(words.shape[1]))))
    pooling = pooling_of(kind)
    assert_close(pooling(words[:, order], mask[:, order]), pooling(words, mask), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", REDUCTIONS)
@given(batch=sentences_of_words(), data=st.data())
def test_words_in_parts_give_the_same_as_all_words(name, batch, data):
    words, mask = batch
    count = words.shape[1]
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))  # parts may be empty
    masked, unmasked = PoolingAccumulator(name), PoolingAccumulator(name)
    for start, stop in zip([0, *cuts], [*cuts, count], strict=True):
        masked.add(words[:, start:stop], mask[:, start:stop])
        unmasked.add(words[:, start:stop])
    assert_close(masked.result(), pool(words, name, mask), rtol=1e-6, atol=1e-5)
    assert_close(unmasked.result(), pool(words, name, torch.ones_like(mask)), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_no_words_give_zeros(name):
    words = torch.randn(2, 4, 3)
    assert pool(words, name, torch.zeros(2, 4, dtype=torch.bool)).tolist() == [[0, 0, 0]] * 2
    assert pool(words[:, :0], name).tolist() == [[0, 0, 0]] * 2
    with pytest.raises(ValueError, match="nothing to pool"):
        PoolingAccumulator(name).result()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_mean_in_half_precision_is_summed_in_fp32(dtype):
    torch.manual_seed(0)
    parts = torch.rand(40, 100, 2).to(dtype)
    accumulator = PoolingAccumulator("mean")
    for part in parts:
        accumulator.add(part)
    assert accumulator.result().dtype == dtype
    assert_close(accumulator.result().double(), parts.double().mean((0, 1)), rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_the_words_of_each_sentence_and_no_padding(kind):
    words, mask = torch.randn(2, 4, 3, requires_grad=True), torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]]).bool()
    pooling_of(kind)(words, mask).square().sum().backward()
    assert words.grad[0, :3].any()
    assert not words.grad[~mask].any()


def test_the_names_of_poolings_are_the_same_everywhere():
    assert set(POOLINGS) - {"sentence"} <= set(REDUCTIONS)
    assert METHODS.keys() == set(POOLINGS)
    assert tuple(HEAD_POOLINGS) == get_args(ElmoConfig.__annotations__["pooling"])


def sentence_pooling(layers: list[int], size: int = 5) -> ElmoSentencePooling:
    config = ElmoConfig(vocab_size=7, cell_size=8, projection_size=4, sentence_layers=layers, sentence_size=size)
    pooling = ElmoSentencePooling(config)
    for buffer in pooling.buffers():
        buffer.copy_(torch.rand_like(buffer) + 0.1)
    return pooling


@pytest.mark.parametrize("layers", [[0], [2, 1]])
def test_sentence_vectors_are_weighted_means_centred_and_projected(layers):
    pooling, ids = sentence_pooling(layers), torch.tensor([[0, 3, 4, 3, 1], [0, 2, 1, 7, 7]])
    vectors = [torch.randn(2, 5, 8) for _ in range(3)]
    mask = torch.tensor([[0, 1, 1, 1, 0], [0, 1, 0, 0, 0]]).bool()
    rows = []
    for row, places in enumerate([[1, 2, 3], [1]]):
        weights = torch.stack([pooling.word_weights[ids[row, place]] for place in places])
        words = [torch.cat([vectors[layer][row, place] for layer in layers]) for place in places]
        mean = sum(weight * word for weight, word in zip(weights, words, strict=True)) / weights.sum()
        rows.append((mean - pooling.mean) @ pooling.projection)
    torch.testing.assert_close(pooling(vectors, ids, mask), torch.stack(rows))


def test_a_sentence_without_words_has_a_sentence_vector_of_zeros():
    pooling = sentence_pooling([1])
    vectors = pooling([torch.randn(1, 2, 8)] * 3, torch.tensor([[0, 1]]), torch.zeros(1, 2, dtype=torch.bool))
    assert not vectors.any()


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 2**31))
def test_a_weighted_mean_in_parts_is_that_of_all_words(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(2, sum(lengths), 3, generator=generator, dtype=torch.float64)
    weights = torch.rand(sum(lengths), generator=generator, dtype=torch.float64) + 1e-3
    accumulator = PoolingAccumulator("mean")
    for part, some in zip(words.split(lengths, dim=1), weights.split(lengths), strict=True):
        accumulator.add(part, weights=some)
    torch.testing.assert_close(accumulator.result(), (words * weights[:, None]).sum(dim=1) / weights.sum())


def test_only_a_mean_takes_weights():
    with pytest.raises(ValueError, match="Only the mean takes weights"):
        PoolingAccumulator("max").add(torch.zeros(2, 3), weights=torch.ones(2))
