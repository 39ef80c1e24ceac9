"""Exact match and F1 of answers, on pairs whose scores are known by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.finetuning.answer_metrics import answer_metrics, exact_match, normalized, word_f1


@pytest.mark.parametrize(
    ("predicted", "wanted", "exact", "f1"),
    [
        ("The Broncos", "broncos", 1, 1),  # articles and case do not count
        ("U.S.", "US", 1, 1),  # punctuation is removed, not replaced
        ("twenty-one", "twenty one", 0, 0),  # so that a hyphen joins two words
        ("in the  harbour ", "in harbour", 1, 1),
        ("Denver Broncos", "Broncos", 0, 2 / 3),
        ("the red red house", "red house", 0, 4 / 5),  # each word counts as often as both have it
        ("Anna", "Bert", 0, 0),
        ("", "", 1, 1),
        ("", "Anna", 0, 0),
        ("the", "a", 1, 1),  # nothing is left of both
        ("theatre", "atre", 0, 0),  # an article is a whole word
    ],
)
def test_known_pairs(predicted, wanted, exact, f1):
    assert exact_match(predicted, wanted) == exact
    assert word_f1(predicted, wanted) == pytest.approx(f1)


def test_the_best_of_several_accepted_answers_counts():
    metrics = answer_metrics(["Denver Broncos", "1990"], [["Broncos", "the Denver Broncos"], ["in 1990", "1991"]])
    assert metrics == pytest.approx({"exact_match": 0.5, "f1": (1 + 2 / 3) / 2})


def test_questions_without_an_answer_are_right_if_nothing_is_answered():
    metrics = answer_metrics(["", "Anna", "", "Anna"], [[], [], ["Anna"], ["the Anna"]])
    assert metrics == {"exact_match": 0.5, "f1": 0.5, "has_answer_f1": 0.5, "no_answer_accuracy": 0.5}


@given(answer=st.text(), other=st.text())
def test_scores_are_symmetric_and_between_zero_and_exact(answer, other):
    assert 0 <= word_f1(answer, other) <= 1
    assert word_f1(answer, other) == pytest.approx(word_f1(other, answer))
    assert word_f1(answer, other) == 1 or not exact_match(answer, other)
    assert normalized(normalized(answer)) == normalized(answer) or "İ" in answer.upper()
