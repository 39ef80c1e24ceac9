"""The same head with and without ELMo on shares of the data: runs, resuming, and what is refused before training."""

import json

import numpy as np
import pytest

from elmo_hf.analysis.sample_efficiency import WITH, WITHOUT, samples
from elmo_hf.errors import RunError, TextError
from elmo_hf.finetuning import FinetuningRun, TaskData
from tests.finetuning.toy import FIELDS, SETTINGS, sentences, texts, write_bilm, write_conll, write_jsonl


@pytest.fixture
def data(tmp_path) -> TaskData:
    parts = [("train", 40), ("dev", 10), ("test", 10)]
    return TaskData(*(write_conll(tmp_path / f"{name}.conll", sentences(n, s)) for s, (name, n) in enumerate(parts)))


@pytest.fixture
def trained(monkeypatch):
    """Runs that only write down what they are, with scores that tell them apart."""
    runs = []

    def begin(run, folder):
        runs.append(run)
        folder.mkdir(parents=True)
        score = run.data.train_share + (0.1 if "elmo_places" not in run.fields else 0)
        records = [{"seed": s, "dev": {"f1": score + s / 100}} for s in run.seeds or [run.settings["seed"]]]
        records = [record | {"test": {"f1": -score}} for record in records]
        results = records[0] | ({"seeds": records} if len(records) > 1 else {})
        (folder / "results.json").write_text(json.dumps(results))

    monkeypatch.setattr(FinetuningRun, "begin", begin)
    return runs


def test_heads_differ_in_elmo_alone_and_scores_are_by_share_and_seed(data, tmp_path, trained):
    told: list[str] = []
    options = {"shares": [1, 0.1], "seeds": [3, 4], "fields": FIELDS, "settings": SETTINGS, "report": told.append}
    curve = samples("tagging", data, tmp_path / "work", model="m", **options)
    assert told[1] == "without ELMo, 10 % of the training data, 4 examples"
    assert (curve.shares, curve.examples, curve.metric, curve.seeds) == ([0.1, 1], [4, 40], "f1", [3, 4])
    np.testing.assert_allclose(curve.scores["dev"][WITH], [[0.23, 0.24], [1.13, 1.14]])
    np.testing.assert_allclose(curve.scores["dev"][WITHOUT], [[0.13, 0.14], [1.03, 1.04]])
    np.testing.assert_allclose(curve.scores["test"][WITHOUT], [[-0.1, -0.1], [-1, -1]])
    for run in trained:
        assert (run.vectors_size, run.seeds, run.settings) == (100, [3, 4], SETTINGS | {"seed": 3})
    assert [run.fields for run in trained[:2]] == [FIELDS, FIELDS | {"elmo_places": "none"}]
    assert "10 %" in curve.table()
    assert "dev, without ELMo" in curve.table()


def test_finished_heads_are_not_trained_again_and_stopped_ones_continue(data, tmp_path, trained, monkeypatch):
    first = samples("tagging", data, tmp_path / "work", model="m", shares=[0.5, 1])
    assert len(trained) == 4
    stopped = tmp_path / "work" / "with-elmo-0.5"
    stopped.joinpath("results.json").rename(stopped / "aside.json")
    stopped.joinpath("finetune.json").write_text("{}")
    resumed = []

    def resume(folder):
        resumed.append(folder)
        (folder / "aside.json").rename(folder / "results.json")

    monkeypatch.setattr(FinetuningRun, "resume", resume)
    again = samples("tagging", data, tmp_path / "work", model="m", shares=[0.5, 1])
    assert (len(trained), resumed) == (4, [stopped])
    assert again.table() == first.table()
    with pytest.raises(RunError, match="different: seeds"):
        samples("tagging", data, tmp_path / "work", model="m", shares=[0.5, 1], seeds=[1])


def test_shares_that_teach_nothing_are_refused_before_anything_is_trained(data, tmp_path, trained):
    def run(**options):
        samples("tagging", data, tmp_path / "work", model="m", **options)

    uniform = [sentence for sentence in sentences(400, 0) if len(set(sentence.tags)) == 1]
    write_conll(tmp_path / "train.conll", uniform[:40])
    with pytest.raises(TextError, match=r"so there is nothing to learn. This holds for 0.1 % of it, 1 example: choose"):
        run()
    write_conll(tmp_path / "train.conll", sentences(40, 0))
    with pytest.raises(TextError, match=r"two shares have 20 examples each, 50\.1 % and a smaller one"):
        run(shares=[0.5, 0.501])
    with pytest.raises(ValueError, match="`train_share` must be above 0 and at most 1, found 2"):
        run(shares=[2])
    with pytest.raises(ValueError, match="at least one share"):
        run(shares=[])
    with pytest.raises(ValueError, match="one or more different numbers"):
        run(seeds=[1, 1])
    with pytest.raises(ValueError, match="cannot be 'none'"):
        run(fields={"elmo_places": "none"})
    with pytest.raises(ValueError, match="`span_size` has no effect on ElmoForTokenClassification"):
        run(fields={"span_size": 8})
    data.train_share = 0.5
    with pytest.raises(ValueError, match="leave out `max_train` and `train_share`"):
        run()
    assert trained == []
    assert not (tmp_path / "work").exists()


@pytest.mark.medium
def test_a_small_task_is_learned_with_and_without_elmo(tmp_path):
    parts = [("train", 120), ("dev", 30)]
    files = [write_jsonl(tmp_path / f"{name}.jsonl", texts(n, s)) for s, (name, n) in enumerate(parts)]
    curve = samples(
        "classification",
        TaskData(*files),
        tmp_path / "work",
        model=write_bilm(tmp_path / "bilm"),
        shares=[1],
        fields=FIELDS,
        settings=SETTINGS,
        vectors_size=8,
    )
    assert curve.metric == "accuracy"
    assert curve.examples == [120]
    assert curve.scores["dev"][WITH].shape == (1, 1)
    assert curve.scores["dev"][WITHOUT][0, 0] > 0.8
