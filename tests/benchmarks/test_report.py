"""What the benchmarks tell: medians, tables, JSON that can be read again."""

import argparse
import json

import pytest

from benchmarks import report
from benchmarks.report import add_json_option, describe, machine, ratios, read_results, spread, table, write_results


def test_spread():
    assert spread([3.0, 1.0, 2000.4]) == "3 (1–2,000)"
    assert spread([0.126], 2) == "0.13 (0.13–0.13)"


def test_ratios_are_taken_repetition_by_repetition():
    assert ratios([1.0, 2.0], [3.0, 8.0]) == [3.0, 4.0]


def test_table():
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_machine_is_described():
    found = machine()
    text = describe(found)
    assert found["processor"] in text
    assert found["torch"] in text
    assert text.endswith(".")


def test_results_can_be_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    seconds = {"fp32": [0.123456789, float("inf")], "tokens": 12}
    write_results(tmp_path / "inference.json", "inference", [seconds], sentences=3)
    found = read_results("inference")
    assert found["results"] == [{"fp32": [0.12346, None], "tokens": 12}]
    assert (found["benchmark"], found["sentences"], found["machine"]) == ("inference", 3, json_of(machine()))


def json_of(value):
    return json.loads(json.dumps(value))


def test_nothing_is_written_unasked(tmp_path):
    write_results(None, "inference", [])
    assert list(tmp_path.iterdir()) == []


def test_json_option_wants_a_folder_that_is_there(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    add_json_option(parser)
    assert parser.parse_args(["--json", str(tmp_path / "a.json")]).json == tmp_path / "a.json"
    assert parser.parse_args([]).json is None
    with pytest.raises(SystemExit):
        parser.parse_args(["--json", str(tmp_path / "missing" / "a.json")])
    assert "there is no folder" in capsys.readouterr().err
