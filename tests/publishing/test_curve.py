"""The picture of a training curve."""

import xml.etree.ElementTree as ElementTree

import pytest

from elmo_hf.publishing import draw_curve

HISTORY = [
    {"step": 10, "loss": 6.0, "hours": 0.1},
    {"step": 10, "forward_perplexity": 400.0, "backward_perplexity": 380.0},
    {"step": 20, "loss": 5.0, "hours": 0.2},
    {"step": 20, "forward_perplexity": 150.0, "backward_perplexity": 140.0},
]


def test_the_curve_is_a_picture_with_a_line_for_each_direction():
    picture = ElementTree.fromstring(draw_curve(HISTORY))
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2
    assert all(len(line.attrib["points"].split()) == 2 for line in lines)
    texts = " ".join(text.text for text in picture.findall("{http://www.w3.org/2000/svg}text"))
    assert "forward, at last 150.0" in texts
    assert "backward, at last 140.0" in texts


def test_a_history_without_perplexities_is_refused():
    with pytest.raises(ValueError, match="no perplexities"):
        draw_curve(HISTORY[:1])
