"""`elmo-hf finetune` and `elmo-hf predict`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
import typer

from elmo_hf.cli.finetuning_commands import choose_device
from elmo_hf.finetuning import FinetuningRun
from elmo_hf.modeling.modeling_coreference_elmo import ElmoForCoreference
from elmo_hf.modeling.modeling_heads_elmo import ElmoForSequenceClassification, ElmoForTokenClassification
from elmo_hf.modeling.modeling_question_answering_elmo import ElmoForQuestionAnswering
from elmo_hf.modeling.modeling_roles_elmo import ElmoForSemanticRoles
from tests.finetuning.toy import classification_run, questions_run, tagging_run
from tests.language_model.models import tiny_language_model
from tests.locked import HOLD_LOCK, ROOT

FAST = ["--set", "epochs=3", "--set", "batch_size=16", "--set", "learning_rate=0.02", "--set", "task_layer_size=12"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of examples, and a biLM."""
    folder = tmp_path_factory.mktemp("commands")
    tagging_run(folder)
    classification_run(folder)
    return folder


@pytest.mark.medium
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


@pytest.mark.medium
def test_roles_are_trained_and_predicted_for_marked_listed_and_found_predicates(folder, tmp_path, run):
    rows = "1\tAnna\tNNP\t-\tB-A0\n2\tsaw\tVBD\tsee.01\tB-V\n3\tBert\tNNP\t-\tB-A1\n\n"
    source = tmp_path / "roles.conll"
    source.write_text(rows * 20)
    out, data = tmp_path / "roles", ["--train", source, "--dev", source]
    code, output, _ = run("finetune", "roles", *data, "--model", folder / "bilm", "--out", out, *FAST)
    assert code == 0
    assert "dev: loss" in output
    assert "perfect " in output
    card = (out / "README.md").read_text()
    assert "ElmoForSemanticRoles" in card
    assert "pipeline(" not in card

    text = tmp_path / "text.txt"
    text.write_text("Anna **saw** Bert\nAnna saw Bert\n\n")
    code, output, _ = run("predict", out, text, "--format", "jsonl")
    assert code == 0
    marked, unmarked, blank = map(json.loads, output.splitlines())
    assert (marked["words"], marked["predicates"], len(marked["tags"])) == (["Anna", "saw", "Bert"], [1], 1)
    assert (unmarked["predicates"], blank["words"]) == ([], [])
    assert run("predict", out, text)[2] == ""
    text.write_text("Anna saw Bert\n\n")
    _, output, error = run("predict", out, text, "--format", "jsonl")
    assert [json.loads(line)["predicates"] for line in output.splitlines()] == [[], []]
    assert error.startswith("elmo-hf: ")
    assert error.count("\n") == 1
    assert "**word**" in error
    assert "--predicates" in error
    text.write_text("Anna **saw** Bert\nAnna saw Bert\n\n")

    tagger = tmp_path / "tagger"
    files = [f"--{split}={folder / split}.conll" for split in ("train", "dev")]
    assert run("finetune", "tagging", *files, "--model", folder / "bilm", "--out", tagger, *FAST)[0] == 0
    tags = ["--predicates", tagger, "--predicate-tag", "B-PER", "--predicate-tag", "O"]
    code, output, _ = run("predict", out, text, "--format", "jsonl", *tags)
    assert code == 0
    assert [json.loads(line)["predicates"] for line in output.splitlines()] == [[1], [0, 1, 2], []]
    assert "--predicate-tag" in run("predict", out, text, "--predicates", tagger)[2]
    assert "is no tagger" in run("predict", out, text, "--predicates", out)[2]
    assert "predicts no semantic roles" in run("predict", tagger, text, "--predicates", tagger)[2]

    code, output, _ = run("predict", out, source)
    assert code == 0
    assert output.splitlines()[1].split("\t")[:4] == ["2", "saw", "-", "V"]
    (tmp_path / "bad.conll").write_text(rows.replace("\tB-A1", ""))
    code, _, error = run(
        "finetune", "roles", "--train", tmp_path / "bad.conll", "--dev", source, "--out", tmp_path / "x"
    )
    assert code == 2
    assert "bad.conll, line 3: 0 columns of roles, but the sentence has 1 predicate" in error


