"""Approximate search: nearly all of the exact neighbours, with exact cosines; and life without the library."""

import importlib

import numpy as np
import pytest

from elmo_hf import ElmoIndex
from elmo_hf.errors import FolderError
from elmo_hf.index import index as index_module
from elmo_hf.index.approximate import GRAPH, Graph, build_graph
from elmo_hf.index.nearest import nearest
from tests.embedding.toy import toy_embedder
from tests.index.test_nearest import unit

EMBEDDER = toy_embedder()
TEXTS = ["the bank of the river", "a river in Zürich .", "the bank"]


@pytest.fixture(scope="module")
def vectors():
    """Around a few centres, as words are around their meanings."""
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((100, 64))
    return unit(centres[generator.integers(0, 100, 4000)] + generator.standard_normal((4000, 64))).astype(np.float16)


@pytest.fixture(scope="module")
def graph(vectors, tmp_path_factory):
    pytest.importorskip("usearch")
    path = tmp_path_factory.mktemp("graphs") / GRAPH
    build_graph(vectors, path)
    return Graph(path, vectors)


def queries(vectors: np.ndarray, count: int) -> np.ndarray:
    generator = np.random.default_rng(1)
    near = vectors[generator.integers(0, len(vectors), count)]
    return unit(near + 0.05 * generator.standard_normal(near.shape)).astype(np.float32)


def test_nearly_all_of_the_nearest_are_found_with_their_exact_cosines(vectors, graph):
    keys, recalls = np.zeros(len(vectors), np.uint64), []
    for query in queries(vectors, 50):
        approximate, exact = graph.nearest(query, 10), nearest(vectors, query, 10, keys)
        recalls.append(len(set(approximate.rows) & set(exact.rows)) / 10)
        np.testing.assert_allclose(approximate.cosines, vectors[approximate.rows].astype(np.float32) @ query, atol=1e-5)
        assert (np.diff(approximate.cosines) <= 0).all()
    assert np.mean(recalls) >= 0.95


def test_each_name_once_however_often_the_nearest_have_it(vectors, graph):
    keys = np.arange(len(vectors), dtype=np.uint64) % 3
    for query in queries(vectors, 5):
        approximate, exact = graph.nearest(query, 3, keys), nearest(vectors, query, 3, keys, distinct=True)
        assert sorted(keys[approximate.rows]) == [0, 1, 2]
        np.testing.assert_allclose(approximate.cosines, exact.cosines, atol=0.1)


def test_more_than_there_are_gives_all_there_are(tmp_path):
    pytest.importorskip("usearch")
    few = unit(np.random.default_rng(0).standard_normal((5, 8))).astype(np.float16)
    build_graph(few, tmp_path / GRAPH)
    few_neighbours = Graph(tmp_path / GRAPH, few).nearest(few[0].astype(np.float32), 10)
    assert sorted(few_neighbours.rows) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"?" * 100])
def test_a_damaged_graph_is_refused(tmp_path, damage):
    pytest.importorskip("usearch")
    folder = ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "index", approximate=True).folder
    (folder / GRAPH).write_bytes(damage((folder / GRAPH).read_bytes()))
    with pytest.raises(FolderError, match=GRAPH):
        ElmoIndex.load(folder)


def test_a_graph_of_other_vectors_is_refused(tmp_path, vectors):
    pytest.importorskip("usearch")
    folder = ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "index", approximate=True).folder
    build_graph(vectors[:20], folder / GRAPH)
    with pytest.raises(FolderError, match="other vectors"):
        ElmoIndex.load(folder)


# ---- when there is one


def has_graph(index: ElmoIndex) -> bool:
    return (index.folder / GRAPH).exists()


def test_there_is_a_graph_if_asked_for_or_if_there_are_many_vectors(tmp_path, monkeypatch):
    pytest.importorskip("usearch")
    assert not has_graph(ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "few"))
    assert has_graph(ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "asked", approximate=True))
    monkeypatch.setattr(index_module, "GRAPH_THRESHOLD", 10)
    assert has_graph(ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "many"))
    assert not has_graph(ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "exact", approximate=False))


def test_the_graph_is_searched_unless_all_vectors_are_to_be_compared(tmp_path, monkeypatch):
    pytest.importorskip("usearch")
    index = ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "index", approximate=True)
    exact = index.search(index[1].vector, 5, exact=True)
    monkeypatch.setattr(index_module, "nearest", None)  # which is the exact search
    neighbours = index.search(index[1].vector, 5)
    assert [neighbour.occurrence[2:] for neighbour in neighbours] == [neighbour.occurrence[2:] for neighbour in exact]
    np.testing.assert_allclose([similarity for similarity, _ in neighbours], [similarity for similarity, _ in exact])


def test_without_the_library_search_is_exact_and_a_graph_is_refused_with_a_remedy(tmp_path, monkeypatch):
    index = ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "index", approximate=True)
    find_spec, import_module = importlib.util.find_spec, importlib.import_module

    def refuse(name: str):
        if name.startswith("usearch"):
            raise ImportError(name)
        return import_module(name)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "usearch" else find_spec(name))
    monkeypatch.setattr(importlib, "import_module", refuse)
    monkeypatch.setattr(index_module, "GRAPH_THRESHOLD", 10)
    (nearest_one,) = ElmoIndex.load(index.folder).search(index[1].vector, 1)
    assert nearest_one.occurrence.position == 1
    assert not has_graph(ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "many"))
    with pytest.raises(ImportError, match=r'pip install "elmo-hf\[index\]"'):
        ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "asked", approximate=True)
    assert not (tmp_path / "asked").exists()
