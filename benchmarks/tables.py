"""
Writes the measured numbers of `benchmarks/results/*.json` into the documentation.

    python -m benchmarks.tables          # rewrites README.md and docs/
    python -m benchmarks.tables --check  # fails if a table differs from its results

A table stands between `<!-- numbers: NAME -->` and `<!-- /numbers -->`; `TABLES` makes its text by that name. Without
results the text is `NOT_MEASURED`.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import analysis_tables, speed_tables
from benchmarks.task_tables import TASK_TABLES, NotMeasuredError

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- numbers: (?P<name>[\w -]+) -->\n)(?P<body>.*?)(<!-- /numbers -->)", re.DOTALL)
NOT_MEASURED = "Not measured yet.\n"


def read_results(name: str) -> dict:
    """The JSON object of a benchmark's results. Raises [`NotMeasuredError`] if there is none."""
    if not (RESULTS / f"{name}.json").exists():
        raise NotMeasuredError(name)
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def trick(name: str) -> str:
    """How many times as fast the engine is with one of its tricks."""
    results = read_results("tricks")
    if (cases := results["speed_with_trick"].get(name)) is None:
        raise NotMeasuredError(f"trick {name}")
    header = "| " + " | ".join(cases) + " |\n|" + "---:|" * len(cases)
    row = "| " + " | ".join(f"{ratio:.2f}x" for ratio in cases.values()) + " |"
    return f"{header}\n{row}\n\n({results['processor']}, {results['threads']} threads.)\n"


def memory(name: str) -> str:
    """Peak memory with and without one of the engine's tricks."""
    if (cases := read_results("tricks")["peak_memory"].get(name)) is None:
        raise NotMeasuredError(f"memory of the trick {name}")
    lines = ["| size and streams | with it | without |", "|---|---:|---:|"]
    return "\n".join([*lines, *(f"| {case} | {a:,} MB | {b:,} MB |" for case, (a, b) in cases.items())]) + "\n"


def faults(name: str) -> str:
    """Page faults per call with and without one of the engine's tricks."""
    if (cases := read_results("tricks").get("page_faults", {}).get(name)) is None:
        raise NotMeasuredError(f"page faults of the trick {name}")
    lines = ["| page faults per call | with it | without |", "|---|---:|---:|"]
    return "\n".join([*lines, *(f"| {case} | {a:,} | {b:,} |" for case, (a, b) in cases.items())]) + "\n"


def similarity(_: str) -> str:
    """The correlation of each similarity of sentences with people's judgements."""
    results = read_results("similarity")
    lines = ["| similarity by the cosine of | SICK train | SICK trial |", "|---|---:|---:|"]
    rows = [f"| {name} | {part['train']:.1f} | {part['trial']:.1f} |" for name, part in results["spearman"].items()]
    note = (
        f"Spearman's correlation x 100, with `{results['model']}`; {results['sentences']:,} sentences of its training"
    )
    return "\n".join([*lines, *rows]) + f"\n\n({note} text for the sentence pooling.)\n"


def speed(name: str) -> str:
    """A table of `benchmarks.speed_tables`: the name of its function, and of its results if that is another."""
    function, _, benchmark = name.partition(" from ")
    return getattr(speed_tables, function)(read_results(benchmark or function))


def analysis(name: str) -> str:
    """A table of `docs/analysis.md`."""
    return analysis_tables.table(read_results("analysis"), name)


def pairs(_: str) -> str:
    """The accuracy of heads for pairs, mean and range of the seeds."""
    lines = ["| head | accuracy | range |", "|---|---:|---:|"]
    for head, accuracies in read_results("pairs").items():
        values = list(accuracies.values())
        lines.append(f"| {head} | {sum(values) / len(values):.1f} | {min(values):.1f}–{max(values):.1f} |")
    return "\n".join(lines) + "\n"


def summary(_: str) -> str:
    """The speed in three lines."""
    return speed_tables.speed(read_results("inference"), read_results("pretraining"))


def tasks(name: str) -> str:
    """A table of `benchmarks.task_tables`."""
    return TASK_TABLES[name](read_results("tasks")["results"])


def campaign(_: str) -> str:
    """The faults that were tried, and how many of them were survived."""
    results = read_results("campaign")
    rows = [[kind, str(trials["tried"]), str(trials["survived"])] for kind, trials in results["kinds"].items()]
    return speed_tables.markdown(["faults", "tried", "survived"], rows) + f"\n(Seed {results['seed']}.)\n"


TABLES: dict[str, Callable[[str], str]] = {
    "analysis": analysis,
    "campaign": campaign,
    "memory": memory,
    "pairs": pairs,
    "similarity": similarity,
    "speed": speed,
    "summary": summary,
    "tasks": tasks,
    "trick": trick,
    "faults": faults,
}


def make_table(name: str) -> str:
    """The text of a table; the first word of its name says which function makes it."""
    kind, _, rest = name.partition(" ")
    try:
        return TABLES[kind](rest)
    except NotMeasuredError:
        return NOT_MEASURED


def updated(text: str) -> str:
    """A document with all its tables made anew."""
    return BLOCK.sub(lambda block: f"{block[1]}{make_table(block['name'])}{block[4]}", text)


def documents() -> Iterator[Path]:
    """The files that may hold tables."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="Change nothing, and fail if a table is out of date.")
    options = parser.parse_args()
    outdated = [path for path in documents() if updated(text := path.read_text("utf-8")) != text]
    for path in outdated:
        print(path.relative_to(ROOT))
        if not options.check:
            path.write_text(updated(path.read_text("utf-8")), encoding="utf-8")
    sys.exit(bool(options.check and outdated))


if __name__ == "__main__":
    main()
