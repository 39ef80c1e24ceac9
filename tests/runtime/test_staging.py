"""A staged folder is there when all is well, complete and open to others, and otherwise never was."""

import os

import pytest

from elmo_hf import ElmoTokenizer
from elmo_hf.conversion.folder import save_folder
from elmo_hf.errors import FolderError
from elmo_hf.runtime.staging import staged_folder
from tests.models import tiny_model


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def stage_a_file(out, failure: BaseException | None = None):
    with staged_folder(out) as stage:
        (stage / "file").write_text("content")
        if failure is not None:
            raise failure


def test_the_folder_takes_its_name_at_the_end_only(tmp_path):
    with staged_folder(tmp_path / "out") as stage:
        (stage / "file").write_text("content")
        assert not (tmp_path / "out").exists()
    assert names(tmp_path) == ["out", "out/file"]


@pytest.mark.parametrize("failure", [FolderError("bad"), OSError("disk full"), KeyboardInterrupt(), SystemExit()])
@pytest.mark.parametrize("out", ["out", "new/parents/out"])
def test_a_failure_of_any_kind_leaves_nothing(tmp_path, failure, out):
    with pytest.raises(type(failure)):
        stage_a_file(tmp_path / out, failure)
    assert names(tmp_path) == []


def test_parents_are_made(tmp_path):
    stage_a_file(tmp_path / "new" / "parents" / "out")
    assert names(tmp_path) == ["new", "new/parents", "new/parents/out", "new/parents/out/file"]


def test_an_empty_folder_is_used_and_survives_a_failure(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(FolderError):
        stage_a_file(tmp_path / "out", FolderError("bad"))
    assert names(tmp_path) == ["out"]
    stage_a_file(tmp_path / "out")
    assert names(tmp_path) == ["out", "out/file"]


def test_a_link_to_an_empty_folder_stays_a_link(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    stage_a_file(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "empty") == ["file"]


@pytest.mark.parametrize("is_file", [True, False])
def test_what_is_there_already_is_refused_and_untouched(tmp_path, is_file):
    out = tmp_path / "out"
    if not is_file:
        out.mkdir()
    kept = out if is_file else out / "mine"
    kept.write_text("precious")
    with pytest.raises(FolderError, match="exists and is not an empty folder"):
        stage_a_file(out)
    assert kept.read_text() == "precious"
    assert len(names(tmp_path)) == (1 if is_file else 2)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002])
def test_permissions_are_those_of_any_new_folder(tmp_path, mask):
    previous = os.umask(mask)
    try:
        with staged_folder(tmp_path / "out") as stage:
            save_folder(tiny_model(), ElmoTokenizer(), stage)
        (tmp_path / "ordinary").mkdir()
        (tmp_path / "ordinary" / "file").write_text("content")
    finally:
        os.umask(previous)
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "ordinary").stat().st_mode
    modes = {path.stat().st_mode for path in (tmp_path / "out").iterdir()}
    assert modes == {(tmp_path / "ordinary" / "file").stat().st_mode}


def test_an_existing_empty_folder_stays_itself(tmp_path):
    """It may be a mounted disk, or somebody's working directory."""
    out = tmp_path / "out"
    out.mkdir()
    before = out.stat().st_ino
    with staged_folder(out) as stage:
        (stage / "file").write_text("text")
    assert out.stat().st_ino == before
    assert [path.name for path in out.iterdir()] == ["file"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_of_two_that_make_the_same_folder_one_is_refused(tmp_path):
    out = tmp_path / "out"
    slow = staged_folder(out)
    (slow.__enter__() / "slow").write_text("content")
    with staged_folder(out) as fast:
        (fast / "fast").write_text("content")
    with pytest.raises(FolderError, match="exists and is not an empty folder"):
        slow.__exit__(None, None, None)
    assert names(tmp_path) == ["out", "out/fast"]
