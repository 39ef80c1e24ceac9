"""
Is onnxruntime faster? The exported graph in fp32 and int8 beside our PyTorch model in fp32 and int8, with the model
that comes with the package and with random weights of the original's small size, at 1, 8 and 32 sentences per batch.

    python -m benchmarks.onnx
    python -m benchmarks.onnx --json benchmarks/results/onnx.json

All sides return all layers and the mix for the same inputs, and have the same number of threads. Batches are sentences
in the order of the text. Each run is a process of its own, the sides alternate, and every process is warmed up by one
pass. Tokenising is not part of the measurement.

Also a check: onnxruntime's fp32 must agree with PyTorch's to 1e-5 in every layer. For int8, the cosines with fp32.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from benchmarks.report import add_json_option, describe, machine, ratios, spread, table, write_results
from benchmarks.sides import SIZES, TOLERANCE, in_batches
from benchmarks.texts import read_corpus
from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer, default_model
from elmo_hf.export import to_onnx

MODELS = ("compact", "small")  # of the package, and of the original's small size
SIDES = ("PyTorch fp32", "PyTorch int8", "onnxruntime fp32", "onnxruntime int8")
SENTENCES = {1: 32, 8: 64, 32: 128}  # per batch → in all
INPUTS = ("char_ids", "attention_mask")


class PyTorch:
    """Our model."""

    def __init__(self, folder: Path, int8: bool):
        logging.disable_progress_bar()
        self.model = ElmoModel.from_pretrained(folder / "pytorch").eval()
        if int8:
            self.model.quantize()

    def __call__(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """`(layers, batch, words, size)`"""
        tensors = {name: torch.from_numpy(values) for name, values in inputs.items()}
        with torch.inference_mode():
            return np.stack([layer.numpy() for layer in self.model(**tensors, output_hidden_states=True).hidden_states])


class OnnxRuntime:
    """The exported graph."""

    def __init__(self, folder: Path, int8: bool):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        path = folder / ("int8" if int8 else "fp32") / "model.onnx"
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """`(layers, batch, words, size)`"""
        return self.session.run(["last_hidden_state", "hidden_states"], inputs)[1]


def load_side(name: str, folder: Path) -> PyTorch | OnnxRuntime:
    """One side, from the folder of [`prepare`]."""
    library, precision = name.split()
    return (PyTorch if library == "PyTorch" else OnnxRuntime)(folder, precision == "int8")


def prepare(model: str, folder: Path):
    """Writes the model of PyTorch, both graphs, and the inputs of all batches."""
    if model == "compact":
        source = Path(default_model())
        (folder / "pytorch").symlink_to(source, target_is_directory=True)
    else:
        torch.manual_seed(0)
        ElmoModel(ElmoConfig(**SIZES[model])).save_pretrained(folder / "pytorch")
        ElmoTokenizer().save_pretrained(folder / "pytorch")
    to_onnx(folder / "pytorch", folder / "fp32")
    to_onnx(folder / "pytorch", folder / "int8", int8=True)
    tokenizer = ElmoTokenizer.from_pretrained(folder / "pytorch")
    for size, count in SENTENCES.items():
        for index, sentences in enumerate(in_batches(read_corpus(count)[0], size)):
            batch = tokenizer(list(sentences), is_split_into_words=True, padding=True, return_tensors="np")
            np.savez(folder / f"batch-{size}-{index:03}.npz", **{name: batch[name].astype(np.int64) for name in INPUTS})


def read_batches(folder: Path, size: int) -> list[dict[str, np.ndarray]]:
    """The inputs that [`prepare`] has written for a batch size."""
    return [dict(np.load(path)) for path in sorted(folder.glob(f"batch-{size}-*.npz"))]


def measure_side(name: str, folder: Path) -> dict[str, float]:
    """The seconds of one side for all batches of each size."""
    side, seconds = load_side(name, folder), {}
    for size in SENTENCES:
        batches = read_batches(folder, size)
        for batch in batches:
            side(batch)
        start = time.perf_counter()
        for batch in batches:
            side(batch)
        seconds[str(size)] = time.perf_counter() - start
    return seconds


def compare(folder: Path) -> dict[str, Any]:
    """The largest difference of every side from PyTorch's fp32, and per layer the smallest and mean cosine."""
    sides = {name: load_side(name, folder) for name in SIDES}
    largest: dict[str, float] = dict.fromkeys(SIDES[1:], 0.0)
    cosines: dict[str, list[np.ndarray]] = {name: [] for name in SIDES[1:]}
    for batch in read_batches(folder, 8):
        is_word = batch["attention_mask"] == 1
        exact = sides[SIDES[0]](batch)[:, is_word]  # (layers, words, size)
        for name in SIDES[1:]:
            vectors = sides[name](batch)[:, is_word]
            largest[name] = max(largest[name], float(np.abs(vectors - exact).max()))
            lengths = np.linalg.norm(vectors, axis=-1) * np.linalg.norm(exact, axis=-1)
            cosines[name].append((vectors * exact).sum(-1) / lengths)
    layers = {name: np.concatenate(parts, axis=1) for name, parts in cosines.items()}
    return {
        name: {
            "largest difference": largest[name],
            "smallest cosines": layers[name].min(axis=1).tolist(),
            "mean cosines": layers[name].mean(axis=1).tolist(),
        }
        for name in SIDES[1:]
    }


