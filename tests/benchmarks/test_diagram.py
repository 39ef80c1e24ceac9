"""The diagram of ELMo in the documentation is what its script draws, and mixes the layers of the word that it names."""

import xml.etree.ElementTree as ElementTree

from benchmarks import ROOT, diagram

SVG = "{http://www.w3.org/2000/svg}"


def test_the_diagram_is_what_its_script_draws():
    assert (ROOT / "docs" / "elmo.svg").read_text("utf-8") == diagram.draw(), "run `python -m benchmarks.diagram`"


def test_the_mixer_gets_the_three_layers_of_bank():
    picture = ElementTree.fromstring(diagram.draw())
    lines = [
        line.get("points").split() for line in picture.iter(f"{SVG}polyline") if line.get("stroke") == diagram.GREEN
    ]
    starts = [tuple(map(float, line[0].split(","))) for line in lines if len(line) == 3]
    (label,) = (text for text in picture.iter(f"{SVG}text") if text.text == "bank")
    right_edge = float(label.get("x")) + diagram.BOX / 2
    assert {x for x, _ in starts} == {right_edge + 1}
    assert sorted(y for _, y in starts) == sorted(top + 15 for top in diagram.LAYERS.values())
