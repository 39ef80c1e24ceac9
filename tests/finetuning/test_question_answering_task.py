"""A head learns to answer questions, its folder predicts, and answers beyond the limit of a context do no harm."""

import json

import numpy as np
import pytest
from transformers import EvalPrediction

from elmo_hf import ElmoForQuestionAnswering, ElmoTokenizer
from elmo_hf.data.squad import Answer, Question
from elmo_hf.errors import TextError
from elmo_hf.finetuning import load_head, predict_answers, read_squad
from elmo_hf.finetuning import question_answering_task as module
from elmo_hf.finetuning.question_answering_task import QuestionAnsweringTask
from elmo_hf.finetuning.training import Examples
from tests.finetuning.toy import FIRST, questions_run

CONTEXT = "Anna sat on the bank. It was cold."
QUESTION = Question("1", "Who sat?", CONTEXT, (Answer("Anna", 0),))
SETTINGS = {"epochs": 6, "batch_size": 16, "learning_rate": 0.01}
FIELDS = {"task_layer_size": 16, "elmo_dropout": 0.0, "classifier_dropout": 0.0}


@pytest.fixture(scope="module")
def tokenizer():
    return ElmoTokenizer()


def test_positions_are_those_of_the_words_that_the_answer_touches(tokenizer):
    task = QuestionAnsweringTask()
    for answer, wanted in (
        (Answer("Anna", 0), (6, 6)),
        (Answer("the bank", 12), (9, 10)),
        (Answer("nk. It", 18), (10, 12)),
    ):
        batch = task.collate([task.features(QUESTION._replace(answers=(answer,)), tokenizer)], tokenizer)
        assert (int(batch["start_positions"]), int(batch["end_positions"])) == wanted
        row = tokenizer(QUESTION.question, CONTEXT)["char_ids"]
        assert batch["char_ids"][0].tolist() == row  # as the tokenizer splits the texts


def test_a_question_without_an_answer_points_to_the_first_boundary(tokenizer):
    unanswered = QUESTION._replace(answers=())
    task = QuestionAnsweringTask.of([QUESTION, unanswered])
    assert task.config_fields() == {"allow_no_answer": True}
    assert task.features(unanswered, tokenizer)["positions"] == (0, 0)
    assert QuestionAnsweringTask.of([QUESTION]).config_fields() == {"allow_no_answer": False}
    with pytest.raises(TextError, match=r"a\.json: not a single question has an answer"):
        task.check_variety([unanswered], "a.json")


def test_an_answer_beyond_the_words_that_are_read_is_left_out_of_the_loss(tokenizer, monkeypatch):
    monkeypatch.setattr(module, "MAX_CONTEXT", 4)
    task, far = QuestionAnsweringTask(), QUESTION._replace(answers=(Answer("cold", 29),))
    feature = task.features(far, tokenizer)
    assert len(feature["context"]) == 4
    assert feature["positions"] == (-100, -100)


def test_metrics_are_of_the_best_span_and_padding_does_not_count(tokenizer):
    unanswered = QUESTION._replace(answers=())
    task = QuestionAnsweringTask.of([QUESTION, unanswered])
    features = [task.features(question, tokenizer) for question in (QUESTION, unanswered)]
    logits = np.full((2, 2, 30), 50.0)  # (start and end, examples, words): high where there is no context
    logits[:, :, 0] = [[-1, 9], [-1, 9]]
    logits[:, :, 6:16] = 0
    logits[:, 0, 6] = 4
    metrics = task.metrics(EvalPrediction((logits[0], logits[1]), np.zeros((2, 2))), features)
    assert metrics == {"exact_match": 1.0, "f1": 1.0, "has_answer_f1": 1.0, "no_answer_accuracy": 1.0}


def test_evaluation_reads_a_long_context_in_windows(tokenizer, monkeypatch):
    monkeypatch.setattr(module, "MAX_CONTEXT", 4)
    monkeypatch.setattr(module, "OVERLAP", 1)
    far, unanswered = QUESTION._replace(answers=(Answer("cold", 29),)), QUESTION._replace(answers=())
    task = QuestionAnsweringTask.of([far, unanswered])
    features = Examples([far, far, unanswered], task, tokenizer, evaluated=True).features
    assert [" ".join(feature["context"]) for feature in task.evaluation_features(far, tokenizer)] == [
        "Anna sat on the", "the bank . It", "It was cold .",
    ]  # fmt: skip
    assert len(features) == 9
    assert [feature["positions"] for feature in task.evaluation_features(far, tokenizer)] == [
        (-100, -100), (-100, -100), (8, 8),
    ]  # fmt: skip
    logits = np.zeros((2, 9, 11))  # (start and end, windows, words)
    for row, feature in enumerate(features):
        if feature["example"] is far and "cold" in feature["context"]:
            logits[:, row, 8] = 5  # the answer
            logits[:, row, 0] = -5  # "there is no answer"
        elif feature["example"] is far:
            logits[:, row, 0] = 9
        else:
            logits[:, row, 0] = 1
    found = task.metrics(EvalPrediction((logits[0], logits[1]), np.zeros((9, 2))), features)
    assert found == {"exact_match": 1.0, "f1": 1.0, "has_answer_f1": 1.0, "no_answer_accuracy": 1.0}


@pytest.mark.medium
def test_a_head_learns_who_did_it_and_its_folder_answers(tmp_path):
    run = questions_run(tmp_path, settings=SETTINGS, vectors_size=16, fields=FIELDS)
    metrics = run.begin(tmp_path / "out")
    assert metrics["test"]["f1"] > 0.9
    model, tokenizer = load_head(str(tmp_path / "out"))
    assert type(model) is ElmoForQuestionAnswering
    questions = read_squad(str(tmp_path / "test.json"))
    answered = list(predict_answers(model, tokenizer, questions, n_best=2))
    right = [each.answers[0]["answer"] == each.question.answers[0].text for each in answered]
    assert sum(right) / len(right) == pytest.approx(metrics["test"]["exact_match"])
    assert all(len(result.answers) == 2 for result in answered)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "pipeline_tag: question-answering" in card
    assert "model.answer(tokenizer" in card
    assert "exact_match" in card
    assert "LABEL_0" not in card
    results = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert results["examples"] == {"train": 400, "dev": 40, "test": 40}


@pytest.mark.medium
def test_a_head_learns_that_there_is_no_answer(tmp_path):
    run = questions_run(tmp_path, without_answer=True, settings=SETTINGS, vectors_size=16, fields=FIELDS)
    metrics = run.begin(tmp_path / "out")
    assert metrics["test"]["has_answer_f1"] > 0.7
    assert metrics["test"]["no_answer_accuracy"] > 0.7
    model, tokenizer = load_head(str(tmp_path / "out"))
    best = model.answer(tokenizer, "Who saw the dog ?", f"{FIRST[0]} held the dog , {FIRST[1]} fed the dog")[0]
    assert best["answer"] in ("", *FIRST)
