"""The published numbers of tasks do not move with the defaults of the training, and each task names its data."""

import json
from unittest import mock

import pytest

from benchmarks import SHARED, tasks
from benchmarks.task_setups import FIRST_FIELDS, SETUPS, TaskSetup
from benchmarks.tasks import SETTINGS, stored_runs
from elmo_hf.finetuning import FinetuningSettings


def test_every_setting_is_written_out():
    of_the_run = {"epochs", "seed"}  # of the task, and one after the other
    unused = {"bilm_learning_rate"}  # the biLM is frozen
    assert SETTINGS.keys() | of_the_run | unused == FinetuningSettings.__dataclass_fields__.keys()
    settings = FinetuningSettings(**SETTINGS, epochs=5)
    assert settings.for_examples(10) == settings.for_examples(100_000) == settings


@pytest.mark.parametrize("name", SETUPS)
def test_a_task_whose_data_are_missing_names_them(name, tmp_path):
    with pytest.raises(SystemExit, match=SETUPS[name].corpus):
        SETUPS[name].setup(tmp_path)


@pytest.mark.medium
@pytest.mark.parametrize("name", SETUPS)
def test_the_data_of_a_task_have_three_parts_of_different_examples(name):
    if not (SHARED / "corpora" / SETUPS[name].corpus).is_dir():
        pytest.skip(f"no corpora/{SETUPS[name].corpus}")
    setup = SETUPS[name].setup(SHARED / "corpora")
    assert all((setup.train, setup.dev, setup.test))
    assert setup.train != setup.dev != setup.test
    assert "epochs" in setup.settings
    if name in ("pos", "chinese pos", "entities", "polarity"):  # published before the other ones
        assert FIRST_FIELDS.items() <= setup.fields.items()
    assert "mixer_learning_rate" not in setup.settings  # it is the same for all tasks


def test_runs_of_the_published_results_are_not_repeated(tmp_path):
    run = {"task": "pos", "inputs": "glove", "way": None, "seed": 0, "metric": 0.5}
    (tmp_path / "tasks.json").write_text(json.dumps({"results": [run, run | {"seed": 1}]}))
    (tmp_path / "runs.jsonl").write_text(json.dumps(run | {"metric": 0.6}) + "\n")
    runs = stored_runs(tmp_path / "runs.jsonl", tmp_path / "tasks.json")
    assert list(runs.values()) == [run | {"metric": 0.6}, run | {"seed": 1}]
    assert stored_runs(tmp_path / "no.jsonl", None) == {}


def test_a_run_has_its_settings_and_is_repeated_with_other_ones(tmp_path, monkeypatch):
    setup = TaskSetup(None, [1], [2], [3], {}, {"epochs": 2, "batch_size": 16})
    monkeypatch.setattr(tasks, "SETUPS", {"pos": mock.Mock(setup=lambda _: setup, language="en")})
    trained = []
    monkeypatch.setattr(tasks, "run", lambda *options: trained.append(options) or {"metric": 0.5})
    out, lines = tmp_path / "tasks.json", tmp_path / "runs.jsonl"
    options = [
        "tasks",
        "--task",
        "pos",
        "--inputs",
        "glove",
        "--seeds",
        "1",
        "--json",
        str(out),
        "--results",
        str(lines),
    ]
    monkeypatch.setattr("sys.argv", options)
    tasks.main()
    content = json.loads(out.read_text())
    assert "settings" not in content
    assert content["results"][0]["settings"] == SETTINGS | setup.settings
    tasks.main()
    assert len(trained) == 1
    setup.settings["batch_size"] = 8
    tasks.main()
    assert len(trained) == 2
    (record,) = json.loads(out.read_text())["results"]
    assert record["settings"]["batch_size"] == 8
