"""
How fast is a training step? Words per second (each read in both directions) from ids to updated weights, on three
sides: `ElmoForPreTraining`; the same model in ordinary PyTorch (`benchmarks/plain.py`), whose gradients must be equal;
and the original's trainer on TensorFlow 2 (`simple-elmo` on the package index, installed into `.venv-peers`).

    python -m benchmarks.pretraining                                            # all sizes and their sides
    python -m benchmarks.pretraining --size small --sides ours "ours bf16"      # where bf16 products are fast
    python -m benchmarks.pretraining --size small --sides ours "ours compiled"  # with what is no product compiled
    python -m benchmarks.pretraining --parts                                    # what our step spends its time on

Each side runs in a process of its own with its default number of threads; the sides alternate at every step, but at
full size, where memory would not do for all at once: there one side ends before the next begins. The text is the
English corpus under `$ELMO_HF_SHARED` or `../shared`, in windows of 20 words.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.peers import SIMPLE_ELMO, PeerError, Worker
from benchmarks.report import processor, spread, table
from benchmarks.training_parts import print_parts
from benchmarks.training_sizes import SIZES, WINDOW, Size, streams_of_text

SIDES = ["ours", "ours bf16", "ours compiled", "plain", "plain bf16", "simple_elmo"]
TOLERANCE = 1e-5


@dataclass
class Result:
    """
    One size.

    Attributes:
        words: Predicted per direction and step.
        seconds: By side, one number per step.
        megabytes: By side, the largest resident size of its process, the building of the model included.
        losses: By side, that of the last step, where the side tells.
        difference: Largest difference of any gradient between "ours" and "plain".
    """

    size: str
    words: int
    seconds: dict[str, list[float]]
    megabytes: dict[str, int | None]
    losses: dict[str, float | None]
    difference: float | None = None


def write_windows(folder: Path, size: Size, count: int) -> list[str]:
    """Consecutive windows as files, the same for all sides."""
    streams, files = streams_of_text(size), []
    for index in range(count):
        window = streams.take()
        assert window is not None
        files.append(str(folder / f"window-{index}.npz"))
        np.savez(files[-1], **{name: tensor.numpy() for name, tensor in window.model_inputs().items()})
    return files


@contextlib.contextmanager
def worker(side: str, size: Size, facts: dict[str, Any]) -> Iterator[Worker]:
    """A side that is ready for its first window; what it runs on is added to `facts`."""
    peer = side == "simple_elmo"
    python = SIMPLE_ELMO.interpreter() if peer else sys.executable
    module = "benchmarks.training_worker_tensorflow" if peer else "benchmarks.training_worker"
    with Worker(side, python, module) as started:
        facts[side] = started.ask("load", side=side, config=size.config(), recipe=size.recipe)
        yield started


def largest_difference(workers: dict[str, Worker], window: str, folder: Path) -> float:
    """Of any number in the gradients of "ours" and "plain", without dropout."""
    files = [str(folder / f"gradients-{side}.npz") for side in ("ours", "plain")]
    for side, file in zip(("ours", "plain"), files, strict=True):
        workers[side].ask("gradients", window=window, file=file)
    with np.load(files[0]) as ours, np.load(files[1]) as plain:
        difference = float(np.max([np.abs(ours[name] - plain[name]).max() for name in ours.files]))  # NaN if any is
    return difference if np.isfinite(difference) else float("inf")


def measure(name: str, sides: list[str], options: argparse.Namespace, facts: dict[str, Any], bar: tqdm) -> Result:
    """The steps of one size, the first ones left out."""
    size = SIZES[name]
    result = Result(name, WINDOW * size.streams, {side: [] for side in sides}, {}, {})
    groups = [[side] for side in sides] if size.one_at_a_time else [sides]
    with tempfile.TemporaryDirectory() as folder:
        windows = write_windows(Path(folder), size, options.steps)
        for group in groups:
            with contextlib.ExitStack() as stack:
                workers = {side: stack.enter_context(worker(side, size, facts)) for side in group}
                if {"ours", "plain"} <= workers.keys():
                    result.difference = largest_difference(workers, windows[0], Path(folder))
                for step, window in enumerate(windows):
                    for side, process in workers.items():
                        answer = process.ask("step", window=window)
                        result.losses[side] = answer.get("loss")
                        if step >= options.skip:
                            result.seconds[side].append(answer["seconds"])
                        bar.update()
                for side, process in workers.items():
                    result.megabytes[side] = process.ask("peak_memory")["megabytes"]
    return result


def lines(result: Result) -> list[list[str]]:
    """A line of the table for every side; the ratios are those of steps on the same window."""
    first = next(iter(result.seconds.values()))
    rows = []
    for side, seconds in result.seconds.items():
        ratios = [theirs / ours for ours, theirs in zip(first, seconds, strict=True)]
        loss = result.losses[side]
        rows.append(
            [
                result.size,
                side,
                spread([result.words / second for second in seconds]),
                spread([1000 * second for second in seconds]),
                "" if seconds is first else spread(ratios, 2),
                f"{megabytes:,}" if (megabytes := result.megabytes[side]) else "?",
                "" if loss is None else f"{loss:.3f}",
                "" if side != "plain" or result.difference is None else f"{result.difference:.1e}",
            ]
        )
    return rows


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pretraining", description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, help="default: those of each size")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--skip", type=int, default=3, help="first steps to leave out")
    parser.add_argument("--json", type=Path, help="also write every measurement to this file")
    parser.add_argument("--parts", action="store_true", help="instead, where the time of our own step goes")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="with --parts")
    parser.add_argument("--compile", action="store_true", help="with --parts: compile what is no product (needs g++)")
    options = parser.parse_args()
    if not options.steps > options.skip >= 0:
        parser.error("--steps must be greater than --skip")
    if options.json is not None and not options.json.resolve().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    return options


def main() -> str | None:
    """Measures and prints; gives what went wrong, if anything did."""
    options = parse_arguments()
    if options.parts:
        return print_parts(options)
    sides = {name: options.sides or list(SIZES[name].sides) for name in options.size}
    facts: dict[str, Any] = {}
    try:
        with tqdm(total=options.steps * sum(map(len, sides.values())), unit="step") as bar:
            results = [measure(name, sides[name], options, facts, bar) for name in options.size]
    except PeerError as error:
        return f"{error} (`--sides ours plain` measures without the peer.)"
    header = [
        "size",
        "side",
        "words/s",
        "ms/step",
        "times the first side's",
        "peak MB",
        "last loss",
        "gradients differ by",
    ]
    print(table(header, [line for result in results for line in lines(result)]), end="\n\n")
    print(f"{processor()}. {options.steps - options.skip} steps each, alternating: median (smallest–largest).")
    for side, fact in facts.items():
        print(f"{side}: {fact['runs on']}, threads: {fact['threads']}.")
    if options.json is not None:
        report = {"processor": processor(), "sides": facts, "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if any(result.difference is not None and not result.difference <= TOLERANCE for result in results):
        return f"The gradients do not agree to {TOLERANCE}."
    return None


if __name__ == "__main__":
    sys.exit(main())
