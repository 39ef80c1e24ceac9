"""Cached token vectors equal computed ones, across calls, threads and precisions, and never those of other weights."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from elmo_hf.modeling.token_encoder_elmo import WordCache
from tests.models import random_words, tiny_model


def doubled(words: torch.Tensor) -> torch.Tensor:
    return words.float() * 2


@given(st.integers(1, 5), st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=8))
def test_a_cache_of_any_size_gives_what_the_encoder_gives_and_keeps_the_words_used_last(capacity, calls):
    cache, expected = WordCache(capacity, 1), []
    for numbers in calls:
        words = torch.tensor(sorted(numbers)).unsqueeze(1)
        asked = []
        vectors = cache.vectors(words, lambda new, asked=asked: asked.extend(new[:, 0].tolist()) or doubled(new), [])
        assert torch.equal(vectors, doubled(words))
        assert asked == [word_id for word_id in sorted(numbers) if word_id not in expected]
        known = [word_id for word_id in sorted(numbers) if word_id in expected]
        expected = [word_id for word_id in expected if word_id not in numbers] + known + asked
        expected = expected[-capacity:]
        assert len(cache) == len(expected)


def test_other_weights_start_the_cache_anew():
    cache, weight, words = WordCache(4, 1), torch.nn.Parameter(torch.ones(1)), torch.tensor([[1], [2]])
    for factor in (1, 3):
        with torch.no_grad():
            weight.fill_(factor)
        assert torch.equal(cache.vectors(words, lambda new: new * weight.detach(), [weight]), words.float() * factor)


def test_a_model_gives_the_same_vectors_with_a_warm_cache_and_after_its_weights_change():
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 3, 8)
    with torch.no_grad():
        expected = model(char_ids=char_ids).last_hidden_state
        model.cache_words(5)
        for _ in range(3):
            torch.testing.assert_close(model(char_ids=char_ids).last_hidden_state, expected, rtol=1e-5, atol=1e-5)
        assert len(model.token_encoder.word_cache) == 5
        model.token_encoder.projection.weight.data.mul_(2)
        changed = model(char_ids=char_ids).last_hidden_state
        model.cache_words(0)
        torch.testing.assert_close(model(char_ids=char_ids).last_hidden_state, changed, rtol=1e-5, atol=1e-5)


def test_each_precision_has_its_own_words():
    model, char_ids = tiny_model(cell_size=32, projection_size=16), random_words(np.random.default_rng(0), 2, 5)
    with torch.no_grad():
        expected = model(char_ids=char_ids).last_hidden_state
        model.cache_words(50)
        with torch.autocast("cpu", torch.float16):
            model(char_ids=char_ids)
        torch.testing.assert_close(model(char_ids=char_ids).last_hidden_state, expected, rtol=1e-5, atol=1e-5)
        double = model.double()(char_ids=char_ids).last_hidden_state
        model.cache_words(0)
        assert torch.equal(model(char_ids=char_ids).last_hidden_state, double)


def test_cached_words_go_through_the_characters_once_over_calls():
    model, seen = tiny_model(), []
    model.cache_words(100)
    model.token_encoder.characters.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    words = random_words(np.random.default_rng(0), 1, 6)
    with torch.no_grad():
        model(char_ids=words[:, :4])
        model(char_ids=words)
        model(char_ids=words)
    assert sum(seen) == len({tuple(row) for row in words[0].tolist()})


def test_training_does_not_read_the_cache():
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 2, 3)
    model.cache_words(10)
    with torch.no_grad():
        model(char_ids=char_ids)
    model(char_ids=char_ids).last_hidden_state.sum().backward()
    assert model.token_encoder.projection.weight.grad.abs().sum() > 0


def test_a_cache_without_room_is_refused():
    with pytest.raises(ValueError, match="1 word or more"):
        WordCache(-1, 4)


def test_words_cached_in_inference_mode_can_be_used_and_replaced_outside_of_it():
    model = tiny_model()
    chars = random_words(np.random.default_rng(0), 2, 5)
    with torch.no_grad():
        expected = [model(char_ids=some).last_hidden_state for some in (chars[:1], chars)]
    model.cache_words(6)
    with torch.inference_mode():
        model(char_ids=chars[:1])
    with torch.no_grad():
        for some, vectors in zip((chars[:1], chars), expected, strict=True):
            assert_close(model(char_ids=some).last_hidden_state, vectors)


def test_threads_share_a_cache():
    model, char_ids = tiny_model(), [random_words(np.random.default_rng(seed), 2, 6) for seed in range(24)]

    def run(ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(char_ids=ids).last_hidden_state

    expected = [run(ids) for ids in char_ids]
    model.cache_words(7)
    with ThreadPoolExecutor(8) as pool:
        for vectors, wanted in zip(pool.map(run, char_ids), expected, strict=True):
            torch.testing.assert_close(vectors, wanted, rtol=1e-5, atol=1e-5)
