"""Runs: they learn, stop at the best, go on after a kill, and leave a folder that loads with its card."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import pytest
import torch
import transformers
from huggingface_hub import ModelCard
from transformers import AutoModelForTokenClassification, pipeline

from elmo_hf import ElmoModel, default_model
from elmo_hf.errors import FolderError, RunError, TextError
from elmo_hf.finetuning import (
    FinetuningRun,
    LabelledText,
    TaggedSentence,
    TaskData,
    load_head,
    predict_tags,
    read_tagged,
    training,
)
from tests.conftest import ROOT
from tests.finetuning.toy import (
    FIELDS,
    SETTINGS,
    classification_run,
    sentences,
    tagging_run,
    write_conll,
    write_jsonl,
)
from tests.launched import launch

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """The folder of a finished run, and its results."""
    folder = tmp_path_factory.mktemp("tagging")
    run = tagging_run(folder, fields=FIELDS | {"tag_decoder": "crf"}, vectors_size=6)
    return folder / "tagger", run.begin(folder / "tagger")


def test_a_tagger_learns_names(tagger):
    folder, results = tagger
    assert results["dev"]["f1"] > 0.95
    assert results["test"]["f1"] > 0.95
    assert json.loads((folder / "results.json").read_text())["test"] == results["test"]


def test_a_classifier_learns_whether_there_is_a_name(tmp_path):
    run = classification_run(tmp_path, model=default_model(), settings=SETTINGS | {"learning_rate": 5e-3})
    results = run.begin(tmp_path / "out")
    assert results["dev"]["accuracy"] > 0.95
    assert pipeline("text-classification", str(tmp_path / "out"))("the cat saw Anna")[0]["label"] == "person"


def test_every_epoch_is_reported_on_standard_error_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    tagging_run(tmp_path, settings=SETTINGS | {"epochs": 2}).begin(tmp_path / "out")
    output, error = capsys.readouterr()
    assert not output
    assert re.search(r"epoch 1 of 2: loss \d\.\d{4}, dev f1 \d\.\d{4}", error)
    assert "epoch 2 of 2" in error
    assert "20/20" in error


@pytest.mark.parametrize(
    ("task", "name", "value", "reader"),
    [
        ("tagging", "pooling", "biattentive", "ElmoForSequenceClassification"),
        ("coreference", "tag_decoder", "crf", "ElmoForTokenClassification and ElmoForSemanticRoles"),
        ("classification", "max_answer_words", 3, "ElmoForQuestionAnswering"),
    ],
)
def test_fields_that_only_other_heads_read_are_refused(tmp_path, task, name, value, reader):
    run = FinetuningRun(task, TaskData("no.conll", "no.conll"), "no-model", fields={name: value})
    with pytest.raises(
        ValueError, match=f"`{name}` has no effect on ElmoFor.*, it is a field of {reader}: leave it out"
    ):
        run.begin(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_folder_holds_the_best_weights_and_no_checkpoints(tagger):
    folder, results = tagger
    model, tokenizer = load_head(str(folder))
    test = sentences(40, seed=2)
    tagged = list(predict_tags(model, tokenizer, [sentence.words for sentence in test]))
    right = [a == b for one, other in zip(tagged, test, strict=True) for a, b in zip(one.tags, other.tags, strict=True)]
    assert sum(right) / len(right) == pytest.approx(results["test"]["accuracy"])
    names = {path.name for path in folder.iterdir()}
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json", "finetune.json", "results.json"} <= names
    assert not names & {"checkpoints", "layers", ".model"}


def test_the_card_has_data_metrics_and_the_learned_mix(tagger):
    folder, results = tagger
    card = ModelCard.load(folder / "README.md")
    assert card.data.pipeline_tag == "token-classification"
    values = {(result.dataset_split, result.metric_type): result.metric_value for result in card.data.eval_results}
    assert values["test", "f1"] == pytest.approx(results["test"]["f1"], abs=1e-4)
    weights = AutoModelForTokenClassification.from_pretrained(folder).input_mixer.layer_weights()
    assert " | ".join(f"{weight:.3f}" for weight in weights.tolist()) in card.content
    assert "![Mixing weights](mixes.svg)" in card.content
    assert f">{weights[0]:.2f}</text>" in (folder / "mixes.svg").read_text()
    assert "`train.conll`" in card.content
    assert str(folder.parent) not in card.content  # nothing of the machine


def test_layers_may_be_kept_on_disk_or_not_at_all_with_the_same_result(tmp_path):
    results = []
    for cache in ("memory", "disk", "no"):
        (tmp_path / cache).mkdir()
        run = tagging_run(tmp_path / cache, settings=SETTINGS | {"epochs": 2, "cache": cache})
        results.append(run.begin(tmp_path / cache / "out")["test"])
    assert results[0] == pytest.approx(results[1], abs=1e-5)
    assert results[0] == pytest.approx(results[2], abs=1e-5)


KILLED = """
import os, signal, sys
from transformers import TrainerCallback
from elmo_hf.finetuning import HeadTrainer
from elmo_hf import default_model
from tests.finetuning.toy import SETTINGS, tagging_run
from pathlib import Path

