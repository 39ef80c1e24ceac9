"""The picture of a word's uses."""

import struct

import numpy as np
import pytest

from elmo_hf.demo.picture import _outermost, _spread, draw_uses, project, snippet
from elmo_hf.embedding import Occurrence
from tests.conftest import ROOT
from tests.demo.toy import toy_uses


def spread(count: int, seed: int = 0):
    generator = np.random.default_rng(seed)
    centres = np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])[np.arange(count) % 2]
    return toy_uses(centres + 0.2 * generator.standard_normal((count, 4)), ["ab"[row % 2] for row in range(count)])


def test_points_are_the_two_directions_of_most_variance():
    uses = spread(40)
    points, shares = project(uses)
    variances = np.linalg.eigvalsh(np.cov(uses.vectors[-1].T))[::-1]
    np.testing.assert_allclose(shares, variances[:2] / variances.sum())
    np.testing.assert_allclose(points.var(axis=0, ddof=1), variances[:2])


@pytest.mark.parametrize("seed", range(5))
def test_the_first_sense_is_left_of_the_second_and_above_it(seed):
    uses = spread(20, seed)
    points, _ = project(uses)
    first, second = (points[[sense == name for sense in uses.senses]].mean(axis=0) for name in "ab")
    assert first[0] < second[0]
    assert first[1] > second[1]


def test_a_snippet_is_whole_words_around_the_word():
    sentence = "It stood on the bank for $5, and that was what they had asked for."
    assert snippet(Occurrence("bank", np.ones(1), sentence, 16, 20, 0, 4), 10) == ("… on the ", "bank", " for $5, …")
    assert snippet(Occurrence("It", np.ones(1), sentence, 0, 2, 0, 0), 17) == ("", "It", " stood on the …")
    assert snippet(Occurrence("for", np.ones(1), sentence, 62, 65, 0, 15), 17) == ("… they had asked ", "for", ".")


def test_sentences_are_chosen_from_top_to_bottom_at_the_side_and_do_not_overlap():
    points = np.array([[0, 0.0], [1, 0.01], [0, 0.5], [1, 0.5], [0, 1.0], [5, 5]])
    assert _outermost(points, [0, 1, 2, 3, 4], on_the_right=True) == [4, 3, 1]
    assert _outermost(points, [0, 1, 2, 3, 4], on_the_right=False) == [4, 2, 0]
    np.testing.assert_allclose(_spread(np.array([0.9, 0.88, 0.3, 0.29])), [0.9, 0.845, 0.3, 0.245])


def test_the_picture_is_a_png_file_and_nothing_is_left_beside_it(tmp_path):
    (tmp_path / "uses.png").write_text("an old one")
    draw_uses(spread(30), tmp_path / "uses.png")
    data = (tmp_path / "uses.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert struct.unpack(">II", data[16:24]) == (1350, 870)
    assert [path.name for path in tmp_path.iterdir()] == ["uses.png"]


def test_a_picture_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with pytest.raises(OSError, match="missing"):
        draw_uses(spread(4), tmp_path / "missing" / "uses.png")
    assert list(tmp_path.iterdir()) == []


def test_the_picture_of_the_documentation_is_small_enough_for_a_page():
    data = (ROOT / "docs" / "senses.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < 150_000
