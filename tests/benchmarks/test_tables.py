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


def test_a_table_of_results_that_are_not_measured_yet_stays(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    text = "<!-- numbers: tasks results -->\nas it is\n<!-- /numbers -->"
    assert tables.updated(text) == text
    with pytest.raises(FileNotFoundError):
        tables.updated("<!-- numbers: similarity -->\n<!-- /numbers -->")


def records(inputs: str, metrics: list[float], task: str = "pos", **values) -> list[dict]:
    return [
        {"task": task, "inputs": inputs, "way": None, "seed": seed, "metric": metric} | values
        for seed, metric in enumerate(metrics)
    ]


def test_tasks_are_shown_with_and_without_elmo():
    found = []
    for task in task_tables.TASK_NAMES.keys() - task_tables.OPTIONAL:
        found += records("glove", [0.90, 0.91, 0.92], task) + records("elmo+glove", [0.95, 0.95, 0.98], task)
    assert len(task_tables.results(found).splitlines()) == 2 + 6
    row = task_tables.results(found).splitlines()[2]
    assert row.endswith("| GloVe (50) | 91.00 (90.00–92.00) | 96.00 (95.00–98.00) | +5.00 | 3 |")
    fewer = [record for record in found if (record["task"], record["inputs"], record["seed"]) != ("roles", "glove", 2)]
    with pytest.raises(task_tables.NotMeasuredError, match=r"^roles"):
        task_tables.results(fewer)
    with pytest.raises(task_tables.NotMeasuredError, match="roles"):
        task_tables.results([record for record in found if record["task"] != "roles"])


def test_a_table_of_runs_that_were_not_made_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(tables, "read_results", lambda _: {"results": records("glove", [0.90])})
    for name in ("results", "inputs", "ways", "int8", "mixes"):
        text = f"<!-- numbers: tasks {name} -->\nas it is\n<!-- /numbers -->"
        assert tables.updated(text) == text
    found = [run for inputs in task_tables.INPUT_NAMES for run in records(inputs, [0.9, 0.8])]
    assert "| ELMo alone | 85.00 (80.00–90.00) |" in task_tables.inputs(found)


def test_the_shares_of_the_layers_are_means_of_the_seeds():
    found = records("elmo+glove", [0.9], **{"input mix": [0.2, 0.8]})
    found += records("elmo+glove", [0.9], **{"input mix": [0.4, 0.6]})
    assert task_tables.mixes(found).splitlines()[2].endswith("| input | 0.30 | 0.70 |")


def test_ways_and_int8_are_of_elmo_beside_learned_vectors():
    found = records("elmo+learned", [0.90], **{"int8 metric": 0.89}) + records("elmo+learned", [0.80], way="output")
    assert "| output | 80.00 |" in task_tables.ways(found)
    assert "| 90.00 | 89.00 | 1.00 (1.00 to 1.00) |" in task_tables.int8(found)


def test_the_server_is_shown_beside_the_embedder():
    runs = [{"texts/s": speed, "share": speed / 1000, "p50": 0.05, "p99": 0.1234} for speed in (800, 900, 1000)]
    machine = {"processor": "P", "threads": 2, "torch": "2"}
    found = {"machine": machine, "clients": 64, "results": {"embedder": [1000.0], "server": {"1": runs, "16": runs}}}
    lines = speed_tables.serving(found).splitlines()
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
    found = {"model": "compact", "words": {"8": 400}, "seconds": seconds, "compared": dict.fromkeys(sides[1:], error)}
    machine = {"processor": "P", "threads": 2, "torch": "2"}
    results = {"results": [found], "machine": machine, "onnxruntime": "1.2"}
    row = speed_tables.onnx(results).splitlines()[2]
    assert row == "| elmo-english-compact | 8 | 100 | 200 | 300 | 400 | 3.00 (3.00–3.00) | 2.00 (2.00–2.00) |"
    assert "(P, 2 threads, onnxruntime 1.2, PyTorch 2.)" in speed_tables.onnx(results)
    assert "| onnxruntime, int8 | 0.9990 (0.9900) | 0.9980 (0.9800) | 0.12 |" in speed_tables.onnx_error(results)
