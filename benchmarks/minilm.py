"""
Is a small transformer faster? The shipped English model beside a BERT with the sizes of MiniLM-L6 (6 layers of 384) and
random weights: speed and memory on the same sentences. The vectors of that BERT mean nothing.

    python -m benchmarks.minilm
    python -m benchmarks.minilm --json benchmarks/results/minilm.json

The transformer gets one token per word, the fewest that its tokenizer could give: real text has more, so that its
speed in words is an upper bound. Tokenising is not part of the measurement. Each run is a process of its own, the sides
alternate, and every process is warmed up by one pass over the sentences.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import torch
from transformers import BertConfig, BertModel

from benchmarks.report import add_json_option, describe, machine, spread, table, write_results
from benchmarks.sides import by_tokens
from benchmarks.texts import read_corpus
from elmo_hf import ElmoModel, ElmoTokenizer, default_model

TOKENS_PER_BATCH = 1024
MINILM = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
SIDES = {
    "elmo-english-compact": {},
    "elmo-english-compact, int8": {"int8": True},
    "MiniLM-L6, random weights": {"minilm": True},
}
ONE, BATCHES = "one sentence at a time", "sorted, in batches"


class Elmo:
    """The shipped model."""

    def __init__(self, int8: bool):
        self.tokenizer = ElmoTokenizer.from_pretrained(default_model())
        self.model = ElmoModel.from_pretrained(default_model(), dtype=torch.float32).eval()
        if int8:
            self.model.quantize()

    def inputs(self, sentences: list[list[str]]) -> dict[str, torch.Tensor]:
        return dict(self.tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt"))


class MiniLM:
    """A BERT of MiniLM's sizes. The ids of the words are random, as its speed does not depend on them."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = BertModel(MINILM, add_pooling_layer=False).eval()

    def inputs(self, sentences: list[list[str]]) -> dict[str, torch.Tensor]:
        lengths = torch.tensor([len(words) + 2 for words in sentences])  # [CLS] and [SEP]
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        return {"input_ids": torch.randint_like(mask, MINILM.vocab_size) * mask, "attention_mask": mask}


def run_side(name: str, count: int) -> dict:
    """Measures one side in this process, on `count` sentences."""
    options = SIDES[name]
    side = MiniLM() if options.get("minilm") else Elmo(bool(options.get("int8")))
    sentences, _ = read_corpus(count)
    words = sum(map(len, sentences))
    record = {"parameters": sum(part.numel() for part in side.model.state_dict().values()), "words/s": {}}
    settings = {ONE: [[words] for words in sentences], BATCHES: by_tokens(sentences, TOKENS_PER_BATCH)}
    with torch.inference_mode():
        for setting, batches in settings.items():
            inputs = [side.inputs(batch) for batch in batches]
            for batch in inputs:
                side.model(**batch)
            start = time.perf_counter()
            for batch in inputs:
                side.model(**batch)
            record["words/s"][setting] = words / (time.perf_counter() - start)
    record["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return record


def measure(repeats: int, count: int) -> dict[str, dict]:
    """All sides, alternating, each time in a new process."""
    results: dict[str, dict] = {}
    for _ in range(repeats):
        for name in SIDES:
            command = [sys.executable, "-m", "benchmarks.minilm", "--side", name, "--sentences", str(count)]
            answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            record = results.setdefault(name, {"parameters": answer["parameters"], "words/s": {}, "megabytes": []})
            record["megabytes"].append(answer["megabytes"])
            for setting, speed in answer["words/s"].items():
                record["words/s"].setdefault(setting, []).append(speed)
    return results


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minilm", description=__doc__.split("\n\n")[0])
    parser.add_argument("--side", choices=SIDES, help="measure one side in this process, and print JSON")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=256, help="sentences of the held-out text")
    add_json_option(parser)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side, options.sentences)))
        return
    load = os.getloadavg()[0]
    results = measure(options.repeats, options.sentences)
    lines = [
        [name, f"{record['parameters']:,}", *map(spread, record["words/s"].values()), spread(record["megabytes"])]
        for name, record in results.items()
    ]
    print(table(["side", "parameters", f"words/s, {ONE}", f"words/s, {BATCHES}", "peak MB"], lines), end="\n\n")
    print(f"{options.repeats} repetitions: median (smallest–largest). {describe(machine())}")
    write_results(options.json, "minilm", results, sentences=options.sentences, load=load)


if __name__ == "__main__":
    main()
