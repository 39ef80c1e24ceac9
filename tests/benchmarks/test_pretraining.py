"""What the benchmark of training steps reports."""

import numpy as np
import pytest

from benchmarks.pretraining import Result, largest_difference, lines


class Gradients:
    """In place of a worker: writes the same gradients at every question."""

    def __init__(self, **gradients: list[float]):
        self.gradients = gradients

    def ask(self, command: str, window: str, file: str):
        assert command == "gradients"
        np.savez(file, **self.gradients)


def test_a_line_for_every_side():
    seconds = {"ours": [1.0, 2.0, 4.0], "plain": [3.0, 4.0, 4.0]}
    result = Result("small", 1280, seconds, {"ours": 1000, "plain": None}, {"ours": 9.0, "plain": None}, 1e-7)
    ours, plain = lines(result)
    assert ours == ["small", "ours", "640 (320–1,280)", "2,000 (1,000–4,000)", "", "1,000", "9.000", ""]
    assert plain == ["small", "plain", "320 (320–427)", "4,000 (3,000–4,000)", "2.00 (1.00–3.00)", "?", "", "1.0e-07"]


@pytest.mark.parametrize(("changed", "difference"), [(2.0, 0.0), (2.5, 0.5), (float("nan"), float("inf"))])
def test_the_largest_difference_of_gradients(tmp_path, changed, difference):
    workers = {"ours": Gradients(a=[1.0, 2.0], b=[0.0]), "plain": Gradients(a=[1.0, changed], b=[0.0])}
    assert largest_difference(workers, "window", tmp_path) == difference
