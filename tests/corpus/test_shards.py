"""Shards: safetensors files that hold what was put in, whole or not at all."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from elmo_hf.corpus.readers import Record
from elmo_hf.corpus.shards import EmbeddedRecord, Layout, Shard, digest, write_shard
from elmo_hf.errors import ModelError

LAYOUTS = st.builds(
    Layout,
    size=st.integers(1, 5),
    layers=st.sampled_from([None, 1, 3]),
    pooled=st.booleans(),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
)
RECORDS = st.lists(
    st.builds(
        EmbeddedRecord,
        st.text(max_size=5),
        st.lists(st.text(max_size=3), max_size=4),
        st.none() | st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
    ),
    max_size=5,
)


def vectors_of(records: list[EmbeddedRecord], layout: Layout) -> list[np.ndarray]:
    """As an embedder gives them: `(words, size)`, `(size,)`, or one of these for each layer."""
    random = np.random.default_rng(0)
    lead = () if layout.layers is None else (layout.layers,)
    return [
        random.normal(size=(*lead, *(() if layout.pooled else (len(record.words),)), layout.size)).astype(np.float32)
        for record in records
    ]


def layers_of(record: np.ndarray, layout: Layout) -> list[np.ndarray]:
    return [record] if layout.layers is None else list(record)


def numbered(vectors: list[np.ndarray], layout: Layout) -> list[tuple[int, list[np.ndarray]]]:
    return [(index, layers_of(record, layout)) for index, record in enumerate(vectors)]


@given(LAYOUTS, RECORDS, st.integers(1, 100), st.randoms())
def test_a_shard_gives_back_what_was_written_in_any_order(tmp_path_factory, layout, records, at_most, random):
    path, vectors = tmp_path_factory.getbasetemp() / "shard", vectors_of(records, layout)
    shuffled = numbered(vectors, layout)
    random.shuffle(shuffled)
    write_shard(path, layout, records, shuffled, source="some digest")
    shard = Shard(path, layout)
    assert shard.source == "some digest"
    assert (shard.num_records, shard.num_words) == (len(records), sum(len(record.words) for record in records))
    assert b"".join(shard.vectors(at_most)) == b"".join(
        layout.stored(layers_of(record, layout)).tobytes() for record in vectors
    )

    batches = list(shard.batches(at_most))
    assert [record for batch in batches for record in batch.records] == records
    read = [
        layout.as_embedded(part)
        for batch in batches
        for part in np.split(batch.vectors, np.cumsum(layout.rows(batch.lengths))[:-1])
    ]
    for ours, record in zip(read, vectors, strict=True):
        assert ours.shape == record.shape
        if layout.dtype != "bfloat16":
            np.testing.assert_array_equal(ours, record.astype(layout.dtype))
    for batch in batches:  # no more than asked for, unless one record alone has more
        assert batch.vectors.nbytes <= at_most or len(batch.records) == 1 or batch.vectors.nbytes <= layout.row_bytes


@given(LAYOUTS, RECORDS)
def test_safetensors_reads_it(tmp_path_factory, layout, records):
    path, vectors = tmp_path_factory.getbasetemp() / "shard.safetensors", vectors_of(records, layout)
    write_shard(path, layout, records, numbered(vectors, layout), source="")
    with safe_open(path, "pt") as file:
        assert file.get_tensor("lengths").tolist() == [len(record.words) for record in records]
        lines = bytes(file.get_tensor("records").tolist()).splitlines()
        assert [EmbeddedRecord(**json.loads(line)) for line in lines] == records
        assert [b'"columns"' in line for line in lines] == [record.columns is not None for record in records]
        stored = file.get_tensor("vectors")
    assert stored.dtype == getattr(torch, layout.dtype)
    assert stored.shape[1:] == layout.row
    rows = layout.rows(np.array([len(record.words) for record in records], dtype=int)).tolist()
    for record, part in zip(vectors, stored.split(rows), strict=True):
        expected = torch.from_numpy(record).to(stored.dtype)
        if layout.layers is not None and not layout.pooled:
            expected = expected.transpose(0, 1)
        assert torch.equal(part.reshape(expected.shape), expected)


def test_a_shard_that_was_cut_short_is_none(tmp_path):
    path, layout = tmp_path / "shard", Layout(2)
    records = [EmbeddedRecord("a b", ["a", "b"])]
    write_shard(path, layout, records, numbered(vectors_of(records, layout), layout), source="")
    content = path.read_bytes()
    for length in (0, 4, 30, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError):
            Shard(path, layout)


def test_an_error_leaves_nothing_behind(tmp_path):
    def vectors():
        yield 1, [np.zeros((1, 2), np.float32)]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shard(tmp_path / "shard", Layout(2), [EmbeddedRecord("a", ["a"])] * 2, vectors(), source="")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("vectors", "message"),
    [([(0, 2)], "1 of 2 records"), ([(0, 2), (1, 2)], "record 1 has vectors"), ([(0, 2), (0, 2)], "1 of 2 records")],
)
def test_vectors_that_are_not_those_of_the_records_are_no_shard(tmp_path, vectors, message):
    records = [EmbeddedRecord("a b", ["a", "b"]), EmbeddedRecord("c", ["c"])]
    given = [(index, [np.zeros((words, 3), np.float32)]) for index, words in vectors]
    with pytest.raises(RuntimeError, match=message):
        write_shard(tmp_path / "shard", Layout(3), records, given, source="")
    assert list(tmp_path.iterdir()) == []


def test_a_vector_that_float16_cannot_hold_is_refused():
    with pytest.raises(ModelError, match="--dtype bfloat16"):
        Layout(1, dtype="float16").stored([np.full((1, 1), 1e6, np.float32)])


def test_the_digest_tells_texts_words_and_their_order_apart():
    records = [Record("a b"), Record("a b", ["a", "b"]), Record("a b", ["a b"]), Record("a"), Record("b")]
    assert len({digest([record]) for record in records} | {digest(records), digest(records[::-1])}) == 7
