"""Tables, JSON, and pictures."""

import json
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from elmo_hf.analysis import pictures
from elmo_hf.analysis.learned_mixes import LearnedMix, MixingWeights
from elmo_hf.analysis.nearest_uses import NearestUse, NearestWord, NeighborsRow, NeighborsTable
from elmo_hf.analysis.probing import ProbeResults, ProbeScores
from elmo_hf.analysis.report import as_plain, mean_and_range, per_cent, text_table, write_json
from elmo_hf.analysis.sample_efficiency import WITH, WITHOUT, SampleCurve
from elmo_hf.analysis.similarity import LayerSimilarity
from elmo_hf.analysis.word_senses import SenseResults

NAMES = ["layer 0", "layer 1", "mix"]


@dataclass
class Some:
    name: str
    values: np.ndarray
    inner: dict
    left_out: np.ndarray = field(metadata={"json": False})


def test_results_become_plain_json(tmp_path):
    some = Some("é", np.array([[1.0, np.nan]]), {"a": [LearnedMix("m", "input", [1.0], 1.0)]}, np.arange(3))
    write_json(tmp_path / "out.json", some)
    assert json.loads((tmp_path / "out.json").read_text("utf-8")) == {
        "name": "é",
        "values": [[1.0, None]],
        "inner": {"a": [{"model": "m", "place": "input", "weights": [1.0], "gamma": 1.0, "ranges": []}]},
    }
    assert as_plain(np.float32(0.5)) == 0.5


def test_columns_of_a_table_are_aligned():
    assert text_table(["", "a"], [["long name", "1"], ["x", "10.5"]], ["A note."]) == (
        "              a\nlong name     1\nx          10.5\n\nA note."
    )


def test_shares_are_shown_in_per_cent():
    assert (per_cent(0.9346), per_cent(math.nan)) == ("93.5", "-")
    assert mean_and_range([0.5, 0.6]) == "55.0 (50.0–60.0)"
    assert mean_and_range([0.5]) == "50.0"
    assert mean_and_range(np.array([np.nan, np.nan])) == "-"


def senses_result() -> SenseResults:
    means = [f"{name}, nearest mean" for name in (*NAMES, "learned mix")]
    methods = ["most frequent sense", *means, *(f"{name}, 1 nearest" for name in NAMES)]
    accuracy = np.linspace(0.3, 0.9, 16).reshape(8, 2)
    counts, mix, answers = np.array([9, 4]), [0.1, 0.9], np.empty((8, 9))
    return SenseResults(methods, NAMES, ["all", "noun"], counts, accuracy, 1, mix, 5, 6, 7, 0, 1, answers)


def probe_result(unknown: int, seeds: int) -> ProbeResults:
    accuracy = np.full((seeds, 4), 0.9) + np.arange(seeds)[:, None] / 100
    own = accuracy if unknown else accuracy * np.nan
    scores = {"dev": ProbeScores(10, unknown, accuracy, own, 0.8, 0.5 if unknown else math.nan)}
    return ProbeResults([*NAMES, "concatenation"], ["A", "B"], list(range(seeds)), 100, scores, {})


def similarity_result() -> LayerSimilarity:
    return LayerSimilarity(NAMES, np.ones(3), np.eye(3), *np.full((3, 3), 0.5), 5, 6, 7)


def curve() -> SampleCurve:
    scores = {"dev": {WITH: np.array([[0.5, 0.6], [0.8, 0.9]]), WITHOUT: np.array([[0.1, 0.2], [0.8, 0.8]])}}
    return SampleCurve("tagging", "f1", [0.1, 1.0], [4, 40], [0, 1], scores)


def neighbours() -> NeighborsTable:
    uses = [NearestUse("a $play$ of_ ^chance", 3, 7, 0.5)]
    rows = [NeighborsRow("They play .", 5, 9, [NearestWord("game", 0.5)], uses), NeighborsRow("to run", 3, 6, [], [])]
    return NeighborsTable("top", "layer 0", 9, rows)


MIXES = MixingWeights([LearnedMix("a", "input", [0.2, 0.3, 0.5], 1.0), LearnedMix("b", "model", [0.5, 0.5], 1.0)])
DRAWN = {
    "senses": lambda: pictures.draw_senses(senses_result()),
    "probe": lambda: pictures.draw_probe(probe_result(3, 2)),
    "probe without unknown words": lambda: pictures.draw_probe(probe_result(0, 1)),
    "samples": lambda: pictures.draw_samples(curve()),
    "mixes": lambda: pictures.draw_layers(MIXES, None),
    "similarity": lambda: pictures.draw_layers(None, similarity_result()),
    "layers": lambda: pictures.draw_layers(MIXES, similarity_result()),
    "neighbours": lambda: pictures.draw_neighbors(neighbours()),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_result_can_be_drawn(name, tmp_path):
    pictures.save_picture(DRAWN[name](), tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text("utf-8").count("<path") > 5
    assert [path.name for path in tmp_path.iterdir()] == ["picture.svg"]


def test_a_picture_is_png_or_svg_by_its_name(tmp_path):
    pictures.save_picture(DRAWN["mixes"](), tmp_path / "picture.PNG")
    assert (tmp_path / "picture.PNG").read_bytes().startswith(b"\x89PNG")


def test_the_bars_of_a_picture_are_the_results():
    (axes,) = pictures.draw_senses(senses_result()).axes
    heights = sorted(bar.get_height() for bar in axes.patches)
    assert "learned mix" in axes.get_legend_handles_labels()[1]
    assert heights == pytest.approx(sorted(100 * senses_result().accuracy[1:5].ravel()))
    (axes,) = pictures.draw_samples(curve()).axes
    assert axes.lines[0].get_ydata().tolist() == pytest.approx([55, 85])


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="nothing to draw"):
        pictures.draw_layers(None, None)
