"""
How fast are the vectors? Tokens per second of `ElmoModel` in its precisions, of AllenNLP's ELMo, the original PyTorch
implementation (vendored on the package index as `simple-elmo-pytorch`), and of `simple_elmo`, the original's graph on
TensorFlow 2: the same random weights, the same sentences, the sides alternating, each in its own process with its
own default number of threads.

    python -m benchmarks.inference                                  # everything
    python -m benchmarks.inference --size small --batch 8           # one setting
    python -m benchmarks.inference --sides fp32 int8 --no-corpus    # without the peers, which go into .venv-peers

Beside them the limit: the time of only the matrix products, each with the fastest kernel for its shape.

Also a check: every layer of the fp32 sides must agree to 1e-5. The peers carry the LSTM's state from call to call; it
is reset before each call, so that all compute the same. All sides mix the layers and return all of them. "Warm" sides
have all words of the text in their word caches. Sentences are batched in their order, unsorted, and none is repeated,
since a repeated word costs `ElmoModel` almost nothing. The corpus is 256 sentences of running text, at most twice:
AllenNLP in the order of arrival, 32 a batch, and every side sorted by length, in the better of two batch sizes.
"""

import argparse
import contextlib
import itertools
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.peers import PeerError, Worker
from benchmarks.report import add_json_option, describe, machine, ratios, spread, table, write_results
from benchmarks.sides import (
    SIDES,
    SIZES,
    TOLERANCE,
    by_tokens,
    in_batches,
    largest_difference,
    smallest_cosine,
    write_batches,
    write_model,
)
from benchmarks.texts import read_corpus, read_sentences

BATCH_SIZES = [1, 8, 32, 64]
# A setting is one batch, or as many as hold these: at full size the peers are slow.
FEWEST_SENTENCES = {"full": 8, "small": 32}
LIMIT = "products alone"
CORPUS_SENTENCES = 256
CORPUS_SIDES = ["fp32", "bf16", "int8", "allennlp"]
ARRIVAL_BATCH = 32
TOKENS_A_BATCH = 1024
CORPUS_REPEATS = 2


@dataclass
class Result:
    """
    One line of the tables.

    Attributes:
        setting: Sentences per batch, or "corpus".
        seconds: By side, for all sentences, one number per repetition.
        differences: By side that must be exact, the largest from our fp32 of any number in any layer.
        cosines: By any other side, the smallest of a word's vectors in a layer with those of our fp32.
        shapes: The products of the limit.
        batches: By side, how the corpus was cut.
    """

    size: str
    setting: str
    sentences: int
    tokens: int
    seconds: dict[str, list[float]]
    differences: dict[str, float] = field(default_factory=dict)
    cosines: dict[str, float] = field(default_factory=dict)
    shapes: list[dict[str, Any]] = field(default_factory=list)
    batches: dict[str, str] = field(default_factory=dict)


