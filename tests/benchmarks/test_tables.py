"""Numbers in the documentation are those of `benchmarks/results`."""

import pytest

from benchmarks import speed_tables, tables, task_tables


@pytest.mark.parametrize("path", list(tables.documents()), ids=lambda path: path.name)
def test_the_tables_of_a_document_are_those_of_the_results(path):
    text = path.read_text("utf-8")
    assert tables.updated(text) == text, "run `python -m benchmarks.tables`"


def test_a_changed_result_is_seen(monkeypatch):
    monkeypatch.setattr(
        tables, "read_results", lambda _: {"processor": "P", "threads": 2, "speed_with_trick": {"t": {"full 1": 1.234}}}
    )
    text = "before\n<!-- numbers: trick t -->\nold\n<!-- /numbers -->\nafter\n"
    assert "| 1.23x |" in tables.updated(text)
    assert tables.updated(tables.updated(text)) == tables.updated(text)


def test_a_table_of_no_known_kind_is_an_error():
    with pytest.raises(KeyError):
        tables.updated("<!-- numbers: nosuch -->\n<!-- /numbers -->")


@pytest.mark.parametrize("name", [name for name in tables.TABLES if name not in ("analysis", "tasks")])
def test_a_table_without_results_says_so(name, monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    text = f"<!-- numbers: {name} inference -->\nan old number\n<!-- /numbers -->"
    assert tables.updated(text) == f"<!-- numbers: {name} inference -->\nNot measured yet.\n<!-- /numbers -->"


def records(inputs: str, metrics: list[float], task: str = "pos", **values) -> list[dict]:
    return [
        {"task": task, "inputs": inputs, "way": None, "seed": seed, "metric": metric} | values
        for seed, metric in enumerate(metrics)
    ]


def test_measured_tasks_are_shown_with_and_without_elmo():
    runs = records("glove", [0.90, 0.91, 0.92], "roles") + records("elmo+glove", [0.95, 0.95, 0.98], "roles")
    runs += records("glove", [0.5], "entailment")  # not with ELMo yet
    (row,) = task_tables.results(runs).splitlines()[2:]
    assert row.endswith("| GloVe (50) | 91.00 (90.00–92.00) | 96.00 (95.00–98.00) | +5.00 | 3 |")
    one = task_tables.results([record for record in runs if not record["seed"]])
    assert one.splitlines()[2].endswith("| 90.00 | 95.00 | +5.00 | 1 |")


def test_a_table_of_runs_that_were_not_made_says_so(monkeypatch):
    monkeypatch.setattr(tables, "read_results", lambda _: {"results": records("glove", [0.90])})
    for name in task_tables.TASK_TABLES:
        assert tables.make_table(f"tasks {name}") == "Not measured yet.\n"


def test_inputs_that_were_measured_are_shown_with_the_number_of_seeds():
    runs = records("glove", [0.9, 0.8]) + records("elmo", [0.9, 0.8, 0.7])
    lines = task_tables.inputs(runs).splitlines()
    assert "| GloVe (50) | 85.00 (80.00–90.00) |" in lines
    assert "| learned vectors (100) | – |" in lines
    assert lines[-1] == "| seeds | 2 |"


def test_the_shares_of_the_layers_are_means_of_the_seeds():
    runs = records("elmo+glove", [0.9], **{"input mix": [0.2, 0.8]})
    runs += records("elmo+glove", [0.9], **{"input mix": [0.4, 0.6]})
    assert task_tables.mixes(runs).splitlines()[2].endswith("| input | 0.30 | 0.70 | 2 |")


def test_ways_and_int8_are_of_elmo_beside_learned_vectors():
    runs = records("elmo+learned", [0.90], **{"int8 metric": 0.89}) + records("elmo+learned", [0.80], way="output")
    assert "| output | 80.00 |" in task_tables.ways(runs)
    assert "| 90.00 | 89.00 | 1.00 (1.00 to 1.00) | 1 |" in task_tables.int8(runs)


def test_the_server_is_shown_beside_the_embedder():
    runs = [{"texts/s": speed, "share": speed / 1000, "p50": 0.05, "p99": 0.1234} for speed in (800, 900, 1000)]
    machine = {"processor": "P", "threads": 2, "torch": "2"}
    results = {"machine": machine, "clients": 64, "results": {"embedder": [1000.0], "server": {"1": runs, "16": runs}}}
    lines = speed_tables.serving(results).splitlines()
    assert lines[3] == "| 64 clients, 1 text per request | 900 (800–1,000) | 90% | 50 ms | 123 ms |"
    assert lines[4].startswith("| 64 clients, 16 texts per request |")


def test_a_measurement_on_a_busy_machine_says_so():
    machine = {"processor": "P", "threads": 2, "torch": "2"}
    assert "Other programs" in speed_tables.footnote({"machine": machine, "load": 3.0})
    assert "Other programs" not in speed_tables.footnote({"machine": machine, "load": 0.2})


def test_onnx_is_shown_with_its_speed_and_the_error_of_int8():
    sides = ["PyTorch fp32", "PyTorch int8", "onnxruntime fp32", "onnxruntime int8"]
    seconds = {side: {"8": [4.0 / place] * 3} for place, side in enumerate(sides, 1)}
    error = {"mean cosines": [0.999, 0.998], "smallest cosines": [0.99, 0.98], "largest difference": 0.123}
    result = {"model": "compact", "words": {"8": 400}, "seconds": seconds, "compared": dict.fromkeys(sides[1:], error)}
    machine = {"processor": "P", "threads": 2, "torch": "2"}
    results = {"results": [result], "machine": machine, "onnxruntime": "1.2"}
    row = speed_tables.onnx(results).splitlines()[2]
    assert row == "| elmo-english-compact | 8 | 100 | 200 | 300 | 400 | 3.00 (3.00–3.00) | 2.00 (2.00–2.00) |"
    assert "(P, 2 threads, onnxruntime 1.2, PyTorch 2.)" in speed_tables.onnx(results)
    assert "| onnxruntime, int8 | 0.9990 (0.9900) | 0.9980 (0.9800) | 0.12 |" in speed_tables.onnx_error(results)
