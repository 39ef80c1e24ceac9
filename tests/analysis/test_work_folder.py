"""Intermediate results: stored once, read again, and never mixed up with those of another analysis."""

import numpy as np
import pytest

from elmo_hf.analysis.work_folder import ANALYSIS, WorkFolder, digest, model_digest
from elmo_hf.errors import RunError
from tests.analysis.toy import toy_embedder

IDENTITY = {"analysis": "senses", "model": "a", "data": "b"}


def never():
    raise AssertionError("computed again")


def test_arrays_and_records_are_computed_once(tmp_path):
    with WorkFolder(tmp_path / "work", IDENTITY) as work:
        work.array("vectors", lambda: np.arange(6).reshape(2, 3))
        work.record("scores", lambda: {"accuracy": [0.5, None]})
    with WorkFolder(tmp_path / "work", IDENTITY) as work:
        np.testing.assert_array_equal(work.array("vectors", never), [[0, 1, 2], [3, 4, 5]])
        assert work.record("scores", never) == {"accuracy": [0.5, None]}


def test_an_array_that_was_cut_short_is_computed_again(tmp_path):
    with WorkFolder(tmp_path / "work", IDENTITY) as work:
        work.array("vectors", lambda: np.arange(600))
        path = tmp_path / "work" / "vectors.npy"
        path.write_bytes(path.read_bytes()[:200])
        np.testing.assert_array_equal(work.array("vectors", lambda: np.arange(3)), [0, 1, 2])
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == [ANALYSIS, "vectors.npy"]


def test_without_a_folder_nothing_is_stored():
    work = WorkFolder(None, IDENTITY)
    assert [work.array("a", lambda value=value: np.array(value)).item() for value in (1, 2)] == [1, 2]
    assert [work.record("a", lambda value=value: {"a": value})["a"] for value in (1, 2)] == [1, 2]


def test_a_folder_of_another_analysis_is_refused_with_what_differs(tmp_path):
    WorkFolder(tmp_path / "work", IDENTITY).close()
    with pytest.raises(RunError, match=r"another analysis \(different: model, data\): name another folder"):
        WorkFolder(tmp_path / "work", IDENTITY | {"model": "c", "data": "d"})


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="holds no analysis"):
        WorkFolder(tmp_path, IDENTITY)


def test_a_folder_of_a_call_that_was_stopped_at_its_beginning_is_used(tmp_path):
    (tmp_path / ".lock").write_text("1")
    with WorkFolder(tmp_path, IDENTITY) as work:
        assert work.record("scores", lambda: {"a": 1}) == {"a": 1}


def test_a_damaged_record_of_the_analysis_is_refused(tmp_path):
    WorkFolder(tmp_path / "work", IDENTITY).close()
    (tmp_path / "work" / ANALYSIS).write_text("{")
    with pytest.raises(RunError, match="damaged"):
        WorkFolder(tmp_path / "work", IDENTITY)


def test_fingerprints_tell_models_and_data_apart():
    assert model_digest(toy_embedder(seed=0)) == model_digest(toy_embedder(seed=0))
    assert model_digest(toy_embedder(seed=0)) != model_digest(toy_embedder(seed=1))
    clipped = toy_embedder(seed=0)
    clipped.model.config.cell_clip = 0.5
    assert model_digest(clipped) != model_digest(toy_embedder(seed=0))
    assert digest([("a b",), ["c"]]) != digest([("a",), ["b", "c"]])
