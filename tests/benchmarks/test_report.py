"""What the benchmarks tell: medians, tables, JSON that can be read again."""

import json

from benchmarks import report
from benchmarks.report import machine, ratios, read_results, spread, write_results


def test_spread():
    assert spread([3.0, 1.0, 2000.4]) == "3 (1–2,000)"
    assert spread([0.126], 2) == "0.13 (0.13–0.13)"


def test_ratios_are_taken_repetition_by_repetition():
    assert ratios([1.0, 2.0], [3.0, 8.0]) == [3.0, 4.0]


def test_results_can_be_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    seconds = {"fp32": [0.123456789, float("inf")], "tokens": 12}
    write_results(tmp_path / "inference.json", "inference", [seconds], sentences=3)
    results = read_results("inference")
    assert results["results"] == [{"fp32": [0.12346, None], "tokens": 12}]
    assert (results["benchmark"], results["sentences"], results["machine"]) == ("inference", 3, json_of(machine()))


def json_of(value):
    return json.loads(json.dumps(value))