class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 15:
            os.kill(os.getpid(), signal.SIGKILL)

begin = HeadTrainer.train
def train(self, resume=False):
    self.trainer.add_callback(Kill())
    begin(self, resume)
HeadTrainer.train = train
folder = Path(sys.argv[1])
settings = SETTINGS | {"epochs": 3, "learning_rate": 2e-4, "cache": sys.argv[2]}
tagging_run(folder, model=default_model(), settings=settings).begin(folder / "out")
"""


@pytest.mark.parametrize("cache", ["memory", pytest.param("disk", marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_to_the_same_weights_bit_for_bit(tmp_path, cache):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    settings = SETTINGS | {"epochs": 3, "learning_rate": 2e-4, "cache": cache}
    run = tagging_run(tmp_path / "whole", model=default_model(), settings=settings)  # large enough for rounding
    whole = run.begin(tmp_path / "whole" / "out")
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "killed", cache], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    resumed = FinetuningRun.resume(tmp_path / "killed" / "out")
    assert resumed["test"] == whole["test"]
    records = [json.loads((tmp_path / name / "out" / "results.json").read_text()) for name in ("whole", "killed")]
    assert records[0]["best_epoch"] == records[1]["best_epoch"] > 1  # after the kill
    models = [AutoModelForTokenClassification.from_pretrained(tmp_path / name / "out") for name in ("whole", "killed")]
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, other)


def test_a_run_that_had_stopped_early_is_finished_and_not_trained_on(tmp_path):
    """Killed after its last epoch, when patience had run out, before the model was saved."""
    run = tagging_run(tmp_path, settings=SETTINGS | {"epochs": 8, "patience": 1, "learning_rate": 1e-9})
    with mock.patch.object(FinetuningRun, "_save", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run.begin(tmp_path / "out")
    checkpoints = sorted(path.name for path in (tmp_path / "out" / "checkpoints").iterdir())
    half_written = tmp_path / "out" / "checkpoints" / "checkpoint-9999"
    half_written.mkdir()
    (half_written / "model.safetensors").write_bytes(b"half")
    with mock.patch.object(transformers.Trainer, "train") as train, mock.patch("shutil.rmtree") as removed:
        FinetuningRun.resume(tmp_path / "out")
    assert not train.called
    assert mock.call(half_written) in removed.call_args_list
    assert checkpoints == ["checkpoint-10", "checkpoint-20"]
    assert json.loads((tmp_path / "out" / "results.json").read_text())["epochs"] == 2.0


@pytest.mark.slow
def test_two_processes_share_a_run_and_leave_one_model(tmp_path):
    model = tagging_run(tmp_path).model
    files = [f"--{split}={tmp_path / split}.conll" for split in ("train", "dev", "test")]
    values = SETTINGS | FIELDS | {"cache": "disk", "batch_size": SETTINGS["batch_size"] // 2}
    assignments = ["--vectors-size=6", *(f"--set={name}={value}" for name, value in values.items())]
    command = ["finetune", "tagging", *files, "--model", model, "--out", tmp_path / "out", *assignments]
    output = launch(2, ["-m", "elmo_hf.cli", *command])
    assert output.count("the model and its card") == 1
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["test"]["f1"] > 0.9
    assert load_head(str(tmp_path / "out"))[0].config.label_names == ["O", "B-PER", "I-PER"]
    assert not (tmp_path / "out" / "layers").exists()


def test_a_folder_that_holds_a_run_or_anything_else_is_refused(tagger, tmp_path):
    folder, _ = tagger
    run = tagging_run(tmp_path)
    with pytest.raises(RunError, match="already holds a run"):
        run.begin(folder)
    with pytest.raises(RunError, match="is finished"):
        FinetuningRun.resume(folder)
    with pytest.raises(FolderError, match="not an empty folder"):
        run.begin(tmp_path)
    with pytest.raises(RunError, match="holds no run"):
        FinetuningRun.resume(tmp_path)


def test_bad_data_leaves_no_folder(tmp_path):
    run = tagging_run(tmp_path)
    (tmp_path / "dev.conll").write_text("word\n")
    with pytest.raises(TextError, match=r"dev\.conll, line 1"):
        run.begin(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_all_layers_of_a_run_have_the_same_precision(tmp_path, monkeypatch):
    seen, forward = set(), ElmoModel.forward

    def recorded(self, *args, **kwargs):
        seen.add(torch.is_autocast_enabled("cpu"))
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(ElmoModel, "forward", recorded)
    tagging_run(tmp_path, settings=SETTINGS | {"epochs": 1, "precision": "bf16"}).begin(tmp_path / "out")
    assert seen == {True}


def test_an_error_before_the_training_leaves_no_folder_of_layers(tmp_path):
    run = tagging_run(tmp_path)
    run.settings = run.settings | {"cache": "disk"}
    with mock.patch.object(training, "Examples", side_effect=TextError("a bad word")), pytest.raises(TextError):
        run.begin(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_that_another_process_begins_meanwhile_keeps_its_description(tmp_path):
    run, other = tagging_run(tmp_path), tmp_path / "out"
    prepare = FinetuningRun._prepare

    def prepare_late(*arguments):
        other.mkdir()
        (other / "finetune.json").write_text("of the other")
        return prepare(*arguments)

    with mock.patch.object(FinetuningRun, "_prepare", prepare_late), pytest.raises(RunError, match="already holds"):
        run.begin(other)
    assert (other / "finetune.json").read_text() == "of the other"


def test_results_tell_how_the_head_was_trained(tagger):
    folder, results = tagger
    stored = json.loads((folder / "results.json").read_text())
    assert stored["dev"] == results["dev"]
    assert stored["examples"] == {"train": 160, "dev": 40, "test": 40}
    assert stored["seed"] == 0
    assert stored["seconds"] > 0
    assert 1 <= stored["best_epoch"] <= stored["epochs"] <= 6
    mix = AutoModelForTokenClassification.from_pretrained(folder).input_mixer.layer_weights()
    assert stored["mix"] == {"input": pytest.approx(mix.tolist())}
    assert stored["settings"].items() >= SETTINGS.items()


def test_of_several_seeds_the_best_is_saved_and_all_are_reported(tmp_path):
    run = tagging_run(tmp_path, settings=SETTINGS | {"epochs": 1}, vectors_size=6, seeds=[3, 1, 2])
    results = run.begin(tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [record["seed"] for record in stored["seeds"]] == [3, 1, 2]
    values = [record["dev"]["f1"] for record in stored["seeds"]]
    assert len(set(values)) > 1
    assert stored["mean"]["dev"]["f1"] == pytest.approx(sum(values) / 3)
    assert stored["range"]["dev"]["f1"] == [min(values), max(values)]
    best = stored["seeds"][values.index(max(values))]
    assert (stored["seed"], stored["dev"], stored["test"]) == (best["seed"], best["dev"], best["test"])
    assert results == {"dev": best["dev"], "test": best["test"]}
    model, _ = load_head(str(tmp_path / "out"))
    assert model.input_mixer.layer_weights().tolist() == pytest.approx(best["mix"]["input"])
    assert not {"seeds", ".seeds.json", "checkpoints"} & {path.name for path in (tmp_path / "out").iterdir()}
    assert not list((tmp_path / "out").glob(".model*"))
    assert "the best of 3 seeds" in (tmp_path / "out" / "README.md").read_text()


def test_a_seed_is_trained_as_if_it_were_the_only_one(tmp_path):
    settings = SETTINGS | {"epochs": 1}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    single = tagging_run(tmp_path / "one", settings=settings | {"seed": 2}).begin(tmp_path / "one" / "out")
    tagging_run(tmp_path / "two", settings=settings, seeds=[1, 2]).begin(tmp_path / "two" / "out")
    second = json.loads((tmp_path / "two" / "out" / "results.json").read_text())["seeds"][1]
    assert second["test"] == single["test"]


def test_seeds_that_were_done_are_not_trained_again(tmp_path):
    run = tagging_run(tmp_path, settings=SETTINGS | {"epochs": 1}, seeds=[1, 2])
    save = FinetuningRun._save

    def stop_at_the_second(trainer, folder, seed):
        if seed == 2:
            raise KeyboardInterrupt
        save(trainer, folder, seed)

    with mock.patch.object(FinetuningRun, "_save", staticmethod(stop_at_the_second)), pytest.raises(KeyboardInterrupt):
        run.begin(tmp_path / "out")
    with mock.patch.object(FinetuningRun, "_prepare", autospec=True, side_effect=FinetuningRun._prepare) as prepare:
        FinetuningRun.resume(tmp_path / "out")
    assert [call.args[4] for call in prepare.call_args_list] == [2]
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [record["seed"] for record in results["seeds"]] == [1, 2]
    load_head(str(tmp_path / "out"))


def test_a_run_of_an_earlier_version_keeps_its_settings(tmp_path):
    stored = {"task": "tagging", "data": {"train": "a", "dev": "b"}, "model": "c", "settings": {"epochs": 3}}
    (tmp_path / "finetune.json").write_text(json.dumps(stored))
    run = FinetuningRun.load(tmp_path)
    assert run.settings == {"epochs": 3, "learning_rate": 1e-3, "batch_size": 32, "evaluation_epochs": 1, "patience": 5}


def test_a_file_of_another_kind_than_the_training_data_is_named(tmp_path):
    run = classification_run(tmp_path)
    (tmp_path / "dev.jsonl").write_text('{"text": "a", "text_pair": "b", "label": "person"}\n')
    with pytest.raises(TextError, match=r"dev\.jsonl has pairs of texts, and .*train\.jsonl has none"):
        run.begin(tmp_path / "out")
    (tmp_path / "dev.jsonl").write_text('{"text": "a", "label": ["person"]}\n')
    with pytest.raises(TextError, match=r"dev\.jsonl: a label is \['person'\], and in .*train\.jsonl '"):
        run.begin(tmp_path / "out")


def test_training_under_autocast_saves_fp32(tmp_path):
    tagging_run(tmp_path, settings=SETTINGS | {"epochs": 1, "precision": "bf16"}).begin(tmp_path / "out")
    assert load_head(str(tmp_path / "out"))[0].dtype == torch.float32


def test_the_same_seed_twice_is_refused(tmp_path):
    with pytest.raises(ValueError, match="trained once, found 1, 1"):
        tagging_run(tmp_path, seeds=[1, 1]).begin(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_smaller_part_of_the_training_data_is_in_a_larger_one(tmp_path):
    data = tagging_run(tmp_path).data
    parts = [replace(data, max_train=size).read(read_tagged) for size in (10, 40, 1000)]
    assert [len(part.train) for part in parts] == [10, 40, 160]
    assert all(sentence in parts[1].train for sentence in parts[0].train)
    assert parts[0].dev == parts[2].dev
    assert parts[0].train != parts[2].train[:10]  # a file may be sorted
    assert replace(data, train_share=0.25).read(read_tagged) == parts[1]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"max_train": 0}, "max_train"),
        ({"train_share": 1.5}, "train_share"),
        ({"max_train": 1, "train_share": 0.5}, "one"),
    ],
    ids=str,
)
def test_a_part_of_the_training_data_that_cannot_be_is_refused(tmp_path, choice, message):
    with pytest.raises(ValueError, match=message):
        TaskData("a", "b", **choice)


def test_one_class_and_plain_text_are_refused_before_there_is_a_folder(tmp_path):
    tagging, classification = tagging_run(tmp_path), classification_run(tmp_path)
    write_conll(tmp_path / "train.conll", [TaggedSentence(["a", "b"], ["O", "O"])] * 3)
    with pytest.raises(TextError, match=r"train\.conll: every word has the tag 'O'"):
        tagging.begin(tmp_path / "out")
    write_jsonl(tmp_path / "train.jsonl", [LabelledText("a", None, "x"), LabelledText("b", None, "x")])
    with pytest.raises(TextError, match=r"train\.jsonl: every text has the label 'x'"):
        classification.begin(tmp_path / "out")
    text = [" ".join(sentence) for sentence in zip(*[iter(map(str, range(200)))] * 4, strict=True)]
    (tmp_path / "train.conll").write_text("\n".join(text))
    with pytest.raises(TextError, match=r"train\.conll: 50 words with 50 different tags.*plain text"):
        tagging.begin(tmp_path / "out")
    (tmp_path / "train.conll").write_text("The cat sat .\nIt was a very fine day .\n")
    with pytest.raises(TextError, match=r"train\.conll, line 2: 7 columns.*plain text"):
        tagging.begin(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_small_data_train_for_many_steps(tmp_path):
    run = tagging_run(tmp_path, settings={"learning_rate": 0.02, "patience": 2}, vectors_size=6)
    run.data.max_train = 20
    run.begin(tmp_path / "out")
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["settings"]["batch_size"] == 4
    assert results["epochs"] >= 30  # three evaluations, ten epochs of five steps apart
    assert results["test"]["f1"] > 0.7


def test_a_head_on_8_bit_weights_is_trained_saved_and_loaded(tmp_path):
    settings = SETTINGS | {"precision": "int8"}
    results = tagging_run(tmp_path, settings=settings, vectors_size=6).begin(tmp_path / "out")
    assert results["dev"]["f1"] > 0.9
    model, tokenizer = load_head(str(tmp_path / "out"))
    assert model.elmo.layers[0].is_quantized
    test = sentences(40, seed=2)
    tagged = list(predict_tags(model, tokenizer, [sentence.words for sentence in test]))
    right = [a == b for one, other in zip(tagged, test, strict=True) for a, b in zip(one.tags, other.tags, strict=True)]
    assert sum(right) / len(right) == pytest.approx(results["test"]["accuracy"])
    with pytest.raises(ValueError, match="do not learn"):
        tagging_run(tmp_path, settings=settings, fields={"freeze_bilm": False}).begin(tmp_path / "tuned")


def test_a_head_without_elmo_leaves_a_folder_without_a_bilm_that_predicts(tmp_path):
    run = tagging_run(tmp_path, fields=FIELDS | {"elmo_places": "none"}, vectors_size=6)
    results = run.begin(tmp_path / "out")
    assert results["test"]["f1"] > 0.9
    assert (tmp_path / "out" / "model.safetensors").stat().st_size < 20_000
    model, tokenizer = load_head(str(tmp_path / "out"))
    (tagged,) = predict_tags(model, tokenizer, [["Anna", "saw", "a", "cat"]])
    assert tagged.tags == ["B-PER", "O", "O", "O"]
    assert json.loads((tmp_path / "out" / "results.json").read_text())["mix"] == {}