class Contest:
    """The workers of one size, and the files they read."""

    def __init__(self, size: str, options: argparse.Namespace, folder: Path, stack: contextlib.ExitStack):
        self.size, self.repeats, self.folder = size, options.repeats, folder
        write_model(folder, size, [*options.sentences, *options.corpus])
        self.workers = {name: stack.enter_context(SIDES[name].start()) for name in options.sides}
        self.loaded = {}
        for name, worker in self.workers.items():
            worker.ask("imports")
            self.loaded[name] = worker.ask("load", folder=str(folder))
        self.limit = None
        if "fp32" in self.workers:
            self.limit = stack.enter_context(Worker(LIMIT, sys.executable, "benchmarks.limit"))
            self.limit.ask("load", folder=str(folder))

    def batch(self, sentences: Sequence[list[str]], size: int) -> Result:
        """All sides on the same batches."""
        sentences = sentences[: max(size, FEWEST_SENTENCES[self.size])]
        files = write_batches(self.folder, f"batch-{size}", in_batches(sentences, size))
        result = self._result(str(size), sentences)
        self._compare(result, dict.fromkeys(self.workers, files))
        turns = {name: (worker, files) for name, worker in self.workers.items()}
        if self.limit is not None:
            result.shapes = self.limit.ask("choose", batches=files)["shapes"]
            turns[LIMIT] = self.limit, files
        self._measure(result, turns, self.repeats)
        return result

    def corpus(self, sentences: Sequence[list[str]]) -> Result:
        """Each side with the batches that suit it best."""
        arrival = write_batches(self.folder, "arrival", in_batches(sentences, ARRIVAL_BATCH))
        cuts = {
            f"sorted, {ARRIVAL_BATCH} sentences": in_batches(sorted(sentences, key=len), ARRIVAL_BATCH),
            f"sorted, {TOKENS_A_BATCH:,} tokens": by_tokens(sentences, TOKENS_A_BATCH),
        }
        files = {name: write_batches(self.folder, name, cut) for name, cut in cuts.items()}
        result = self._result("corpus", sentences)
        turns = {}
        for name in (name for name in CORPUS_SIDES if name in self.workers):
            worker = self.workers[name]
            worker.ask("measure", batches=arrival[:1])  # a warm-up
            times = {cut: worker.ask("measure", batches=files[cut])["seconds"] for cut in files}
            best = min(times, key=times.__getitem__)
            turns[name], result.batches[name] = (worker, files[best]), best
            result.seconds[name] = [times[best]]
            if name == "allennlp":
                turns[f"{name}-arrival"] = worker, arrival
                result.batches[f"{name}-arrival"] = f"in order of arrival, {ARRIVAL_BATCH} sentences"
        self._measure(result, turns, min(self.repeats, CORPUS_REPEATS))
        return result

    def _result(self, setting: str, sentences: Sequence[list[str]]) -> Result:
        return Result(self.size, setting, len(sentences), sum(len(words) + 2 for words in sentences), {})

    def _compare(self, result: Result, files: dict[str, list[str]]):
        """Runs every side once, which also warms it up, and compares its layers with those of fp32."""
        layers = {name: [f"{file}.{name}.npy" for file in files[name]] for name in self.workers}
        for name, worker in self.workers.items():
            worker.ask("layers", batches=files[name], outputs=layers[name])
        for name in [name for name in self.workers if name != "fp32" and "fp32" in self.workers]:
            if SIDES[name].exact:
                result.differences[name] = largest_difference(layers["fp32"], layers[name])
            else:
                result.cosines[name] = smallest_cosine(layers["fp32"], layers[name])
        for file in itertools.chain.from_iterable(layers.values()):
            Path(file).unlink()

    def _measure(self, result: Result, turns: dict[str, tuple[Worker, list[str]]], repeats: int):
        """The repetitions that are still missing; the sides alternate."""
        for repeat in range(repeats):
            for name, (worker, files) in turns.items():
                seconds = result.seconds.setdefault(name, [])
                if len(seconds) <= repeat:
                    seconds.append(worker.ask("measure", batches=files)["seconds"])


def benchmark(options: argparse.Namespace) -> tuple[list[Result], dict[str, Any]]:
    """Runs everything asked for; gives the results, and what each side runs on."""
    results, loaded = [], {}
    settings = len(options.batch) + bool(options.corpus)
    with tqdm(total=len(options.size) * settings, unit="setting") as bar:
        for size in options.size:
            with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
                contest = Contest(size, options, Path(folder), stack)
                loaded = contest.loaded
                for batch in options.batch:
                    results.append(contest.batch(options.sentences, batch))
                    bar.update()
                if options.corpus:
                    results.append(contest.corpus(options.corpus))
                    bar.update()
    return results, loaded


def label(side: str) -> str:
    """In the tables."""
    if side.endswith("-arrival"):
        return f"{SIDES[side.removesuffix('-arrival')].label}, as it arrives"
    return SIDES[side].label if side in SIDES else side


def speed_table(results: Sequence[Result]) -> str:
    """Tokens per second."""
    sides = list(dict.fromkeys(side for result in results for side in result.seconds if side != LIMIT))
    lines = []
    for result in results:
        speeds = {side: [result.tokens / seconds for seconds in result.seconds.get(side, [])] for side in sides}
        lines.append([result.size, result.setting, *(spread(speeds[side]) if speeds[side] else "–" for side in sides)])
    return table(["size", "sentences per batch", *(f"{label(side)}, tokens/s" for side in sides)], lines)


