"""The pictures are well-formed, and their points lie where the numbers say."""

import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.plots import draw_lines, inference_curves, scaling_curves

SVG = "{http://www.w3.org/2000/svg}"


def test_proportional_growth_is_a_straight_line():
    picture = ElementTree.fromstring(draw_lines("a < b", "words", "seconds", {"a & b": [(1, 2), (10, 20), (100, 200)]}))
    assert picture.find(f"{SVG}text").text == "a < b"
    (x1, y1), (x2, y2), (x3, y3) = [(float(c.get("cx")), float(c.get("cy"))) for c in picture.iter(f"{SVG}circle")]
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.2)
    assert y1 > y3  # upwards


def test_curves_of_results():
    seconds = {"fp32": [2.0, 1.0, 4.0]}
    results = [
        {"size": "full", "setting": "8", "tokens": 100, "seconds": seconds},
        {"size": "full", "setting": "corpus", "tokens": 100, "seconds": seconds},
        {"size": "small", "setting": "1", "tokens": 100, "seconds": seconds},
    ]
    assert inference_curves(results, "full") == {"fp32": [(8, 50.0)]}
    records = {"documents": [{"words": 10, "seconds": [1.0, 3.0]}], "batches": [{"words": 5, "seconds": [1.0]}]}
    assert list(scaling_curves(records).values()) == [[(10, 2.0)], [(5, 1.0)]]
