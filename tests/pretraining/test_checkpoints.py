"""A checkpoint is there as a whole or not at all, and there is always one to go on from."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from elmo_hf.pretraining.checkpoints import (
    MANIFEST,
    checkpoint_name,
    checkpoints,
    complete,
    is_complete,
    newest_complete,
    newest_intact,
    partial_folder,
    read_manifest,
    rotate,
)

FILES = {"model.safetensors": b"weights", "streams-0.json": b"{}", "deeper/random.bin": b"\0" * 9, "empty": b""}


def write_partial(folder: Path, step: int, **files: bytes) -> Path:
    partial = partial_folder(folder, step)
    for name, content in (FILES | files).items():
        (partial / name).parent.mkdir(parents=True, exist_ok=True)
        (partial / name).write_bytes(content)
    return partial


def save(folder: Path, *steps: int) -> list[Path]:
    return [complete(write_partial(folder, step), {"step": step}) for step in steps]


def test_a_complete_checkpoint_has_its_name_its_files_and_what_was_said_of_it(tmp_path):
    checkpoint = complete(write_partial(tmp_path, 30), {"step": 30, "progress": {"words": 5}})
    assert checkpoint == tmp_path / "step-00000030" == tmp_path / checkpoint_name(30)
    assert is_complete(checkpoint)
    assert {name: (checkpoint / name).read_bytes() for name in FILES} == FILES
    manifest = read_manifest(checkpoint)
    assert manifest["files"] == {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in FILES.items()
    }
    assert (manifest["step"], manifest["progress"]) == (30, {"words": 5})
    assert not partial_folder(tmp_path, 30).exists()


def test_the_newest_is_that_of_the_highest_step(tmp_path):
    save(tmp_path, 100, 20, 3)
    assert newest_complete(tmp_path) == tmp_path / checkpoint_name(100)
    beyond = 123_456_789  # more digits than the name has room for
    save(tmp_path, beyond, 99_999_999)
    assert newest_complete(tmp_path) == tmp_path / checkpoint_name(beyond)
    assert [path.name for path in checkpoints(tmp_path)] == [
        checkpoint_name(n) for n in (beyond, 99_999_999, 100, 20, 3)
    ]


def test_without_checkpoints_there_is_none(tmp_path):
    assert newest_complete(tmp_path) is None
    assert newest_complete(tmp_path / "missing") is None


def test_a_partial_checkpoint_is_never_found(tmp_path):
    save(tmp_path, 1)
    partial = write_partial(tmp_path, 2)
    (partial / MANIFEST).write_text(json.dumps({"files": {}}), "utf-8")
    assert checkpoints(tmp_path) == [newest_complete(tmp_path)] == [tmp_path / checkpoint_name(1)]


def test_other_names_are_no_checkpoints(tmp_path):
    (checkpoint,) = save(tmp_path, 1)
    for name in ("step-2-copy", "step-", "my-step-3", "step-00000002.old"):
        shutil.copytree(checkpoint, tmp_path / name)
    (tmp_path / checkpoint_name(9)).write_text("a file", "utf-8")
    assert newest_complete(tmp_path) == checkpoint


def truncate(checkpoint: Path):
    (checkpoint / "model.safetensors").write_bytes(FILES["model.safetensors"][:-1])


def lengthen(checkpoint: Path):
    (checkpoint / "empty").write_bytes(b"?")


def lose_file(checkpoint: Path):
    (checkpoint / "deeper" / "random.bin").unlink()


def lose_manifest(checkpoint: Path):
    (checkpoint / MANIFEST).unlink()


def tear_manifest(checkpoint: Path):
    content = (checkpoint / MANIFEST).read_bytes()
    (checkpoint / MANIFEST).write_bytes(content[: len(content) // 2])


def break_manifest(content: bytes):
    return lambda checkpoint: (checkpoint / MANIFEST).write_bytes(content)


DAMAGE = {
    "a file cut short": truncate,
    "a file grown": lengthen,
    "a file lost": lose_file,
    "the manifest lost": lose_manifest,
    "the manifest cut short": tear_manifest,
    "the manifest empty": break_manifest(b""),
    "the manifest zeros": break_manifest(b"\0" * 99),
    "the manifest binary": break_manifest(b"\xff\xfe"),
    "a manifest without files": break_manifest(b'{"step": 2}'),
    "a manifest of no files": break_manifest(b'{"files": null}'),
    "a manifest that is a list": break_manifest(b"[]"),
    "a manifest that is nothing": break_manifest(b"null"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_torn_checkpoint_is_passed_over_and_removed(tmp_path, damage):
    older, torn = save(tmp_path, 1, 2)
    damage(torn)
    assert not is_complete(torn)
    assert checkpoints(tmp_path) == [torn, older]
    assert newest_complete(tmp_path) == older
    rotate(tmp_path, keep=2)
    assert checkpoints(tmp_path) == [older]


def test_rotation_keeps_the_newest_complete_ones(tmp_path):
    saved = save(tmp_path, 1, 2, 3, 4, 5)
    truncate(saved[4])
    lose_file(saved[2])
    write_partial(tmp_path, 6)
    (tmp_path / "notes.txt").write_text("not ours", "utf-8")
    rotate(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", saved[1].name, saved[3].name]
    rotate(tmp_path, keep=1)
    assert checkpoints(tmp_path) == [saved[3]]
    rotate(tmp_path, keep=5)
    assert checkpoints(tmp_path) == [saved[3]]


def test_the_same_step_again_replaces_the_first(tmp_path):
    save(tmp_path, 7)
    again = write_partial(tmp_path, 7, more=b"new")
    (again / "empty").unlink()
    checkpoint = complete(again, {"step": 7, "again": True})
    assert is_complete(checkpoint)
    assert checkpoints(tmp_path) == [checkpoint]
    assert read_manifest(checkpoint)["again"]
    assert (checkpoint / "more").read_bytes() == b"new"
    assert not (checkpoint / "empty").exists()


@pytest.mark.parametrize("name", [name for name, content in FILES.items() if content])
def test_a_checkpoint_with_one_changed_byte_is_passed_over(tmp_path, name):
    older, newer = save(tmp_path, 10, 20)
    assert newest_intact(tmp_path) == newer
    content = bytearray((newer / name).read_bytes())
    content[-1] ^= 1
    (newer / name).write_bytes(content)
    assert is_complete(newer)
    assert newest_intact(tmp_path) == older
