"""
Two source trees side by side: what a change of the engine does to speed and memory.

    python -m benchmarks.engine --against ../elmo-hf-before

Both trees run in this environment, each in processes of its own with the same random weights and the same sentences.
Their measurements alternate, so that both meet the same noise; the ratio is that of the medians.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
COMPACT = {
    "char_filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 128], [6, 128]],
    "num_highway_layers": 1,
    "cell_size": 768,
    "projection_size": 256,
}
SIZES: dict[str, dict[str, Any]] = {
    "full": {},
    "small": {"cell_size": 1024, "projection_size": 128, "num_highway_layers": 1},
    "compact": COMPACT,
}
INFERENCE = [("full", batch) for batch in (1, 8, 32, 64)]
INFERENCE += [(size, batch) for size in ("small", "compact") for batch in (1, 8, 32)]
TRAINING = [("compact", 128), ("small", 128), ("full", 32)]
SECONDS = 1.5  # per measurement of one side


def sentences(count: int) -> list[list[str]]:
    """The first sentences of the benchmarks' text."""
    import itertools

    from benchmarks.texts import read_sentences

    return list(itertools.islice(itertools.cycle(read_sentences(None)), count))


# ---- one side, in a process of its own


def inference_call(size: str, batch: int, precision: str) -> Callable[[], object]:
    """A forward pass over `batch` sentences."""
    import torch

    from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer

    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**SIZES[size])).eval()
    if precision == "bf16":
        model = model.to(torch.bfloat16)
    elif precision == "int8":
        model.quantize()
    texts = json.loads(os.environ["BENCHMARK_SENTENCES"])[:batch]
    inputs = ElmoTokenizer()(texts, is_split_into_words=True, padding=True, return_tensors="pt")
    names = ("input_ids", "char_ids", "attention_mask")

    def call():
        with torch.inference_mode():
            return model(**{name: inputs[name] for name in names})

    return call


def training_call(size: str, batch: int, precision: str) -> Callable[[], object]:
    """A training step: windows of 20 words of `batch` streams, forward and backward."""
    import torch

    from elmo_hf import ElmoConfig, ElmoForPreTraining

    torch.manual_seed(0)
    words = 5000
    model = ElmoForPreTraining(ElmoConfig(vocab_size=words, softmax_type="full", **SIZES[size])).train()
    model.softmax.requires_grad_(False)  # the engine is what is measured
    ids = torch.randint(3, words, (2, batch, 20))
    chars = torch.randint(1, 260, (words, 50))
    chars[torch.arange(50) >= torch.randint(3, 12, (words, 1))] = 261
    labels = torch.full((batch, 20), -100)
    labels[:, -1] = 5

    def call():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            output = model(
                char_ids=chars[ids[0]], backward_char_ids=chars[ids[1]], labels=labels, backward_labels=labels
            )
        output.loss.backward()
        model.zero_grad()

    return call


def work(kind: str, size: str, batch: int, precision: str):
    """Measures whenever a line comes; prints seconds per call, and the peak memory."""
    call = (training_call if kind == "training" else inference_call)(size, batch, precision)
    for _ in range(2):
        call()
    for _ in sys.stdin:
        times, end = [], time.perf_counter() + SECONDS
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": statistics.median(times), "memory": peak}), flush=True)


# ---- both sides


def start(tree: Path, *arguments: str) -> subprocess.Popen:
    """A worker that imports the package from a tree."""
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("VERBOSE") else subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tree)},
    )


def compare(trees: list[Path], rounds: int, *arguments: str) -> dict[str, float]:
    """
    Returns:
        Seconds per call before and after, the speed after relative to before, and the same of peak memory in MB.
    """
    workers = [start(tree, *arguments) for tree in trees]
    results: list[list[dict[str, float]]] = [[], []]
    try:
        for _ in range(rounds):
            for worker, result in zip(workers, results, strict=True):
                worker.stdin.write("go\n")
                worker.stdin.flush()
                result.append(json.loads(worker.stdout.readline()))
    finally:
        for worker in workers:
            worker.kill()
    before, after = (statistics.median(one["seconds"] for one in result) for result in results)
    memory = [max(one["memory"] for one in result) for result in results]
    return {
        "before": before,
        "after": after,
        "speed": before / after,
        "memory_before": memory[0],
        "memory_after": memory[1],
    }


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__.split("\n\n")[0])
    parser.add_argument("--against", type=Path, required=True, help="The source tree to compare with.")
    parser.add_argument("--tree", type=Path, default=ROOT, help="The source tree to measure. Default: this one.")
    parser.add_argument("--only", help="A part of the names to measure, as `full` or `training`.")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "int8"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["BENCHMARK_SENTENCES"] = json.dumps(sentences(64))
    cases = [("inference", *case) for case in INFERENCE] + [("training", *case) for case in TRAINING]
    results = {}
    for kind, size, batch in cases:
        name = f"{kind} {size} {batch}"
        if options.only and options.only not in name:
            continue
        results[name] = compare(
            [options.against, options.tree], options.rounds, kind, size, str(batch), options.precision
        )
        print(f"{name:<24}" + "  ".join(f"{key} {value:.4g}" for key, value in results[name].items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"precision": options.precision, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
    else:
        main()
