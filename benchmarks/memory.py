"""
How much memory? The largest resident size of a process that loads the model, and of one that embeds with it: every side
of `benchmarks.inference` with the same random weights, each in a fresh process; and for a long document, embedded in
pieces (`benchmarks.documents`) with the model that comes with the package.

    python -m benchmarks.memory
    python -m benchmarks.memory --size small --sides fp32 int8

"Imports" is what the process holds before it has a model; loading and embedding include it. Only Linux tells the peak.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.peers import PeerError, Worker
from benchmarks.report import add_json_option, describe, machine, table, write_results
from benchmarks.sides import SIDES, SIZES, in_batches, write_batches, write_model
from benchmarks.texts import read_sentences

BATCH_SIZES = [1, 32]
DOCUMENT_WORDS = [10_000, 100_000]


def measure_side(name: str, folder: Path, batches: dict[int, list[str]]) -> dict[str, int | None]:
    """Megabytes: of the imports, at most while loading, and at most while embedding, by batch size."""
    with SIDES[name].start() as worker:
        worker.ask("imports")
        megabytes = {"imports": worker.ask("peak_memory")["megabytes"]}
        worker.ask("load", folder=str(folder))
        megabytes["loading"] = worker.ask("peak_memory")["megabytes"]
        for batch, files in batches.items():
            worker.ask("measure", batches=files)
            megabytes[f"embedding, batch {batch}"] = worker.ask("peak_memory")["megabytes"]
    return megabytes


def measure_sides(sizes: list[str], sides: list[str]) -> list[dict[str, Any]]:
    """One record a size and side."""
    sentences, records = read_sentences(None), []
    with tqdm(total=len(sizes) * len(sides), unit="process") as bar:
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                write_model(Path(folder), size, sentences)
                weights = (Path(folder) / "model.safetensors").stat().st_size // 2**20
                batches = {
                    batch: write_batches(Path(folder), f"batch-{batch}", in_batches(sentences, batch)[:1])
                    for batch in BATCH_SIZES
                }
                for side in sides:
                    megabytes = measure_side(side, Path(folder), batches)
                    records.append({"size": size, "side": side, "weights": weights, **megabytes})
                    bar.update()
    return records


def measure_documents() -> list[dict[str, Any]]:
    """One record a length, each in a fresh process."""
    records = []
    for words in tqdm(DOCUMENT_WORDS, unit="document"):
        with Worker("documents", sys.executable, "benchmarks.documents") as worker:
            loading = worker.ask("load")["megabytes"]
            embedding = worker.ask("embed", words=words)["megabytes"]
            records.append({"words": words, "loading": loading, "embedding": embedding})
    return records


def side_table(records: list[dict[str, Any]]) -> str:
    """Megabytes."""
    columns = [key for key in records[0] if key not in ("size", "side", "weights")]
    lines = [
        [
            record["size"],
            SIDES[record["side"]].label,
            *(f"{record[key]:,}" if record[key] is not None else "?" for key in columns),
        ]
        for record in records
    ]
    return table(["size", "side", *(f"{key}, MB" for key in columns)], lines)


def document_table(records: list[dict[str, Any]]) -> str:
    """Megabytes."""
    lines = [[f"{record['words']:,}", str(record["loading"]), str(record["embedding"])] for record in records]
    return table(["words of the document", "loading, MB", "embedding, MB"], lines)


def main() -> str | None:
    """Runs and prints; gives what went wrong, if anything did."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--documents", action=argparse.BooleanOptionalAction, default=True, help="also long documents")
    add_json_option(parser)
    options = parser.parse_args()
    try:
        sides = measure_sides(options.size, options.sides)
        documents = measure_documents() if options.documents else []
    except PeerError as error:
        return f"{error} (`--sides fp32` measures without the peers.)"

    print(side_table(sides), end="\n\n")
    if documents:
        print(document_table(documents), end="\n\n")
    for size in options.size:
        weights = next(record["weights"] for record in sides if record["size"] == size)
        print(f"The weights of the {size} size in fp32: {weights} MB.")
    print(describe(machine()))
    write_results(options.json, "memory", {"sides": sides, "documents": documents})
    return None


if __name__ == "__main__":
    sys.exit(main())
