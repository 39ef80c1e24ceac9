"""Tables of the tasks for the documentation, made from the records of `python -m benchmarks.tasks`."""

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Any

from benchmarks.speed_tables import markdown

Records = Sequence[dict[str, Any]]

# What each task is, and its metric.
TASK_NAMES = {
    "questions": ("question answering, 40 articles of SQuAD 1.1", "F1"),
    "entailment": ("entailment, SNLI with counterfactual revisions", "accuracy"),
    "roles": ("semantic roles, PropBank on UD English EWT", "F1 of arguments"),
    "coreference": ("coreference, LitBank", "mean F1 of MUC, B³, CEAFe"),
    "entities": ("named entities, WNUT-17", "F1 of spans"),
    "polarity": ("sentiment, film reviews", "accuracy"),
    "pos": ("parts of speech, UD English EWT", "accuracy"),
    "chinese pos": ("parts of speech, 300 sentences of UD Chinese GSDSimp", "accuracy"),
}
INPUT_NAMES = {
    "learned": "learned vectors (100)",
    "glove": "GloVe (50)",
    "elmo": "ELMo alone",
    "elmo+learned": "ELMo and learned vectors",
    "elmo+glove": "ELMo and GloVe",
}


class NotMeasuredError(LookupError):
    """There are no results for a table."""


def metrics(records: Records, task: str, inputs: str, way: str | None = None) -> list[float]:
    """The metric of each seed, times 100."""
    setup = {"task": task, "inputs": inputs, "way": way}
    return [100 * record["metric"] for record in records if setup.items() <= record.items()]


def cell(values: Sequence[float]) -> str:
    """`mean (smallest–largest)`, a single value as it is, or a dash."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ({min(values):.2f}–{max(values):.2f})" if values else "–"


def results(records: Records) -> str:
    """Each measured task without and with ELMo beside the same word vectors, GloVe's where they were measured."""
    rows = []
    for task, (name, metric) in TASK_NAMES.items():
        for vectors in ("glove", "learned"):
            without, with_elmo = metrics(records, task, vectors), metrics(records, task, f"elmo+{vectors}")
            if without and with_elmo:
                gain, seeds = f"{mean(with_elmo) - mean(without):+.2f}", str(min(len(without), len(with_elmo)))
                rows.append([name, metric, INPUT_NAMES[vectors], cell(without), cell(with_elmo), gain, seeds])
                break
    if not rows:
        raise NotMeasuredError("a task without and with ELMo")
    return markdown(["task", "metric", "word vectors", "without ELMo", "with ELMo", "gain", "seeds"], rows, 3)


def inputs(records: Records) -> str:
    """All inputs of the tasks where more was measured than the table of results shows."""
    others = INPUT_NAMES.keys() - {"glove", "elmo+glove"}
    tasks = [task for task in TASK_NAMES if any(metrics(records, task, key) for key in others)]
    if not tasks:
        raise NotMeasuredError("other inputs")
    rows = [[name, *(cell(metrics(records, task, key)) for task in tasks)] for key, name in INPUT_NAMES.items()]
    seeds = [num_seeds(metrics(records, task, key) for key in INPUT_NAMES) for task in tasks]
    return markdown(["input", *tasks], [*rows, ["seeds", *seeds]])


def ways(records: Records) -> str:
    """Ways to use the layers, with learned vectors beside ELMo."""
    names = dict.fromkeys(record["way"] for record in records if record["inputs"] == "elmo+learned")
    tasks = [task for task in TASK_NAMES if any(record["way"] and record["task"] == task for record in records)]
    if not tasks:
        raise NotMeasuredError("ways to use the layers")
    rows = []
    for way in names:
        cells = [cell(metrics(records, task, "elmo+learned", way)) for task in tasks]
        rows.append([way or "input, learned mix, L2 0.001 (default)", *cells])
    seeds = [num_seeds(metrics(records, task, "elmo+learned", way) for way in names) for task in tasks]
    return markdown(["way", *tasks], [*rows, ["seeds", *seeds]])


def num_seeds(runs: Iterable[Sequence[float]]) -> str:
    """The number of seeds of the cells of a column, the smallest if they differ. Empty cells do not count."""
    return str(min(len(values) for values in runs if values))


def int8(records: Records) -> str:
    """What int8 weights lose, with learned vectors beside ELMo."""
    rows = []
    for task, (name, metric) in TASK_NAMES.items():
        tested = [record for record in records if record["task"] == task and "int8 metric" in record]
        tested = [record for record in tested if (record["inputs"], record["way"]) == ("elmo+learned", None)]
        if tested:
            exact, small = (mean(100 * record[key] for record in tested) for key in ("metric", "int8 metric"))
            lost = [100 * (record["metric"] - record["int8 metric"]) for record in tested]
            spread = f"{mean(lost):.2f} ({min(lost):.2f} to {max(lost):.2f})"
            rows.append([f"{name}, {metric}", f"{exact:.2f}", f"{small:.2f}", spread, str(len(tested))])
    if not rows:
        raise NotMeasuredError("int8 weights")
    return markdown(["task and metric", "fp32", "int8", "lost", "seeds"], rows)


def mixes(records: Records) -> str:
    """The learned shares of the layers with ELMo and GloVe's vectors, mean of the seeds."""
    rows = []
    for task, (name, _) in TASK_NAMES.items():
        runs = [record for record in records if (record["task"], record["inputs"]) == (task, "elmo+glove")]
        for place in ("input", "output"):
            shares = [record[f"{place} mix"] for record in runs if f"{place} mix" in record]
            if shares:
                layers = [f"{mean(layer):.2f}" for layer in zip(*shares, strict=True)]
                rows.append([name, place, *layers, str(len(shares))])
    if not rows:
        raise NotMeasuredError("ELMo and GloVe")
    return markdown(["task", "place", *(f"layer {layer}" for layer in range(len(rows[0]) - 3)), "seeds"], rows, 2)


TASK_TABLES = {"results": results, "inputs": inputs, "ways": ways, "int8": int8, "mixes": mixes}