def benchmark(model: str, repeats: int) -> dict[str, Any]:
    """All sides of one model, alternating, each time in a new process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(model, folder)
        words = {
            str(size): sum(int(b["attention_mask"].sum()) for b in read_batches(folder, size)) for size in SENTENCES
        }
        seconds: dict[str, dict[str, list[float]]] = {side: {size: [] for size in words} for side in SIDES}
        for _ in range(repeats):
            for side in SIDES:
                command = [sys.executable, "-m", "benchmarks.onnx", "--side", side, "--folder", name]
                answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                for size, value in answer.items():
                    seconds[side][size].append(value)
        megabytes = {
            side: (folder / side.split()[1] / "model.onnx").stat().st_size / 1e6 for side in SIDES if "onnx" in side
        }
        return {
            "model": model,
            "words": words,
            "seconds": seconds,
            "megabytes": megabytes,
            "compared": compare(folder),
        }


def print_results(results: list[dict[str, Any]]):
    """Speeds, and differences from fp32."""
    lines = []
    for result in results:
        for size, words in result["words"].items():
            speeds = {side: [words / value for value in result["seconds"][side][size]] for side in SIDES}
            faster = ratios(result["seconds"]["onnxruntime fp32"][size], result["seconds"]["PyTorch fp32"][size])
            lines.append([result["model"], size, *(spread(speeds[side]) for side in SIDES), spread(faster, 2)])
    header = ["model", "sentences per batch", *(f"{side}, tokens/s" for side in SIDES), "onnxruntime / PyTorch, fp32"]
    print(table(header, lines), end="\n\n")
    lines = [
        [
            result["model"],
            side,
            f"{differences['largest difference']:.1e}",
            ", ".join(f"{cosine:.4f}" for cosine in differences["smallest cosines"]),
            ", ".join(f"{cosine:.4f}" for cosine in differences["mean cosines"]),
        ]
        for result in results
        for side, differences in result["compared"].items()
    ]
    header = ["model", "side", "largest difference", "smallest cosine by layer", "mean cosine by layer"]
    print(table(header, lines), end="\n\n")


def main() -> str | None:
    """Measures and prints; gives what went wrong, if anything did."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onnx", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", choices=SIDES, help="measure one side in this process, and print JSON")
    parser.add_argument("--folder", type=Path, help="with --side: the prepared folder")
    add_json_option(parser)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure_side(options.side, options.folder)))
        return None
    import onnxruntime

    logging.disable_progress_bar()
    load = os.getloadavg()[0]
    results = [benchmark(model, options.repeats) for model in options.model]
    print_results(results)
    print(f"{options.repeats} repetitions: median (smallest–largest). {describe(machine())}")
    write_results(options.json, "onnx", results, load=load, onnxruntime=onnxruntime.__version__)
    if any(result["compared"]["onnxruntime fp32"]["largest difference"] >= TOLERANCE for result in results):
        return f"onnxruntime and PyTorch do not agree to {TOLERANCE}."
    return None


if __name__ == "__main__":
    sys.exit(main())
