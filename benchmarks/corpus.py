"""
How long does a text take, from its file to a file of vectors? `elmo-hf embed` beside AllenNLP's ELMo
(`simple-elmo-pytorch`) and the original on TensorFlow 2 (`simple-elmo`), all with the same random weights: read,
tokenise, embed, write all layers as HDF5.

    python -m benchmarks.corpus
    python -m benchmarks.corpus --size small --sides fp32 int8 --words 100000

The text is the first sentences of WikiText-2's validation text, one per line; the sides alternate, each in a process of
its own, and every vector of every fp32 side must be ours to 1e-5. "Inside products" is the share of the time inside
calls of PyTorch's matrix products, in runs of their own (`benchmarks/timed_products.py`).
"""

import argparse
import lzma
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tqdm import tqdm

from benchmarks import SHARED
from benchmarks.peers import PeerError, Worker
from benchmarks.report import add_json_option, describe, machine, ratios, spread, table, write_results
from benchmarks.sides import SIDES, SIZES, TOLERANCE, write_model
from benchmarks.texts import read_sentences
from elmo_hf import ElmoTokenizer

WIKITEXT = SHARED / "corpora" / "wikitext-2" / "wiki.valid.tokens.xz"
WORDS = {"full": 10_000, "small": 40_000}


def sentences_of_wikitext() -> Iterator[str]:
    """WikiText-2's validation text without its headings; where it is missing, the default text."""
    if not WIKITEXT.exists():
        yield from (" ".join(words) for words in read_sentences(None))
        return
    with lzma.open(WIKITEXT, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.strip().startswith("="):
                yield from re.split(r"(?<=\s[.?!])\s+", line.strip())


def write_text(path: Path, words: int) -> int:
    """The first sentences of at least so many words, one a line; their words."""
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for sentence in sentences_of_wikitext():
            file.write(sentence + "\n")
            written += len(sentence.split())
            if written >= words:
                break
    return written


def largest_difference(ours: Path, theirs: Path) -> float:
    """Over all vectors of two files."""
    with h5py.File(ours) as our, h5py.File(theirs) as their:
        numbers = [key for key in our if key.isdigit()]
        return float(max(np.abs(our[key][()] - their[key][()]).max() for key in numbers))


def start(name: str, folder: Path) -> Worker:
    """A side's worker, its model loaded."""
    worker = SIDES[name].start("benchmarks.corpus_worker")
    worker.ask("load", folder=str(folder))
    return worker


def measure(size: str, sides: list[str], words: int, repeat: int, bar: tqdm) -> list[dict[str, Any]]:
    """One record a side."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder, text = Path(temporary), Path(temporary) / "text.txt"
        write_model(folder, size)
        ElmoTokenizer().save_pretrained(folder)
        words = write_text(text, words)
        workers = {name: stack.enter_context(start(name, folder)) for name in sides}
        records = {name: {"size": size, "side": name, "words": words, "seconds": []} for name in sides}
        for repetition in range(repeat + 1):  # the first is left out
            for name, worker in workers.items():
                out = folder / f"{name}.hdf5"
                out.unlink(missing_ok=True)
                seconds = worker.ask("embed", text=str(text), out=str(out))["seconds"]
                if repetition:
                    records[name]["seconds"].append(seconds)
                bar.update()
        for name, worker in workers.items():
            records[name]["megabytes"] = worker.ask("peak_memory")["megabytes"]
            if SIDES[name].exact and name != sides[0]:
                records[name]["difference"] = largest_difference(folder / f"{sides[0]}.hdf5", folder / f"{name}.hdf5")
            if SIDES[name].model != "tensorflow":  # of the peer, which is slow, once
                times = repeat if SIDES[name].model == "ours" else 1
                shares = [_share_of_products(worker, text, folder / "profiled.hdf5") for _ in range(times)]
                records[name]["inside products"] = statistics.median(shares)
    return list(records.values())


def _share_of_products(worker: Worker, text: Path, out: Path) -> float:
    share = worker.ask("products", text=str(text), out=str(out))["share"]
    out.unlink()
    return share


def report(records: list[dict[str, Any]]) -> str:
    """A line a side; the first side of a size is what the others are compared with."""
    lines = []
    for record in records:
        first = next(other for other in records if other["size"] == record["size"])
        share = record.get("inside products")
        lines.append(
            [
                record["size"],
                SIDES[record["side"]].label,
                spread([record["words"] / seconds for seconds in record["seconds"]]),
                "" if record is first else spread(ratios(first["seconds"], record["seconds"]), 2),
                f"{record['megabytes']:,}" if record["megabytes"] is not None else "?",
                "" if share is None else f"{share:.0%}",
                f"{record['difference']:.1e}" if "difference" in record else "",
            ]
        )
    header = ["size", "side", "words/s", "times the first side's", "peak MB", "inside products", "differs by"]
    return table(header, lines)


def main() -> str | None:
    """Runs and prints; gives what went wrong, if anything did."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus", description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=["fp32", "bf16", "int8", "allennlp", "tensorflow"])
    parser.add_argument("--words", type=int, help="of the text; default: 10,000 at full size, 40,000 at the small one")
    parser.add_argument("--repeat", type=int, default=3)
    add_json_option(parser)
    options = parser.parse_args()
    records = []
    try:
        with tqdm(total=len(options.size) * len(options.sides) * (options.repeat + 1), unit="text") as bar:
            for size in options.size:
                records += measure(size, options.sides, options.words or WORDS[size], options.repeat, bar)
    except PeerError as error:
        return f"{error} (`--sides fp32` measures without the peers.)"
    print(report(records), end="\n\n")
    source = WIKITEXT.name if WIKITEXT.exists() else "the default text"
    print(f"{options.repeat} alternating repetitions over {source}: median (smallest–largest). {describe(machine())}")
    write_results(options.json, "corpus", records, source=source)
    wrong = [record for record in records if record.get("difference", 0) > TOLERANCE]
    return f"Vectors differ by more than {TOLERANCE}: {wrong}" if wrong else None


if __name__ == "__main__":
    sys.exit(main())
