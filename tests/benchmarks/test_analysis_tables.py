"""The tables of `docs/analysis.md` show what the results have, and say so for analyses without results."""

import pytest

from benchmarks import analysis_tables, tables
from benchmarks.task_tables import NotMeasuredError

PLAY = {"sentence": "a play .", "start": 2, "end": 6}


def test_the_paper_stands_beside_its_rows():
    results = {
        "methods": ["most frequent sense", "layer 1, nearest mean", "learned mix, nearest mean"],
        "groups": ["all"],
        "accuracy": [[0.5], [0.61], [0.725]],
        "counts": [1234],
    }
    lines = analysis_tables.table({"senses": results}, "senses").splitlines()
    assert lines[0] == "| method | all | paper |"
    assert lines[2:] == [
        "| most frequent sense | 50.0 |  |",
        "| WordNet's first sense |  | 65.9 |",
        "| layer 1, nearest mean | 61.0 | 67.4 |",
        "| learned mix, nearest mean | 72.5 |  |",
        "| occurrences | 1,234 |  |",
    ]
    results["methods"].insert(1, "first sense")
    results["accuracy"].insert(1, [0.6])
    assert "| WordNet's first sense | 60.0 | 65.9 |" in analysis_tables.table({"senses": results}, "senses")


def test_the_time_of_the_senses_is_shown():
    results = {
        "methods": [],
        "groups": ["all"],
        "accuracy": [],
        "counts": [1],
        "seconds": 43,
        "processor": "P, 2 cores",
    }
    assert analysis_tables.table({"senses": results}, "senses").endswith("|\n\n(It took 43 seconds; P, 2 cores.)\n")


def test_mixes_are_shown_by_learning_rate():
    rates = [{"rate": 0.001, "mixes": [[0.3, 0.7], [0.5, 0.5]], "accuracy": [0.9, 0.92]}]
    table = analysis_tables.table({"mixers": {"rates": rates}}, "mixers")
    row = "| 0.001 | 0.40 (0.30–0.50) | 0.60 (0.50–0.70) | 91.0 (90.0–92.0) |"
    assert table.splitlines()[2] == row


def test_neighbours_are_marked_in_their_sentences():
    use = {"sentence": "The plays | it has", "start": 4, "end": 9, "similarity": 0.5}
    row = PLAY | {"words": [{"word": "game", "similarity": 0.5}, {"word": "plays", "similarity": 0.4}], "uses": [use]}
    lines = analysis_tables.table({"neighbors-table": {"rows": [row]}}, "neighbors").splitlines()
    assert lines[2] == "| GloVe: play | game, plays |"
    assert lines[3] == "| a **play** . | The **plays** \\| it has |"


def test_the_mixes_of_taggers_are_shown_by_their_training_data():
    mixes = [{"model": "with-elmo-0.001", "place": "input", "weights": [0.25, 0.75], "gamma": 4.667}]
    lines = analysis_tables.table({"layers": {"mixes": {"mixes": mixes}}}, "mixes").splitlines()
    assert lines[2] == "| 0.1 %, input | 0.25 | 0.75 | 4.67 |"


@pytest.mark.parametrize("name", analysis_tables.TABLES)
def test_a_table_without_results_says_so(name, monkeypatch):
    monkeypatch.setattr(tables, "read_results", lambda _: {"model": "m"})
    with pytest.raises(NotMeasuredError):
        analysis_tables.table({"model": "m"}, name)
    assert tables.make_table(f"analysis {name}") == tables.NOT_MEASURED
    with pytest.raises(NotMeasuredError):
        analysis_tables.table({"layers": {"mixes": None}}, "mixes")
