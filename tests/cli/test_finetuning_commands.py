"""`elmo-hf finetune` and `elmo-hf predict`."""

import json
import sys

import pytest

from tests.finetuning.toy import classification_run, tagging_run

FAST = ["--set", "epochs=3", "--set", "batch_size=16", "--set", "learning_rate=0.02", "--set", "task_layer_size=12"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of examples, and a biLM."""
    folder = tmp_path_factory.mktemp("commands")
    tagging_run(folder)
    classification_run(folder)
    return folder


def test_a_tagger_is_trained_and_tags_text_from_a_file_and_from_standard_input(folder, tmp_path, run, monkeypatch):
    files = [f"--{split}={folder / split}.conll" for split in ("train", "dev", "test")]
    out = tmp_path / "tagger"
    code, output, _ = run("finetune", "tagging", *files, "--model", folder / "bilm", "--out", out, *FAST)
    assert code == 0
    assert "test: " in output
    assert "f1 " in output

    text = tmp_path / "text.txt"
    text.write_text("the cat saw Anna Meyer\n\na dog\n")
    code, output, _ = run("predict", out, text)
    assert code == 0
    assert [line.split("\t")[0] for line in output.splitlines() if line] == [
        "the",
        "cat",
        "saw",
        "Anna",
        "Meyer",
        "a",
        "dog",
    ]
    with open(text) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert run("predict", out)[1] == output
    code, lines, _ = run("predict", out, text, "--format", "jsonl", "--precision", "int8", "--device", "cpu")
    assert [json.loads(line)["words"][:1] for line in lines.splitlines()] == [
        ["the"],
        [],
        ["a"],
    ]  # one line, one record
    assert "The device 'abacus' is not available" in run("predict", out, text, "--device", "abacus")[2]
    assert run("predict", out, text, "--out", tmp_path / "found.conll")[0] == 0
    assert (tmp_path / "found.conll").read_text() == output


def test_a_classifier_is_trained_and_labels_text(folder, tmp_path, run):
    out, files = tmp_path / "classifier", [f"--{split}={folder / split}.jsonl" for split in ("train", "dev")]
    code, output, _ = run("finetune", "classification", *files, "--model", folder / "bilm", "--out", out, *FAST)
    assert code == 0
    assert "dev: loss" in output
    text = tmp_path / "text.txt"
    text.write_text("the cat saw Anna\n\na dog\n")
    code, output, _ = run("predict", out, text)
    assert code == 0
    one, blank, other = map(json.loads, output.splitlines())
    assert set(one["scores"]) == set(other["scores"]) == {"person", "nobody"}
    assert blank == {"text": "", "label": None}


def test_the_options_of_a_training_are_those_of_its_settings(folder, tmp_path, run, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "false")
    for split in ("train", "dev"):
        lines = map(json.loads, (folder / f"{split}.jsonl").read_text().splitlines())
        rows = "".join(f"{line['label']}\t{line['text']}\n" for line in lines)
        (tmp_path / f"{split}.tsv").write_text(rows)
    files = [f"--{split}={tmp_path / split}.tsv" for split in ("train", "dev")]
    options = ["--text-column", 1, "--label-column", 0, "--max-train", 40, "--epochs", 1, "--batch-size", 8]
    options += ["--learning-rate", 0.02, "--patience", 2, "--seed", 5, "--seed", 6, "--device", "cpu"]
    out = tmp_path / "out"
    code, output, error = run("finetune", "classification", *files, "--model", folder / "bilm", "--out", out, *options)
    assert code == 0, error
    assert "dev, mean and range of 2 seeds: " in output
    assert "saved: the head with seed " in output
    found = json.loads((out / "results.json").read_text())
    assert [record["seed"] for record in found["seeds"]] == [5, 6]
    assert found["examples"] == {"train": 40, "dev": 40, "test": 0}
    given = {"epochs": 1, "batch_size": 8, "learning_rate": 0.02, "patience": 2}
    assert found["settings"].items() >= given.items()
    assert run("predict", out, tmp_path / "dev.tsv")[1].count("\n") == 40  # read as the examples were


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["finetune", "tagging", "--out", "x"], "Give training and development data with --train and --dev"),
        (["finetune", "tagging", "--resume", "--out", "x"], "holds no run"),
        (["finetune", "tagging", "--train", "no.conll", "--dev", "no.conll", "--out", "x"], "No such file"),
        (
            ["finetune", "tagging", "--train", "{train}", "--dev", "{train}", "--out", "x", "--set", "a=1"],
            "no setting or field of the config 'a'",
        ),
        (
            ["finetune", "tagging", "--train", "{train}", "--dev", "{train}", "--out", "x", "--set", "epochs=0"],
            "epochs",
        ),
        (["predict", "missing-model"], "missing-model"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line(folder, tmp_path, run, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    filled = [argument.replace("{train}", str(folder / "train.conll")) for argument in arguments]
    if "--train" in filled:
        filled += ["--model", str(folder / "bilm")]
    code, _, error = run(*filled)
    assert code == 2
    assert error.splitlines()[-1].startswith("elmo-hf: ")
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "x").exists()
