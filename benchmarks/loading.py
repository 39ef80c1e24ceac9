"""
How long until the first vector? Seconds to import, to load the model, and to embed the first sentence, and all of it
from the start of the process: every side of `benchmarks.inference` with the same random weights, each time in a fresh
process, and the sides alternate. The files are in the system's cache: each side has run once before.

    python -m benchmarks.loading
    python -m benchmarks.loading --size small --sides fp32 allennlp
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.peers import PeerError
from benchmarks.report import add_json_option, describe, machine, spread, table, write_results
from benchmarks.sides import SIDES, SIZES, write_batches, write_model
from benchmarks.texts import read_sentences

PARTS = ["imports", "loading", "first vector", "in all"]


def measure(side: str, folder: Path, batch: list[str]) -> dict[str, float]:
    """Seconds by part."""
    begin = time.perf_counter()
    with SIDES[side].start() as worker:
        imports = worker.ask("imports")["seconds"]
        loading = worker.ask("load", folder=str(folder))["seconds"]
        first = worker.ask("measure", batches=batch)["seconds"]
        return dict(zip(PARTS, (imports, loading, first, time.perf_counter() - begin), strict=True))


def benchmark(sizes: list[str], sides: list[str], repeats: int) -> list[dict[str, Any]]:
    """One record per size and side, with one number per repetition for every part."""
    records = []
    sentences = read_sentences(None)[:1]
    with tqdm(total=len(sizes) * len(sides) * (repeats + 1), unit="process") as bar:
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                write_model(Path(folder), size, sentences)
                batch = write_batches(Path(folder), "first", [sentences])
                seconds: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
                for _ in range(repeats + 1):
                    for side in sides:
                        seconds[side].append(measure(side, Path(folder), batch))
                        bar.update()
            for side, (_, *measured) in seconds.items():  # the first has filled the system's cache
                parts = {part: [times[part] for times in measured] for part in PARTS}
                records.append({"size": size, "side": side, "seconds": parts})
    return records


def main() -> str | None:
    """Runs and prints; gives what went wrong, if anything did."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    sides = [name for name, side in SIDES.items() if not side.label.endswith("warm")]
    parser.add_argument("--sides", nargs="+", choices=sides, default=sides)
    parser.add_argument("--repeats", type=int, default=3)
    add_json_option(parser)
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats must be 1 or more")
    try:
        records = benchmark(options.size, options.sides, options.repeats)
    except PeerError as error:
        return f"{error} (`--sides fp32` measures without the peers.)"

    lines = [
        [record["size"], SIDES[record["side"]].label, *(spread(record["seconds"][part], 2) for part in PARTS)]
        for record in records
    ]
    print(table(["size", "side", *(f"{part}, s" for part in PARTS)], lines), end="\n\n")
    print(f"{options.repeats} repetitions, the sides alternating: median (smallest–largest). {describe(machine())}")
    write_results(options.json, "loading", records)
    return None


if __name__ == "__main__":
    sys.exit(main())
