"""The same sentences for all sides, and how their vectors are compared."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.sides import by_tokens, in_batches, largest_difference, smallest_cosine, write_batches
from benchmarks.worker import Batch

SENTENCES = [["the", "mill"], ["stop"], ["the", "old", "mill"]]


def test_batches_hold_the_sentences_in_every_form(tmp_path):
    (tmp_path / "words.json").write_text(json.dumps(["@@PADDING@@", "the", "mill", "stop", "old"]))
    files = write_batches(tmp_path, "test", in_batches(SENTENCES, 2))
    first, second = (Batch.read(file) for file in files)
    assert first.word_ids.tolist() == [[1, 2], [3, 0]]
    assert second.word_ids.tolist() == [[1, 4, 2]]
    assert first.char_ids.shape == (2, 4, 50)
    np.testing.assert_array_equal(first.char_ids[0, 1:-1], first.bare_char_ids[0])
    assert not first.char_ids[1, 3:].any()
    assert not first.bare_char_ids[1, 1:].any()


@given(st.lists(st.lists(st.just("a"), min_size=1, max_size=9), max_size=20), st.integers(1, 30))
def test_batches_by_tokens(sentences, tokens):
    batches = by_tokens(sentences, tokens)
    assert [words for batch in batches for words in batch] == sorted(sentences, key=len)
    for batch in batches:
        assert len(batch) == 1 or sum(len(words) + 2 for words in batch) <= tokens


@pytest.mark.parametrize(
    ("theirs", "difference"),
    [([[1.0, 2.5]], 0.5), ([[1.0, np.nan]], np.inf), ([[1.0, 2.0, 3.0]], np.inf)],
)
def test_largest_difference(theirs, difference, tmp_path):
    np.save(tmp_path / "ours.npy", [[1.0, 2.0]])
    np.save(tmp_path / "theirs.npy", theirs)
    assert largest_difference([tmp_path / "ours.npy"], [tmp_path / "theirs.npy"]) == difference


def test_smallest_cosine(tmp_path):
    np.save(tmp_path / "ours.npy", [[[1.0, 0.0], [1.0, 1.0]]])
    np.save(tmp_path / "theirs.npy", [[[2.0, 0.0], [1.0, 0.0]]])
    assert smallest_cosine([tmp_path / "ours.npy"], [tmp_path / "theirs.npy"]) == pytest.approx(0.5**0.5)
