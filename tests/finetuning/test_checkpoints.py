"""Checkpoints of a head's training: a damaged one costs time, never a number, wherever the run's folder lies by now."""

import shutil
from pathlib import Path
from unittest import mock

import pytest

from elmo_hf.finetuning import FinetuningRun
from elmo_hf.finetuning.callbacks import EpochReport
from tests.finetuning.toy import SETTINGS, tagging_run

pytestmark = pytest.mark.medium

FOUR_EPOCHS = {"settings": SETTINGS | {"epochs": 4, "learning_rate": 5e-3}}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> tuple[Path, bytes]:
    """The folder of a run that was stopped in its third epoch of ten steps, and the weights of one that was not."""
    folder = tmp_path_factory.mktemp("runs")
    run = tagging_run(folder, **FOUR_EPOCHS)
    run.begin(folder / "whole")

    def stop(self, args, state, control, **kwargs):
        if state.global_step == 25:
            raise KeyboardInterrupt

    with mock.patch.object(EpochReport, "on_step_end", stop), pytest.raises(KeyboardInterrupt):
        run.begin(folder / "stopped")
    checkpoints = [path.name for path in (folder / "stopped" / "checkpoints").iterdir()]
    assert sorted(checkpoints) == ["checkpoint-10", "checkpoint-20"]
    return folder / "stopped", (folder / "whole" / "model.safetensors").read_bytes()


def flip_last_bit(path: Path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(path: Path):
    path.write_bytes(path.read_bytes()[:100])


def replace_by_folder(path: Path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("step", [10, 20])
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", flip_last_bit),
        ("optimizer.pt", cut),
        ("trainer_state.json", cut),
        ("rng_state.pth", Path.unlink),
        ("scheduler.pt", replace_by_folder),
        ("checkpoint.json", cut),
        ("checkpoint.json", Path.unlink),
    ],
)
def test_a_run_with_a_damaged_checkpoint_ends_with_the_weights_of_one_without(
    interrupted, tmp_path, name, damage, step
):
    folder, expected = interrupted
    moved = Path(shutil.copytree(folder, tmp_path / "moved"))
    damage(moved / "checkpoints" / f"checkpoint-{step}" / name)
    FinetuningRun.resume(moved)
    assert (moved / "model.safetensors").read_bytes() == expected


def test_a_damaged_checkpoint_is_named_and_training_continues_from_the_one_before(interrupted, tmp_path, caplog):
    folder, _ = interrupted
    moved = Path(shutil.copytree(folder, tmp_path / "moved"))
    flip_last_bit(moved / "checkpoints" / "checkpoint-20" / "optimizer.pt")
    steps = []
    with mock.patch.object(
        EpochReport, "on_step_end", lambda self, args, state, *rest, **_: steps.append(state.global_step)
    ):
        FinetuningRun.resume(moved)
    assert steps[0] in (1, 11)  # from the beginning where the damaged one was the best so far
    assert "checkpoint-20 is damaged" in caplog.text


def test_a_moved_run_takes_the_best_weights_from_where_it_is(interrupted, tmp_path):
    folder, expected = interrupted
    kept, moved = (Path(shutil.copytree(folder, tmp_path / name)) for name in ("kept", "moved"))
    for path in kept.rglob("model.safetensors"):
        cut(path)  # where the moved one must not look
    state = (moved / "checkpoints" / "checkpoint-20" / "trainer_state.json").read_text()
    assert str(folder) in state
    FinetuningRun.resume(moved)
    assert (moved / "model.safetensors").read_bytes() == expected
