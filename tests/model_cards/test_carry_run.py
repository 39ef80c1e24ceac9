"""A run of pretraining moves to another machine through a small folder without text."""

import json

import pytest

from elmo_hf import ElmoForPreTraining
from elmo_hf.model_cards.carry_run import restore, store
from elmo_hf.pretraining import Run, RunText
from tests.pretraining.runs import random_documents, tiny_language_model, tiny_settings, tiny_tokenizer, write_text

pytestmark = pytest.mark.medium


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt", random_documents([3, 1, 4, 2, 5, 3] * 4))


@pytest.fixture
def stored(text, tmp_path):
    """The folder of a run that has made four of eight steps."""
    settings = tiny_settings(steps=4, epochs=None, optimizer="muon")
    run = Run.begin(
        tmp_path / "run", tiny_language_model(), tiny_tokenizer(), RunText([str(text)], pretokenized=True), settings
    )
    run.train()
    store(tmp_path / "run", tmp_path / "stored")
    return tmp_path / "stored"


def test_a_restored_run_has_the_weights_the_place_and_the_history_of_the_stored_one(stored, text, tmp_path):
    progress = restore(stored, tmp_path / "restored", [str(text)], [])
    resumed = Run.resume(tmp_path / "restored", steps=8)
    original = ElmoForPreTraining.from_pretrained(tmp_path / "run").state_dict()
    for name, weight in resumed.trainer.unwrapped.state_dict().items():
        step = original[name].abs().amax(dim=-1, keepdim=True) / 127 if weight.ndim > 1 else 0
        assert ((weight - original[name]).abs() <= 0.501 * step).all(), name
    position = json.loads((stored / "position.json").read_text())
    assert resumed.trainer.streams.reader.state_dict() == position["reader"]
    assert resumed.trainer.progress == progress
    assert (progress.step, progress.words) == (4, position["progress"]["words"])
    assert (tmp_path / "restored" / "history.jsonl").read_text() == (stored / "history.jsonl").read_text()


def test_a_restored_run_continues(stored, text, tmp_path):
    before = restore(stored, tmp_path / "restored", [str(text)], [])
    run = Run.resume(tmp_path / "restored", steps=8)
    run.train()
    assert run.trainer.progress.step == 8
    assert run.trainer.progress.words > before.words
    assert run.trainer.progress.cpu_seconds > before.cpu_seconds


def test_the_optimiser_of_a_restored_run_has_averages(stored, text, tmp_path):
    restore(stored, tmp_path / "restored", [str(text)], [])
    optimizer = Run.resume(tmp_path / "restored", steps=8).trainer.optimizer.optimizer
    momenta = [state["momentum_buffer"] for state in optimizer.muon.state.values()]
    assert momenta
    assert all(momentum.abs().sum() > 0 for momentum in momenta)


def test_the_stored_folder_has_no_text(stored, text):
    sentence = text.read_text().splitlines()[0]
    assert " " in sentence
    for path in stored.iterdir():
        assert sentence.encode() not in path.read_bytes()


def test_a_run_without_checkpoints_cannot_be_stored(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(FileNotFoundError, match="no complete checkpoint"):
        store(tmp_path / "run", tmp_path / "stored")
    assert not (tmp_path / "stored").exists()