def ratio_table(results: Sequence[Result]) -> str:
    """How many times as fast as the peers, and how near to the limit."""
    pairs = [
        ("fp32", "allennlp"),
        ("warm", "allennlp-warm"),
        ("fp32", "allennlp-arrival"),
        ("int8", "allennlp-arrival"),
        ("fp32", "tensorflow"),
        ("bf16", "fp32"),
        ("int8", "fp32"),
    ]
    pairs = [pair for pair in pairs if any(set(pair) <= set(result.seconds) for result in results)]
    limits = any(LIMIT in result.seconds for result in results)
    lines = []
    for result in results:
        line = [result.size, result.setting]
        for ours, theirs in pairs:
            both = {ours, theirs} <= set(result.seconds)
            line.append(spread(ratios(result.seconds[ours], result.seconds[theirs]), 2) if both else "–")
        if limits:
            fractions = ratios(result.seconds["fp32"], result.seconds[LIMIT]) if LIMIT in result.seconds else []
            line.append(f"{statistics.median(fractions):.0%}" if fractions else "–")
        differences = result.differences.values()
        line.append(f"{max(differences):.1e}" if differences else "–")
        line.append(", ".join(f"{SIDES[side].label} {cosine:.5f}" for side, cosine in result.cosines.items()) or "–")
        lines.append(line)
    header = ["size", "sentences per batch", *(f"{label(ours)} / {label(theirs)}" for ours, theirs in pairs)]
    header += ["fp32, share of the limit"] if limits else []
    return table([*header, "largest difference from fp32", "smallest cosine with fp32"], lines)


def shape_table(results: Sequence[Result]) -> str:
    """The products of the limit, the most expensive shapes of each setting."""
    lines = []
    for result in results:
        total = sum(shape["count"] * shape["seconds"] for shape in result.shapes)
        costly = sorted(result.shapes, key=lambda shape: shape["count"] * shape["seconds"], reverse=True)[:6]
        for shape in costly:
            rows, inputs, outputs, directions = (shape[key] for key in ("rows", "inputs", "outputs", "directions"))
            flops = 2 * rows * inputs * outputs * directions
            lines.append(
                [
                    result.size,
                    result.setting,
                    f"{directions} x ({rows}, {inputs}) x ({inputs}, {outputs})",
                    str(shape["count"]),
                    shape["kernel"],
                    f"{shape['seconds'] * 1000:.3f}",
                    f"{flops / shape['seconds'] / 1e9:.0f}",
                    f"{shape['count'] * shape['seconds'] / total:.0%}",
                ]
            )
    header = ["size", "sentences per batch", "product", "times", "fastest kernel", "ms", "GFLOP/s", "share"]
    return table(header, lines)


def parse_arguments() -> argparse.Namespace:
    """The command line; `sentences` and `corpus` become lists of words."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inference", description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--batch", nargs="+", type=int, help="sentences per call; default: 1 8 32 64")
    sides = [side for side in SIDES if side != "unpacked"]  # for `benchmarks.memory`
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=sides)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sentences", type=Path, help="a file: one a line, words separated by spaces")
    parser.add_argument("--corpus", action=argparse.BooleanOptionalAction, default=True, help="also measure a corpus")
    add_json_option(parser)
    options = parser.parse_args()
    try:
        options.sentences = read_sentences(options.sentences)
    except (OSError, UnicodeError) as error:
        parser.error(f"--sentences: {error}")
    most = len(options.sentences)
    options.batch = options.batch or [batch for batch in BATCH_SIZES if batch <= most]
    if not options.batch or not 1 <= min(options.batch) <= max(options.batch) <= most:
        parser.error(f"--batch must be from 1 to {most}, the number of distinct sentences")
    if options.repeats < 1:
        parser.error("--repeats must be 1 or more")
    options.corpus, options.source = read_corpus(CORPUS_SENTENCES) if options.corpus else ([], None)
    return options


def main() -> str | None:
    """Runs and prints; gives what went wrong, if anything did."""
    options = parse_arguments()
    try:
        results, loaded = benchmark(options)
    except PeerError as error:
        return f"{error} (`--sides fp32` measures without the peers.)"

    print(speed_table(results), end="\n\n")
    print(ratio_table(results), end="\n\n")
    if any(result.shapes for result in results):
        print(shape_table(results), end="\n\n")
    for result in results:
        for side, batches in result.batches.items():
            print(f"Corpus ({options.source}), {result.size}, {label(side)}: {batches} per batch.")
    print(f"{options.repeats} repetitions, the sides alternating: median (smallest–largest). {describe(machine())}")
    for side, facts in loaded.items():
        print(f"{label(side)}: {', '.join(f'{name} {fact}' for name, fact in facts.items() if name != 'seconds')}.")
    write_results(options.json, "inference", [asdict(result) for result in results], sides=loaded)
    if any(difference >= TOLERANCE for result in results for difference in result.differences.values()):
        return f"The sides do not agree to {TOLERANCE}."
    return None


if __name__ == "__main__":
    sys.exit(main())
