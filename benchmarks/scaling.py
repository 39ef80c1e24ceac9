"""
Does the cost grow only with the words? Seconds for documents of 10 to 100,000 words, embedded in pieces
(`benchmarks.documents`), and for batches of 1 to 512 sentences of running text in one call, with the model that comes
with the package.

    python -m benchmarks.scaling
"""

import argparse
import statistics
import sys
import time
from typing import Any

import torch
from tqdm import tqdm
from transformers.utils import logging

import elmo_hf
from benchmarks.peers import PeerError, Worker
from benchmarks.report import add_json_option, describe, machine, table, write_results
from benchmarks.texts import character_ids, read_corpus
from elmo_hf import ElmoModel

DOCUMENT_WORDS = [10, 100, 1_000, 10_000, 100_000]
BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
# Short settings are repeated until they have taken about this many seconds in all, at most 20 times.
SECONDS_A_SETTING = 2.0
MOST_REPEATS = 20


def repeats_for(seconds: float) -> int:
    """How often a setting runs that takes so many seconds."""
    return max(1, min(MOST_REPEATS, round(SECONDS_A_SETTING / seconds)))


def measure_documents(most: int) -> list[dict[str, Any]]:
    """One record a length."""
    records = []
    with Worker("documents", sys.executable, "benchmarks.documents") as worker:
        worker.ask("load")
        worker.ask("embed", words=DOCUMENT_WORDS[1])  # a warm-up
        for words in tqdm([words for words in DOCUMENT_WORDS if words <= most], unit="document"):
            seconds = [worker.ask("embed", words=words)["seconds"]]
            for _ in range(repeats_for(seconds[0]) - 1):
                seconds.append(worker.ask("embed", words=words)["seconds"])
            records.append({"words": words, "seconds": seconds})
    return records


@torch.inference_mode()
def measure_batches(most: int) -> list[dict[str, Any]]:
    """One record a batch size; its words include the boundaries."""
    logging.disable_progress_bar()
    model = ElmoModel.from_pretrained(elmo_hf.default_model()).eval()
    sentences, _ = read_corpus(max(BATCH_SIZES))
    records = []
    for size in tqdm([size for size in BATCH_SIZES if size <= most], unit="batch"):
        char_ids = torch.from_numpy(character_ids(sentences[:size], boundaries=True))
        model(char_ids=char_ids)  # a warm-up
        seconds = [_timed(model, char_ids)]
        seconds += [_timed(model, char_ids) for _ in range(repeats_for(seconds[0]) - 1)]
        words = int((char_ids > 0).any(dim=-1).sum())
        records.append({"sentences": size, "words": words, "seconds": seconds})
    return records


def _timed(model: ElmoModel, char_ids: torch.Tensor) -> float:
    begin = time.perf_counter()
    model(char_ids=char_ids)
    return time.perf_counter() - begin


def speed_table(records: list[dict[str, Any]], *keys: str) -> str:
    """Seconds, and microseconds a word, by what the keys name."""
    lines = []
    for record in records:
        seconds = statistics.median(record["seconds"])
        microseconds = seconds / record["words"] * 1e6
        lines.append([*(f"{record[key]:,}" for key in keys), f"{seconds:.4f}", f"{microseconds:,.0f}"])
    return table([*keys, "seconds", "µs a word"], lines)


def main() -> str | None:
    """Runs and prints; gives what went wrong, if anything did."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.split("\n\n")[0])
    parser.add_argument("--words", type=int, default=DOCUMENT_WORDS[-1], help="of the longest document, at most")
    parser.add_argument("--sentences", type=int, default=BATCH_SIZES[-1], help="of the largest batch, at most")
    add_json_option(parser)
    options = parser.parse_args()
    try:
        documents = measure_documents(options.words)
    except PeerError as error:
        return str(error)
    batches = measure_batches(options.sentences)

    print("Documents, in pieces:\n\n" + speed_table(documents, "words"), end="\n\n")
    print("Batches, in one call:\n\n" + speed_table(batches, "sentences", "words"), end="\n\n")
    print(f"Medians of up to {MOST_REPEATS} repetitions. {describe(machine())}")
    write_results(options.json, "scaling", {"documents": documents, "batches": batches})
    return None


if __name__ == "__main__":
    sys.exit(main())
