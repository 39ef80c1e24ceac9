"""Runs: they learn, stop at the best, go on after a kill, and leave a folder that loads with its card."""

import json
import re
import signal
import subprocess
import sys
from unittest import mock

import pytest
import torch
import transformers
from huggingface_hub import ModelCard
from transformers import AutoModelForTokenClassification, pipeline

from elmo_hf import default_model
from elmo_hf.errors import FolderError, RunError, TextError
from elmo_hf.finetuning import FinetuningRun, load_head, predict_tags
from tests.conftest import ROOT
from tests.finetuning.toy import FIELDS, SETTINGS, classification_run, sentences, tagging_run
from tests.launched import launch


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


def test_every_epoch_is_reported_on_standard_error_alone(tmp_path, capsys):
    tagging_run(tmp_path, settings=SETTINGS | {"epochs": 2}).begin(tmp_path / "out")
    output, error = capsys.readouterr()
    assert not output
    assert re.search(r"epoch 1 of 2: loss \d\.\d{4}, dev f1 \d\.\d{4}", error)
    assert "epoch 2 of 2" in error
    assert "20/20" in error


def test_the_folder_holds_the_best_weights_and_no_checkpoints(tagger):
    folder, results = tagger
    model, tokenizer = load_head(str(folder))
    test = sentences(40, seed=2)
    found = list(predict_tags(model, tokenizer, [sentence.words for sentence in test]))
    right = [a == b for one, other in zip(found, test, strict=True) for a, b in zip(one.tags, other.tags, strict=True)]
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
from tests.launched import launch
from tests.finetuning.toy import SETTINGS, tagging_run
from pathlib import Path

class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 25:
            os.kill(os.getpid(), signal.SIGKILL)

begin = HeadTrainer.train
def train(self, resume=False):
    self.trainer.add_callback(Kill())
    begin(self, resume)
HeadTrainer.train = train
folder = Path(sys.argv[1])
tagging_run(folder, settings=SETTINGS | {"epochs": 4}).begin(folder / "out")
"""


def test_a_killed_run_goes_on_to_the_same_result(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = tagging_run(tmp_path / "whole", settings=SETTINGS | {"epochs": 4}).begin(tmp_path / "whole" / "out")
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "killed"], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    resumed = FinetuningRun.resume(tmp_path / "killed" / "out")
    assert resumed["test"] == pytest.approx(whole["test"], abs=1e-5)
    models = [AutoModelForTokenClassification.from_pretrained(tmp_path / name / "out") for name in ("whole", "killed")]
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


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