@pytest.mark.medium
def test_coreference_is_trained_and_predicted_for_text_and_columns(folder, tmp_path, run):
    lines = ["a 0 0 Anna - (0)", "a 0 1 saw - -", "", "a 0 0 she - (0)", "a 0 1 sat - -"]
    columns = "\n".join(["#begin document (a); part 000", *lines, "#end document", ""])
    source, out = tmp_path / "documents.conll", tmp_path / "coreference"
    source.write_text(columns * 10)
    fields = [*FAST, "--set", "span_size=12", "--batch-size", "1"]
    data = ["--train", source, "--dev", source, "--model", folder / "bilm"]
    code, output, _ = run("finetune", "coreference", *data, "--out", out, *fields)
    assert code == 0
    assert "ceafe_f1 " in output
    assert "ElmoForCoreference" in (out / "README.md").read_text()

    code, output, _ = run("predict", out, source)
    assert code == 0
    assert output.count("#begin document (a); part 000") == output.count("#end document") == 10
    text = tmp_path / "story.txt"
    text.write_text("Anna saw\nshe sat\n\n\nBert\n")
    code, output, _ = run("predict", out, text, "--format", "jsonl")
    assert code == 0
    records = [json.loads(line) for line in output.splitlines()]
    assert [document["sentences"] for document in records] == [[["Anna", "saw"], ["she", "sat"]], [["Bert"]]]

    (tmp_path / "bad.conll").write_text(columns.replace("- (0)", "- (0", 1))
    bad = ["--train", tmp_path / "bad.conll", "--dev", source, "--out", tmp_path / "x"]
    code, _, error = run("finetune", "coreference", *bad)
    assert code == 2
    assert "bad.conll, line 2: the bracket (0 never closes" in error


@pytest.mark.medium
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


@pytest.mark.medium
def test_the_options_of_a_training_are_those_of_its_settings(folder, tmp_path, run, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "false")
    for split in ("train", "dev"):
        lines = map(json.loads, (folder / f"{split}.jsonl").read_text().splitlines())
        rows = "".join(f"{line['label']}\t{line['text']}\n" for line in lines)
        (tmp_path / f"{split}.tsv").write_text(rows)
    files = [f"--{split}={tmp_path / split}.tsv" for split in ("train", "dev")]
    options = ["--column", 1, "--label-column", 0, "--max-train", 40, "--epochs", 1, "--batch-size", 8]
    options += ["--learning-rate", 0.02, "--patience", 2, "--seed", 5, "--seed", 6, "--device", "cpu"]
    out = tmp_path / "out"
    code, output, error = run("finetune", "classification", *files, "--model", folder / "bilm", "--out", out, *options)
    assert code == 0, error
    assert "dev, mean and range of 2 seeds: " in output
    assert "saved: the head with seed " in output
    results = json.loads((out / "results.json").read_text())
    assert [record["seed"] for record in results["seeds"]] == [5, 6]
    assert results["examples"] == {"train": 40, "dev": 40, "test": 0}
    given = {"epochs": 1, "batch_size": 8, "learning_rate": 0.02, "patience": 2}
    assert results["settings"].items() >= given.items()
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
        (
            ["finetune", "tagging", "--train", "{train}", "--dev", "{train}", "--out", "x", "--set", "span_size=8"],
            "`span_size` has no effect on ElmoForTokenClassification, it is a field of ElmoForCoreference",
        ),
        (
            ["finetune", "tagging", "--train", "{train}", "--dev", "{train}", "--out", "x", "--vectors", "nope.txt"],
            "elmo-hf: No such file or folder: nope.txt.",
        ),
        (
            ["finetune", "tagging", "--train", "{train}", "--dev", "{train}", "--out", "x", "--max-vectors", "9"],
            "it limits the words of --vectors",
        ),
        (["predict", "missing-model"], "missing-model"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line(folder, tmp_path, run, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    replaced = [argument.replace("{train}", str(folder / "train.conll")) for argument in arguments]
    if "--train" in replaced:
        replaced += ["--model", str(folder / "bilm")]
    code, _, error = run(*replaced)
    assert code == 2
    assert error.splitlines()[-1].startswith("elmo-hf: ")
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "x").exists()


# ---- predict


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """Untrained heads of each task that has a text format, by the task."""
    folder = tmp_path_factory.mktemp("heads")
    language_model = tiny_language_model()
    language_model.model.float().save_pretrained(folder / "bilm")
    heads = {
        "tagging": ElmoForTokenClassification,
        "classification": ElmoForSequenceClassification,
        "roles": ElmoForSemanticRoles,
        "coreference": ElmoForCoreference,
        "question-answering": ElmoForQuestionAnswering,
    }
    for task, head in heads.items():
        head.from_pretrained(folder / "bilm", task_layer_size=4).save_pretrained(folder / task)
        language_model.tokenizer.save_pretrained(folder / task)
    return {task: folder / task for task in heads}


@pytest.mark.parametrize(
    ("task", "kinds"),
    [
        ("tagging", ["csv", "tsv", "parquet", "fasta"]),
        ("classification", ["conll", "conllu", "parquet", "fasta"]),
        ("roles", ["csv", "tsv", "conllu", "parquet", "fasta"]),
        ("coreference", ["csv", "tsv", "conllu", "parquet", "fasta"]),
        ("question-answering", ["txt", "csv", "conll"]),
    ],
)
def test_a_file_that_the_task_does_not_read_is_refused(refused, heads, tmp_path, task, kinds):
    for kind in kinds:
        (tmp_path / f"a.{kind}").write_text("text,label\nthe cat,x\n")
        message = refused("predict", heads[task], tmp_path / f"a.{kind}", "--out", tmp_path / "out")
        assert f"a.{kind}: a model for {task} does not read {kind.replace('txt', 'text')}: give " in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("tagging", ["--n-best", 3], "--n-best: {head} answers no questions: leave it out."),
        ("tagging", ["--predicate-tag", "V"], "--predicate-tag: {head} predicts no semantic roles: leave it out."),
        ("classification", ["--pretokenized"], "--pretokenized: {head} reads texts as they are: leave it out."),
        ("question-answering", ["--pretokenized"], "--pretokenized: {head} reads texts as they are: leave it out."),
        ("coreference", ["--batch-size", 8], "--batch-size: {head} reads one document at a time: leave it out."),
        ("roles", ["--predicate-tag", "V"], "--predicate-tag: it names tags of --predicates: give both."),
    ],
    ids=str,
)
def test_an_option_without_effect_is_refused(refused, heads, tmp_path, task, options, message):
    (tmp_path / "a.txt").write_text("the cat\n")
    error = refused("predict", heads[task], tmp_path / "a.txt", *options)
    assert message.format(head=heads[task]) in error


