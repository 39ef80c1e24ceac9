"""The picture of mixing weights: a cell for each, darker for more."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from elmo_hf.publishing import draw_mixes

MIXES = {"input": {"pos & more": [0.7, 0.2, 0.1], "entities": [0.1, 0.3, 0.6]}, "output": {"pos": [0.5, 0.25, 0.25]}}


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("text")]


def test_every_weight_is_in_the_picture_under_its_task_and_place():
    labels = texts(draw_mixes(MIXES))
    assert labels[:4] == ["Mixing weights", "layer 0", "layer 1", "layer 2"]
    assert labels[4:8] == ["pos & more, input", "0.70", "0.20", "0.10"]
    assert labels[-4:] == ["pos, output", "0.50", "0.25", "0.25"]


def test_more_weight_is_darker():
    picture = draw_mixes({"input": {"": [0.1, 0.3, 0.6]}})
    reds = [int(red) for red in re.findall(r"rgb\((\d+),", picture)]
    assert reds == sorted(reds, reverse=True)
    assert len(set(reds)) == 3
    assert "input" in texts(picture)


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="no mixing weights"):
        draw_mixes({"input": {}})
