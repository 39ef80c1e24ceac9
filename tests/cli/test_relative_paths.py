"""Messages name a path as it was given; what a run stores is valid in every folder."""

import json
import re
from unittest import mock

import pytest

from elmo_hf.finetuning import FinetuningRun, TaskData
from tests.finetuning.toy import tagging_run
from tests.pretraining.runs import FIELDS, SETTINGS, VOCABULARY, write_words


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder: `data` with examples and text, one bad file, and a folder in use."""
    data = tmp_path / "data"
    data.mkdir()
    tagging_run(data)
    (data / "bad.conll").write_text("Anna B-PER\nsaw\n\n")
    (data / "bad.txt").write_bytes(b"caf\xe9\n")
    (data / "few.txt").write_text("")
    write_words(data / "vocab.txt")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


TAGGING = ["finetune", "tagging", "--dev", "data/dev.conll", "--model", "data/bilm"]
PRETRAINING = ["pretrain", "--vocab", "data/vocab.txt", "--size", "compact", "--out", "run"]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ([*TAGGING, "--train", "data/bad.conll", "--out", "head"], "data/bad.conll, line 2"),
        ([*TAGGING, "--train", "data/train.conll", "--vectors", "data/bad.txt", "--out", "head"], "data/bad.txt"),
        ([*TAGGING, "--train", "data/train.conll", "--out", "used"], "used"),
        (["finetune", "tagging", "--resume", "--out", "used"], "used"),
        ([*PRETRAINING, "data/bad.txt"], "data/bad.txt, line 1"),
        ([*PRETRAINING, "data/few.txt"], "data/few.txt"),
        (["embed", "data/bad.txt", "--model", "data/bilm", "--out", "out.npz"], "data/bad.txt, line 1"),
        (["embed", "data/dev.conll", "--model", "data", "--out", "out.npz"], "data"),
        (["predict", "data/bilm", "data/bad.txt"], "data/bilm"),
        (["convert", "to-bilm-hdf5", "data/bilm", "--out", "used"], "used"),
        (["index", "data/few.txt", "--model", "data/bilm", "--out", "used"], "used"),
        (
            ["analyze", "samples", "tagging", "data/bad.conll", "data/dev.conll", "--work", "w"],
            "data/bad.conll, line 2",
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_mistake_names_the_path_as_it_was_given(here, refused, arguments, path):
    message = refused(*arguments)
    assert re.search(rf"(?<![\w/]){re.escape(path)}\b", message), message
    assert str(here) not in message


@pytest.mark.medium
def test_the_records_of_a_run_name_paths_that_are_valid_in_every_folder(here, run):
    arguments = [*TAGGING, "--train", "data/train.conll", "--epochs", 1, "--out", "head"]
    assert run(*arguments)[0] == 0
    stored = json.loads((here / "head" / "finetune.json").read_text())
    assert stored["data"]["train"] == str(here / "data" / "train.conll")
    assert stored["data"]["test"] is None
    assert stored["model"] == str(here / "data" / "bilm")

    text = "\n\n".join(["\n".join([" ".join(VOCABULARY)] * 3)] * 3)
    (here / "data" / "text.txt").write_text(text)
    settings = SETTINGS | FIELDS | {"steps": 1}
    options = [part for name, value in settings.items() if value is not None for part in ("--set", f"{name}={value}")]
    code, _, error = run(*PRETRAINING, "data/text.txt", "--heldout", "data/text.txt", "--pretokenized", *options)
    assert code == 0, error
    stored = json.loads((here / "run" / "run.json").read_text())
    assert stored["text"]["text"] == stored["text"]["heldout"] == [str(here / "data" / "text.txt")]


@pytest.mark.medium
def test_a_run_that_was_begun_in_another_folder_is_resumed(here, run, monkeypatch):
    data = TaskData("data/train.conll", "data/dev.conll")
    with monkeypatch.context() as patch:
        patch.setattr(FinetuningRun, "_train", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            FinetuningRun("tagging", data, "data/bilm", settings={"epochs": 1}).begin("head")
    monkeypatch.chdir(here / "used")
    assert run("finetune", "tagging", "--resume", "--out", "../head")[0] == 0
    assert (here / "head" / "results.json").exists()