def test_a_folder_or_a_file_that_is_not_there_is_named_before_the_model_is_loaded(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("the cat\n")
    assert "There is no folder no/dir." in refused("predict", "missing-model", "a.txt", "--out", "no/dir/x")
    assert "No such file or folder: b.txt." in refused("predict", "missing-model", "b.txt")
    assert "is a folder: name a file." in refused("predict", "missing-model", "a.txt", "--out", tmp_path)


# ---- --resume


@pytest.fixture(scope="module")
def stopped(folder):
    """The folder of a tagger's training that was stopped before its model was saved."""
    run = tagging_run(folder, settings={"epochs": 1, "batch_size": 16})
    with mock.patch.object(FinetuningRun, "_save", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run.begin(folder / "stopped")
    return folder / "stopped"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--epochs", 9], "--epochs"),
        (["--seed", 1, "--learning-rate", 0.1], "--learning-rate, --seed"),
        (["--train", "{folder}/train.conll", "--dev", "{folder}/dev.conll"], "--train, --dev"),
        (["--model", "{folder}/bilm"], "--model"),
        (["--set", "epochs=9"], "--set"),
        (["--max-vectors", 50_000], "--max-vectors"),  # its default, and given all the same
        (["--precision", "int8"], "--precision"),
        (["--column", 0], "--column"),
    ],
    ids=str,
)
def test_options_that_a_resumed_training_would_ignore_are_refused(refused, folder, stopped, options, names):
    before = sorted(path.name for path in stopped.iterdir())
    replaced = [str(option).replace("{folder}", str(folder)) for option in options]
    message = refused("finetune", "tagging", "--resume", "--out", stopped, *replaced)
    assert f"a resumed run keeps the options that it was begun with: leave out {names}, or" in message
    assert sorted(path.name for path in stopped.iterdir()) == before


