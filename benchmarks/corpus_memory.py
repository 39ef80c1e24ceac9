"""
Does memory grow with the corpus? The largest resident size of `elmo-hf embed`, from the start of the process to its
end, for a text and for ten times as much, written as every format.

    python -m benchmarks.corpus_memory
    python -m benchmarks.corpus_memory --words 20000 --formats parquet

The text is `corpora/english/heldout.txt.xz` under `$ELMO_HF_SHARED` or `../shared`, or else sentences that repeat.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.report import add_json_option, describe, machine, table, write_results
from benchmarks.texts import read_words

FORMATS = ["safetensors", "parquet", "arrow", "hdf5", "npz"]
TIMES = 10
SENTENCE = 25  # words per line
UNIT = 2**20 if sys.platform == "darwin" else 2**10  # of the peak, in a megabyte


def write_text(path: Path, words: int):
    """Lines of `SENTENCE` words."""
    text = read_words(words)
    path.write_text("".join(" ".join(text[first : first + SENTENCE]) + "\n" for first in range(0, words, SENTENCE)))


def peak(arguments: list[str]) -> float:
    """Megabytes that a process of `elmo-hf` held at most."""
    process = subprocess.Popen([sys.executable, "-m", "elmo_hf.cli", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if process.returncode is None:
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"elmo-hf {' '.join(arguments)} has failed")
    return usage.ru_maxrss / UNIT


def benchmark(words: int, formats: list[str], options: list[str]) -> list[dict[str, Any]]:
    """One record a format, with the megabytes of both texts."""
    records = []
    with tempfile.TemporaryDirectory() as folder, tqdm(total=2 * len(formats), unit="run") as bar:
        for name in formats:
            megabytes = []
            for count in (words, TIMES * words):
                text, out = Path(folder) / "text.txt", Path(folder) / str(count)
                write_text(text, count)
                megabytes.append(peak(["embed", str(text), "--out", str(out), "--format", name, *options]))
                for path in out.parent.glob(f"{out.name}*"):
                    path.unlink()
                bar.update()
            records.append({"format": name, "words": [words, TIMES * words], "megabytes": megabytes})
    return records


def main():
    """Runs and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus_memory", description=__doc__.split("\n\n")[0])
    parser.add_argument("--words", type=int, default=100_000, help="of the smaller text")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--options", default="", help="further ones of `elmo-hf embed`, as '--layers all'")
    add_json_option(parser)
    options = parser.parse_args()
    records = benchmark(options.words, options.formats, options.options.split())
    lines = [
        [record["format"], *(f"{peak:,.0f}" for peak in record["megabytes"]), f"{growth(record):+.1%}"]
        for record in records
    ]
    header = ["format", *(f"{words:,} words, MB" for words in records[0]["words"]), "growth"]
    print(table(header, lines), end="\n\n")
    print(describe(machine()))
    write_results(options.json, "corpus_memory", records)


def growth(record: dict[str, Any]) -> float:
    """Of the peak, as a share of the smaller one."""
    small, large = record["megabytes"]
    return large / small - 1


if __name__ == "__main__":
    main()
