"""Checkpoints of a head's training: a damaged one costs time, never a number, wherever the run's folder lies by now."""

import json
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


# ---- several seeds


@pytest.fixture(scope="module")
def second_seed(tmp_path_factory) -> tuple[Path, bytes]:
    """The folder of a run with two seeds that was stopped after the first, the better one, and the final weights."""
    folder = tmp_path_factory.mktemp("seeds")
    settings = SETTINGS | {"epochs": 1, "learning_rate": 5e-3}
    run, save = tagging_run(folder, settings=settings, seeds=[0, 1]), FinetuningRun._save
    run.begin(folder / "whole")
    assert json.loads((folder / "whole" / "results.json").read_text())["seed"] == 0

    def stop_at_the_second(trainer, out, seed):
        if seed == 1:
            raise KeyboardInterrupt
        save(trainer, out, seed)

    with mock.patch.object(FinetuningRun, "_save", staticmethod(stop_at_the_second)), pytest.raises(KeyboardInterrupt):
        run.begin(folder / "stopped")
    return folder / "stopped", (folder / "whole" / "model.safetensors").read_bytes()


def other_metric(path: Path):
    """Still JSON: a result that was never measured."""
    stored = json.loads(path.read_text())
    stored["seeds"][0]["dev"] = dict.fromkeys(stored["seeds"][0]["dev"], 0.0)
    path.write_text(json.dumps(stored))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (".model-0/model.safetensors", flip_last_bit),
        (".model-0/config.json", Path.unlink),
        (".model-0/checkpoint.json", cut),
        (".seeds.json", cut),
        (".seeds.json", other_metric),
    ],
)
def test_a_saved_head_or_a_record_that_was_damaged_is_made_again(second_seed, tmp_path, name, damage):
    folder, expected = second_seed
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    damage(copied / name)
    FinetuningRun.resume(copied)
    assert (copied / "model.safetensors").read_bytes() == expected
    results = json.loads((copied / "results.json").read_text())
    assert [record["seed"] for record in results["seeds"]] == [0, 1]
    assert results["dev"]["accuracy"] > 0
    assert not (copied / "checkpoint.json").exists()


def test_a_record_that_cannot_be_read_is_named_before_anything_is_trained(second_seed, tmp_path):
    copied = Path(shutil.copytree(second_seed[0], tmp_path / "copied"))
    replace_by_folder(copied / ".seeds.json")
    with mock.patch.object(FinetuningRun, "_prepare") as prepare, pytest.raises(OSError, match=r"\.seeds\.json"):
        FinetuningRun.resume(copied)
    assert not prepare.called
