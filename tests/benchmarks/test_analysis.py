"""What `python -m benchmarks.analysis` stores about its analyses."""

import json
from pathlib import Path

from benchmarks import analysis


def test_an_analysis_is_stored_with_its_time(tmp_path, monkeypatch):
    def run(command, check):
        Path(command[command.index("--json") + 1]).write_text('{"methods": []}')

    monkeypatch.setattr(analysis.subprocess, "run", run)
    monkeypatch.setattr(analysis, "ROOT", tmp_path)
    analysis.run("senses", tmp_path, tmp_path)
    found = json.loads((tmp_path / "senses.json").read_text())
    assert found.keys() == {"seconds", "cpu_seconds", "processor", "methods"}


def test_the_comparison_of_learning_rates_is_stored_with_its_time(tmp_path):
    results = {"seeds": [{"mix": {"input": [0.5, 0.5]}, "test": {"accuracy": 0.9}}], "seconds": [10.0]}
    for folder in (analysis.heads_folder(tmp_path, analysis.MIXER_SHARE), tmp_path / analysis.SLOW):
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(results))
    analysis.compare_mixer_rates(tmp_path, tmp_path)
    found = json.loads((tmp_path / "mixers.json").read_text())
    assert len(found["rates"]) == 2
    assert found.keys() >= {"seconds", "processor"}
