"""`elmo-hf finetune` and `elmo-hf predict`."""

import io
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
    monkeypatch.setattr(sys, "stdin", io.StringIO(text.read_text()))
    assert run("predict", out)[1] == output
    code, lines, _ = run("predict", out, text, "--format", "jsonl")
    assert [json.loads(line)["words"][0] for line in lines.splitlines()] == ["the", "a"]
    assert run("predict", out, text, "--out", tmp_path / "found.conll")[0] == 0
    assert (tmp_path / "found.conll").read_text() == output


def test_a_classifier_is_trained_and_labels_text(folder, tmp_path, run):
    out, files = tmp_path / "classifier", [f"--{split}={folder / split}.jsonl" for split in ("train", "dev")]
    code, output, _ = run("finetune", "classification", *files, "--model", folder / "bilm", "--out", out, *FAST)
    assert code == 0
    assert "dev: loss" in output
    text = tmp_path / "text.txt"
    text.write_text("the cat saw Anna\na dog\n")
    code, output, _ = run("predict", out, text)
    assert code == 0
    assert [set(json.loads(line)["scores"]) for line in output.splitlines()] == [{"person", "nobody"}] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["finetune", "tagging", "--out", "x"], "give --train and --dev"),
        (["finetune", "tagging", "--resume", "--out", "x"], "holds no run"),
        (["finetune", "tagging", "--train", "no.conll", "--dev", "no.conll", "--out", "x"], "No such file"),
        (["finetune", "tagging", "--train", "{train}", "--dev", "{train}", "--out", "x", "--set", "a=1"], "field a"),
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
