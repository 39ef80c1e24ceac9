"""The texts of the benchmarks, with and without the corpora."""

import itertools
import lzma

import numpy as np
import pytest

from benchmarks import texts
from benchmarks.texts import character_ids, read_corpus, read_sentences, read_words


@pytest.fixture(params=["corpus", "default"])
def heldout(request, tmp_path, monkeypatch):
    file = tmp_path / "heldout.txt.xz"
    if request.param == "corpus":
        file.write_bytes(lzma.compress(b"one two three\n\nfour\n"))
    monkeypatch.setattr(texts, "HELDOUT", file)
    return file


def test_corpus_is_repeated_where_it_is_short(heldout):
    sentences, source = read_corpus(200)
    assert len(sentences) == 200
    assert all(sentences)
    first = [["one", "two", "three"], ["four"]] if heldout.exists() else read_sentences(None)
    assert sentences == list(itertools.islice(itertools.cycle(first), 200))
    assert source == ("heldout.txt.xz" if heldout.exists() else "benchmarks.texts")
    assert read_words(5) == list(itertools.islice(itertools.chain(*sentences), 5))


def test_character_ids_with_and_without_boundaries():
    bare, bounded = (character_ids([["a"], ["b", "c"]], boundaries) for boundaries in (False, True))
    assert bare.shape == (2, 2, 50)
    assert bounded.shape == (2, 4, 50)
    np.testing.assert_array_equal(bounded[:, 1:-1][0, 0], bare[0, 0])
    assert not bare[0, 1].any()
    assert not bounded[0, 3].any()
