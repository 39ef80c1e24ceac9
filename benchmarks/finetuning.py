"""
What an epoch of a head's training costs, with and without the cache of the frozen biLM's layers, and with a biLM that
learns too: ours, and the same in ordinary PyTorch (`benchmarks/plain.py`):

    python -m benchmarks.finetuning

A tagger (BiLSTM of 200, learned word vectors beside ELMo) on sentences of UD English EWT, the model that comes with the
package. One epoch of each way after the other, several times; the median and the range. The text is under
`$ELMO_HF_SHARED` or `../shared`, in `corpora/`.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed
from transformers.utils import logging

from benchmarks.plain import run_model
from benchmarks.report import processor, table
from benchmarks.task_setups import SETUPS, TaskSetup
from benchmarks.tasks import CORPORA, LEARNED_SIZE
from elmo_hf import ElmoTaskModel, ElmoTokenizer, default_model
from elmo_hf.finetuning import build_head, learned_vectors

# The ways that the others are compared with.
BESIDE = ["frozen, no cache", "tuned, plain"]


class Head:
    """A head and its optimiser."""

    def __init__(self, setup: TaskSetup, fields: dict[str, Any], learning_rate: float = 1e-3):
        set_seed(0)
        tokenizer = ElmoTokenizer.from_pretrained(default_model())
        vectors = learned_vectors(tokenizer, setup.task.words(setup.train, tokenizer), LEARNED_SIZE)
        self.task = setup.task
        self.model: ElmoTaskModel
        self.model, self.tokenizer = build_head(setup.task, default_model(), tokenizer, vectors, setup.fields | fields)
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.param_groups(learning_rate), fused=True)

    def epoch(self, batches: Sequence[list[Any]]) -> float:
        """Trains on all batches; how many seconds that took."""
        start = time.perf_counter()
        for batch in batches:
            features = [self.task.features(example, self.tokenizer) for example in batch]
            self.model(**self.task.collate(features, self.tokenizer)).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return time.perf_counter() - start


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.finetuning", description=__doc__.split("\n\n")[0])
    parser.add_argument("--sentences", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write every measurement to this file")
    options = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    setup = SETUPS["pos"].setup(CORPORA)
    sentences = sorted(setup.train[: options.sentences], key=lambda example: len(example.words))
    batches = [sentences[start : start + options.batch_size] for start in range(0, len(sentences), options.batch_size)]
    with tempfile.TemporaryDirectory() as folder:
        heads = {
            "tuned": Head(setup, {"freeze_bilm": False}),
            "tuned, plain": Head(setup, {"freeze_bilm": False}),
            "frozen, no cache": Head(setup, {}),
            "frozen, cache on disk": Head(setup, {}),
            "frozen, cache in memory": Head(setup, {}),
            "no ELMo": Head(setup, {"elmo_places": "none"}),
        }
        plain = heads["tuned, plain"].model.elmo
        plain.forward = partial(run_model, plain)
        heads["frozen, cache on disk"].model.cache_layers(folder)
        heads["frozen, cache in memory"].model.cache_layers()
        first = {name: head.epoch(batches) for name, head in heads.items()}
        later: dict[str, list[float]] = {name: [] for name in heads}
        for _ in range(options.repeat):
            for name, head in heads.items():
                later[name].append(head.epoch(batches))
    lines = []
    for name, seconds in later.items():
        rates = sorted(len(sentences) / second for second in seconds)
        ratios = [statistics.median(a / b for a, b in zip(later[way], seconds, strict=True)) for way in BESIDE]
        shown = f"{statistics.median(rates):,.0f} ({rates[0]:,.0f}–{rates[-1]:,.0f})"
        lines.append([name, f"{len(sentences) / first[name]:,.0f}", shown, *(f"{ratio:.2f}" for ratio in ratios)])
    threads = torch.get_num_threads()
    words = sum(len(sentence.words) for sentence in sentences)
    print(f"{len(sentences):,} sentences, {words:,} words, {options.batch_size} a batch, {threads} threads")
    header = ["biLM", "first epoch, sentences/s", "later epochs, sentences/s", *(f"beside {way}" for way in BESIDE)]
    print(f"{processor()}, PyTorch {torch.__version__}\n\n{table(header, lines)}")
    if options.json is not None:
        report = {"processor": processor(), "torch": torch.__version__, "threads": threads, "words": words}
        options.json.write_text(json.dumps(report | {"first": first, "seconds": later}, indent=2) + "\n")


if __name__ == "__main__":
    main()
