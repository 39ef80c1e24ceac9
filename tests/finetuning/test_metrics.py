"""Metrics on cases that can be counted by hand."""

import numpy as np
import pytest

from elmo_hf.finetuning.metrics import (
    classification_metrics,
    multi_label_metrics,
    regression_metrics,
    span_metrics,
)


def test_spans_count_only_when_all_of_them_is_right():
    wanted = [["B-x", "I-x", "O", "B-y"], ["O", "B-x"]]
    predicted = [["B-x", "I-x", "O", "B-x"], ["O", "B-x"]]  # two of three; and one of three is wrong
    assert span_metrics(wanted, predicted) == pytest.approx({"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3})
    assert span_metrics([["O"]], [["O"]]) == {"precision": 0, "recall": 0, "f1": 0}


def test_macro_f1_is_the_mean_over_labels():
    metrics = classification_metrics(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    assert metrics == pytest.approx({"accuracy": 0.75, "macro_f1": (2 / 3 + 0.8) / 2})


def test_several_labels_are_right_together():
    metrics = multi_label_metrics(np.array([[1, 0], [1, 1]], dtype=bool), np.array([[1, 0], [1, 0]], dtype=bool))
    assert metrics == pytest.approx({"accuracy": 0.5, "macro_f1": 0.5, "micro_f1": 0.8})


def test_numbers_have_their_error_and_correlation():
    metrics = regression_metrics(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    assert metrics == pytest.approx({"mse": 14 / 3, "pearson": 1.0})
    assert regression_metrics(np.ones(3), np.arange(3.0))["pearson"] == 0.0


def test_spans_of_bilou_count_as_those_of_bioes():
    wanted, predicted = ["U-PER", "U-PER", "B-LOC", "L-LOC"], ["O", "U-PER", "B-LOC", "L-LOC"]
    assert span_metrics([wanted], [predicted])["f1"] == pytest.approx(0.8)
