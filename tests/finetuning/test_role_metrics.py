"""Arguments are counted as the script of CoNLL-2005 counts them; the expected numbers are worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.finetuning.role_metrics import arguments_of, role_metrics

TAGS = ["O", "B-A0", "I-A0", "B-C-A0", "B-A1", "I-A1", "B-R-A0", "B-V"]


def tags(text: str) -> list[str]:
    return text.split()


def test_a_continuation_is_a_piece_of_the_argument_before_it():
    assert arguments_of(tags("B-A0 I-A0 B-V B-C-A0 O")) == [("A0", ((0, 1), (3, 3))), ("V", ((2, 2),))]
    assert arguments_of(tags("B-A1 B-A1 B-C-A1")) == [("A1", ((0, 0),)), ("A1", ((1, 1), (2, 2)))]


def test_a_continuation_of_nothing_counts_as_an_argument_of_its_role():
    assert arguments_of(tags("B-C-A0 B-V")) == [("A0", ((0, 0),)), ("V", ((1, 1),))]
    assert role_metrics([tags("B-A0 B-V")], [tags("B-C-A0 B-V")])["f1"] == 1


def test_a_reference_is_a_role_of_its_own():
    assert arguments_of(tags("B-A0 B-R-A0 B-V"))[1] == ("R-A0", ((1, 1),))
    assert role_metrics([tags("O B-R-A0 B-V")], [tags("O B-A0 B-V")])["f1"] == 0


@pytest.mark.parametrize(
    ("wanted", "predicted", "precision", "recall", "perfect"),
    [
        ("B-A0 B-V B-A1 I-A1", "B-A0 B-V B-A1 I-A1", 1, 1, 1),
        ("B-A0 B-V B-A1 I-A1", "B-A0 B-V B-A1 O", 1 / 2, 1 / 2, 0),  # a wrong boundary is wrong and missed
        ("B-A0 B-V B-A1 I-A1", "B-A0 O B-A1 I-A1", 1, 1, 1),  # V does not count
        ("B-A0 B-V B-A1 I-A1", "B-A0 B-V O O", 1, 1 / 2, 0),
        ("B-A0 B-V O O", "B-A0 B-V B-A1 B-A2", 1 / 3, 1, 0),
        ("B-A0 B-V B-C-A0 O", "B-A0 B-V O O", 0, 0, 0),  # a part of a discontinuous argument is not the argument
        ("B-A0 B-V B-C-A0 B-A1", "B-A0 B-V B-C-A0 O", 1, 1 / 2, 0),
        ("B-V B-C-V O O", "B-V O B-C-V O", 0, 0, 1),  # C-V is a piece of V: nothing counts
    ],
)
def test_known_cases(wanted, predicted, precision, recall, perfect):
    metrics = role_metrics([tags(wanted)], [tags(predicted)])
    assert (metrics["precision"], metrics["recall"], metrics["perfect"]) == (precision, recall, perfect)


def test_counts_are_summed_over_all_predicates():
    wanted = [tags("B-A0 B-V B-A1"), tags("O B-V B-A1"), tags("B-A0 B-V O")]
    predicted = [tags("B-A0 B-V B-A1"), tags("O B-V B-A2"), tags("O B-V O")]
    metrics = role_metrics(wanted, predicted)  # 2 of 3 found are right, 2 of 4 wanted are found
    assert metrics == {
        "precision": pytest.approx(2 / 3),
        "recall": pytest.approx(1 / 2),
        "f1": pytest.approx(4 / 7),
        "perfect": pytest.approx(1 / 3),
    }


@given(st.lists(st.lists(st.sampled_from(TAGS), min_size=1, max_size=6), min_size=1, max_size=4), st.randoms())
def test_swapping_the_sides_swaps_precision_and_recall(rows, random):
    others = [random.sample(row, len(row)) for row in rows]
    metrics, swapped = role_metrics(rows, others), role_metrics(others, rows)
    assert (metrics["precision"], metrics["recall"], metrics["f1"]) == (
        swapped["recall"],
        swapped["precision"],
        pytest.approx(swapped["f1"]),
    )
