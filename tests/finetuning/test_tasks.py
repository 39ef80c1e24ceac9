"""Labels, features, batches and metrics of both tasks."""

import numpy as np
import pytest
from transformers import EvalPrediction

from elmo_hf import ElmoTokenizer
from elmo_hf.errors import TextError
from elmo_hf.finetuning import ClassificationTask, LabelledText, TaggedSentence, TaggingTask

TOKENIZER = ElmoTokenizer()


def test_tags_are_numbered_o_first_then_by_the_alphabet():
    task = TaggingTask.of([TaggedSentence(["a", "b"], ["I-x", "O"]), TaggedSentence(["c"], ["B-x"])])
    assert task.labels == ["O", "B-x", "I-x"]
    assert task.best_metric == "f1"
    assert TaggingTask(["NOUN", "VERB"]).best_metric == "accuracy"


def test_a_batch_of_tagged_sentences_has_labels_at_words_only():
    task = TaggingTask(["O", "x"])
    examples = [TaggedSentence(["a", "b", "c"], ["x", "O", "x"]), TaggedSentence(["d"], ["x"])]
    features = [task.features(example, TOKENIZER) for example in examples]
    assert [len(feature["input_ids"]) for feature in features] == [5, 3]
    batch = task.collate(features, TOKENIZER)
    assert batch["labels"].tolist() == [[-100, 1, 0, 1, -100], [-100, 1, -100, -100, -100]]
    assert batch["char_ids"].shape == (2, 5, 50)


def test_a_tag_that_the_task_does_not_have_is_named():
    with pytest.raises(TextError, match="'y' is not one of the task's: O, x"):
        TaggingTask(["O", "x"]).features(TaggedSentence(["a"], ["y"]), TOKENIZER)


@pytest.mark.parametrize(
    ("labels", "kind", "encoded"),
    [
        (["b", "a"], "single_label_classification", [1, 0]),
        ([0.5, 2.0], "regression", [[0.5], [2.0]]),
        ([["y"], ["x", "y"]], "multi_label_classification", [[0.0, 1.0], [1.0, 1.0]]),
    ],
    ids=str,
)
def test_labels_decide_on_the_kind_of_problem(labels, kind, encoded):
    examples = [LabelledText("a b", None, label) for label in labels]
    task = ClassificationTask.of(examples)
    assert task.config_fields()["problem_type"] == kind
    batch = task.collate([task.features(example, TOKENIZER) for example in examples], TOKENIZER)
    assert batch["labels"].tolist() == encoded


def test_pairs_become_two_segments():
    examples = [LabelledText("a b", "c", "x"), LabelledText("d", "e f g", "y")]
    task = ClassificationTask.of(examples)
    assert task.config_fields()["text_pairs"]
    batch = task.collate([task.features(example, TOKENIZER) for example in examples], TOKENIZER)
    assert batch["token_type_ids"].tolist()[0][:7] == [0, 0, 0, 0, 1, 1, 1]
    assert list(task.words(examples, TOKENIZER)) == list("abcdefg")


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([LabelledText("a", None, "x"), LabelledText("b", "c", "x")], "Some texts have a pair"),
        ([LabelledText("a", None, "x"), LabelledText("b", None, 1.0)], "of one kind, found float, str"),
    ],
)
def test_a_mixture_is_refused(examples, message):
    with pytest.raises(TextError, match=message):
        ClassificationTask.of(examples)


def test_metrics_see_labelled_words_only():
    task = TaggingTask(["O", "B-x", "I-x"])
    logits = np.eye(3)[[[0, 1, 2, 0], [1, 0, 0, 0]]]
    wanted = np.array([[-100, 1, 2, -100], [1, 1, -100, -100]])
    metrics = task.metrics(EvalPrediction(logits, wanted))
    assert metrics["accuracy"] == 0.75
    assert metrics["precision"] == 1.0
    assert metrics["recall"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("labels", [["0.5", "1", "-2.25e1"], [0.5, 1, 2.0]], ids=["text", "numbers"])
def test_numbers_with_a_point_are_scores(labels):
    task = ClassificationTask.of([LabelledText("a", None, label) for label in labels])
    assert task.problem_type == "regression"
    assert [task.features(LabelledText("a", None, label), ElmoTokenizer())["label"] for label in labels] == [
        [float(label)] for label in labels
    ]


@pytest.mark.parametrize("labels", [["0", "1", "2"], [0, 1, 2], ["v1.0", "2.5"]], ids=["text", "numbers", "names"])
def test_other_numbers_are_names(labels):
    task = ClassificationTask.of([LabelledText("a", None, label) for label in labels])
    assert task.problem_type == "single_label_classification"
    assert task.labels == sorted(map(str, labels))


def test_labels_stand_at_their_words_whatever_the_side_of_padding():
    task = TaggingTask(["A", "B"])
    batches = []
    for side in ("left", "right"):
        tokenizer = ElmoTokenizer(padding_side=side)
        examples = [TaggedSentence(["a", "b", "c"], ["A", "B", "A"]), TaggedSentence(["d"], ["B"])]
        batches.append(task.collate([task.features(example, tokenizer) for example in examples], tokenizer))
    assert (
        batches[0]["labels"].tolist()
        == batches[1]["labels"].tolist()
        == [[-100, 0, 1, 0, -100], [-100, 1] + [-100] * 3]
    )
    assert batches[0]["attention_mask"].tolist() == batches[1]["attention_mask"].tolist()


def test_a_new_head_for_pairs_normalises_its_layers_and_has_less_dropout():
    pairs = ClassificationTask.of([LabelledText("a", "b", "yes"), LabelledText("a", "c", "no")]).config_fields()
    texts = ClassificationTask.of([LabelledText("a", None, "yes"), LabelledText("b", None, "no")]).config_fields()
    assert (pairs["text_pairs"], pairs["elmo_layer_norm"], pairs["elmo_dropout"]) == (True, True, 0.2)
    assert not {"elmo_layer_norm", "elmo_dropout"} & set(texts)
