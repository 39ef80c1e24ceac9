"""MUC, B³ and CEAFe, against published examples, numbers worked out by hand, and an independent scorer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scorch.scores import b_cubed, ceaf_e, muc

from elmo_hf.finetuning import coreference_metrics


def values(metrics, name):
    return tuple(metrics[f"{name}_{part}"] for part in ("precision", "recall", "f1"))


def test_the_example_of_the_reference_scorer():
    """Pradhan et al. 2014, Figure 1: mentions a to i; the paper works the values out."""
    metrics = coreference_metrics([["abc", "defg"]], [["ab", "cd", "fghi"]])
    assert values(metrics, "muc") == pytest.approx((2 / 5, 2 / 5, 2 / 5))
    assert values(metrics, "b3") == pytest.approx((0.5, 35 / 84, 5 / 11))  # (2 + 1 + 1) / 8, (5/3 + 5/4) / 7
    assert values(metrics, "ceafe") == pytest.approx((1.3 / 3, 1.3 / 2, 0.52))  # 4/5 + 4/8 in the best assignment
    assert metrics["f1"] == pytest.approx((2 / 5 + 5 / 11 + 0.52) / 3)


def test_the_examples_of_bagga_and_baldwin():
    """The two errors that MUC cannot tell apart: joining a small cluster to a large one, or two large ones."""
    key = ["12345", "67", "89ABC"]
    small, large = ["12345", "6789ABC"], ["1234589ABC", "67"]
    for response, precision in ((small, 16 / 21), (large, 7 / 12)):
        metrics = coreference_metrics([key], [response])
        assert values(metrics, "muc")[:2] == pytest.approx((9 / 10, 1.0))
        assert values(metrics, "b3")[:2] == pytest.approx((precision, 1.0))


def test_mentions_that_only_one_side_has_count_against_it():
    metrics = coreference_metrics([["ab"]], [["abc"]])
    assert values(metrics, "muc")[:2] == pytest.approx((1 / 2, 1.0))
    assert values(metrics, "b3")[:2] == pytest.approx((4 / 9, 1.0))
    assert values(metrics, "ceafe")[:2] == pytest.approx((4 / 5, 4 / 5))


def test_singletons_count_only_if_asked():
    key, response = [["ab", "c"]], [["ab", "d"]]
    assert coreference_metrics(key, response)["f1"] == 1
    metrics = coreference_metrics(key, response, with_singletons=True)
    assert values(metrics, "muc") == (1, 1, 1)  # a singleton has no link
    assert values(metrics, "b3")[:2] == pytest.approx((2 / 3, 2 / 3))
    assert values(metrics, "ceafe")[:2] == pytest.approx((1 / 2, 1 / 2))


def test_counts_are_summed_over_documents():
    metrics = coreference_metrics([["ab"], ["abcd"]], [["ab"], ["ab", "cd"]])
    assert values(metrics, "muc")[:2] == pytest.approx((3 / 3, 3 / 4))
    assert values(metrics, "b3")[:2] == pytest.approx((6 / 6, 4 / 6))
    assert values(metrics, "ceafe")[:2] == pytest.approx(((1 + 2 / 3) / 3, (1 + 2 / 3) / 2))


@pytest.mark.parametrize(("key", "response"), [([], []), (["ab"], []), ([], ["ab"]), (["ab"], ["cd"])])
def test_nothing_in_common_is_zero(key, response):
    assert set(coreference_metrics([key], [response]).values()) == {0.0}


partitions = st.lists(st.integers(0, 3), min_size=1, max_size=8).map(
    lambda clusters: [
        [place for place, cluster in enumerate(clusters) if cluster == cluster_id]
        for cluster_id in sorted(set(clusters))
    ]
)


@given(partitions, partitions)
def test_swapping_the_sides_swaps_precision_and_recall(one, two):
    metrics, swapped = (coreference_metrics(*sides, with_singletons=True) for sides in (([one], [two]), ([two], [one])))
    for name in ("muc", "b3", "ceafe"):
        precision, recall, f1 = values(metrics, name)
        assert values(swapped, name) == pytest.approx((recall, precision, f1))
        assert 0 <= precision <= 1 + 1e-9


@given(partitions)
def test_a_perfect_answer_is_one(clusters):
    metrics = coreference_metrics([clusters], [clusters[::-1]], with_singletons=True)
    assert metrics["b3_f1"] == metrics["ceafe_f1"] == pytest.approx(1)


@given(partitions, partitions)
def test_the_values_are_those_of_an_independent_scorer(wanted, predicted):
    metrics = coreference_metrics([wanted], [predicted], with_singletons=True)
    sides = [[set(cluster) for cluster in clusters] for clusters in (wanted, predicted)]
    for name, score in (("b3", b_cubed), ("ceafe", ceaf_e)):
        recall, precision, f1 = score(*sides)
        assert values(metrics, name) == pytest.approx((precision, recall, f1))
    if all(any(len(cluster) > 1 for cluster in side) for side in sides):  # otherwise there is no link to count
        recall, precision, f1 = muc(*sides)
        assert values(metrics, "muc") == pytest.approx((precision, recall, f1))