def test_a_training_is_resumed_on_another_device_and_as_the_task_that_it_is(
    run, refused, stopped, tmp_path, monkeypatch
):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "false")
    out = shutil.copytree(stopped, tmp_path / "out")
    message = refused("finetune", "classification", "--resume", "--out", out)
    assert f"{out} holds a run of tagging: elmo-hf finetune tagging --resume --out {out} continues it." in message
    assert "The device 'cuda' is not available" in refused(
        "finetune", "tagging", "--resume", "--out", out, "--device", "cuda"
    )
    code, output, error = run("finetune", "tagging", "--resume", "--out", out, "--device", "cpu")
    assert code == 0, error
    message = refused("finetune", "classification", "--resume", "--out", out)
    assert f"{out} holds a run of tagging: it is finished, and its results are in results.json." in message
    assert output.endswith(f"{out}: the model and its card\n")
    assert json.loads((out / "results.json").read_text())["settings"]["epochs"] == 1


@pytest.mark.medium
def test_a_training_that_another_process_has_is_refused_until_that_ends(run, refused, stopped, tmp_path):
    out = shutil.copytree(stopped, tmp_path / "out")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    holder = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, str(out)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        message = refused("finetune", "tagging", "--resume", "--out", out)
        assert f"{out} is in use by process {holder.pid}: wait for it to end, or stop it first." in message
    finally:
        holder.kill()
        holder.communicate()
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"} == before
    assert run("finetune", "tagging", "--resume", "--out", out)[0] == 0
    assert not (out / ".lock").exists()


@pytest.mark.medium
def test_questions_are_learned_and_answered_with_offsets(tmp_path, run):
    questions_run(tmp_path)
    files = [f"--{split}={tmp_path / split}.json" for split in ("train", "dev")]
    out = tmp_path / "answers"
    code, output, _ = run("finetune", "question-answering", *files, "--model", tmp_path / "bilm", "--out", out, *FAST)
    assert code == 0
    assert "exact_match " in output

    asked = {"id": "7", "question": "Who saw the dog ?", "context": "Anna saw the dog , Bert fed the dog"}
    (tmp_path / "asked.jsonl").write_text(json.dumps(asked) + "\n")
    code, output, _ = run("predict", out, tmp_path / "asked.jsonl", "--n-best", "2")
    assert code == 0
    (record,) = map(json.loads, output.splitlines())
    assert (record["id"], record["question"], len(record["answers"])) == ("7", asked["question"], 2)
    assert all(answer["answer"] == asked["context"][answer["start"] : answer["end"]] for answer in record["answers"])
    assert "answers are written as jsonl" in run("predict", out, tmp_path / "asked.jsonl", "--format", "conll")[2]
    assert "name it" in run("predict", out)[2]

    damaged = json.loads((tmp_path / "train.json").read_text())
    damaged["data"][0]["paragraphs"][2]["qas"][0]["answers"][0]["text"] = "Nobody"
    (tmp_path / "bad.json").write_text(json.dumps(damaged))
    code, _, problem = run(
        "finetune", "question-answering", f"--train={tmp_path / 'bad.json'}", files[1], "--out", tmp_path / "new"
    )
    assert code == 2
    assert (
        "bad.json, line 1, article 1 (toy), paragraph 3, question '2': the answer 'Nobody' is not in its context"
        in problem
    )
    assert not (tmp_path / "new").exists()


def test_training_takes_the_cpu_or_all_accelerators(monkeypatch):
    monkeypatch.setattr("elmo_hf.runtime.model_loading.find_device", torch.device)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "false")
    choose_device("cuda")
    with pytest.raises(typer.BadParameter, match="CUDA_VISIBLE_DEVICES=1"):
        choose_device("cuda:1")
    assert os.environ["ACCELERATE_USE_CPU"] == "false"
    choose_device("cpu:0")
    assert os.environ["ACCELERATE_USE_CPU"] == "true"


def test_half_a_surrogate_pair_in_json_is_predicted_and_written(heads, run, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"words": ["so", "cool\ud83d"]}) + "\n")
    code, output, _ = run("predict", heads["tagging"], tmp_path / "a.jsonl")
    assert code == 0
    assert output.splitlines()[0].startswith("so\t")


def test_sentiment_trees_are_predicted_as_texts_and_other_brackets_are_text(heads, run, tmp_path):
    (tmp_path / "trees.txt").write_text("(3 (2 It) (4 (2 's) (4 lovely)))\n")
    (tmp_path / "plain.txt").write_text("(3 of them) saw it\n")
    texts = [
        json.loads(run("predict", heads["classification"], tmp_path / name)[1])["text"]
        for name in ("trees.txt", "plain.txt")
    ]
    assert texts == ["It 's lovely", "(3 of them) saw it"]
