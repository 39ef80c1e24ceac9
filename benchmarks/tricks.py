"""
What each trick of the engine buys: the same work with the trick on and off, alternating in one process, or in
processes of their own where the trick changes the process.

    python -m benchmarks.tricks --json benchmarks/results/tricks.json

`docs/decisions/` has one page per trick. Speed is measured for all of them, peak memory for those that save memory, and
page faults for those that avoid them.
"""

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch

from benchmarks.engine import SIZES, sentences
from benchmarks.peers import peak_memory
from benchmarks.report import processor
from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.modeling import (
    lstm_autograd_elmo,
    lstm_cpu_elmo,
    lstm_elmo,
    products_elmo,
    softmax_elmo,
    token_encoder_elmo,
)
from elmo_hf.modeling.softmax_elmo import ElmoAdaptiveSoftmax

ROUNDS = 5
VOCAB_SIZE = 80_000
SECONDS = 1.0  # per measurement


# The model that is measured, and the work.
Work = tuple[torch.nn.Module, Callable[[], object]]


def inference(size: str, batch: int) -> Work:
    """A forward pass over `batch` sentences."""
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**SIZES[size])).eval()
    inputs = ElmoTokenizer()(sentences(batch), is_split_into_words=True, padding=True, return_tensors="pt")

    def call():
        with torch.inference_mode():
            return model(char_ids=inputs["char_ids"])

    return model, call


def cached_inference(size: str, batch: int) -> Work:
    """The same with a cache of words, which has them after the first call."""
    model, call = inference(size, batch)
    model.cache_words()
    return model, call


def training(size: str, batch: int) -> Work:
    """Forward and backward over windows of 20 words of `batch` streams."""
    torch.manual_seed(0)
    model = ElmoForPreTraining(ElmoConfig(vocab_size=100, softmax_type="full", **SIZES[size])).train()
    texts = [(sentence * 20)[:20] for sentence in sentences(batch)]
    chars = ElmoTokenizer()(texts, is_split_into_words=True, add_special_tokens=False, return_tensors="pt")["char_ids"]
    labels = torch.full(chars.shape[:2], 5)

    def call():
        model(char_ids=chars, backward_char_ids=chars, labels=labels, backward_labels=labels).loss.backward()
        model.zero_grad()

    return model, call


def softmax(size: str, predictions: int) -> Work:
    """Loss and gradients of an adaptive softmax, the default of pretraining, over 80,000 words."""
    torch.manual_seed(0)
    layer = ElmoAdaptiveSoftmax(ElmoConfig(vocab_size=VOCAB_SIZE, softmax_type="adaptive", **SIZES[size])).train()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    hidden = torch.randn(predictions, layer.head.in_features, requires_grad=True)
    labels = (torch.rand(predictions) * math.log(VOCAB_SIZE)).exp().long()  # as frequent as words are

    def call():
        layer(hidden, labels).backward()
        layer.zero_grad()
        hidden.grad = None

    return layer, call


class Trick(NamedTuple):
    """
    Attributes:
        name: Of the page in `docs/decisions/`.
        without: A context in which the trick is off.
        cases: What it is measured on: a size, and a number for `work`.
        work: Builds the model and what is measured, from size and number.
        memory_case: Where it saves memory: what peak memory is measured on, each side in a process of its own.
        own_processes: Whether the trick changes the process: each side is then measured in processes of its own, and
            page faults are counted.
    """

    name: str
    without: Callable[[torch.nn.Module], AbstractContextManager]
    cases: list[tuple[str, int]]
    work: Callable[[str, int], Work] = inference
    memory_case: tuple[str, int] | None = None
    own_processes: bool = False


@contextmanager
def unpacked(model) -> Iterator[None]:
    """Weights in PyTorch's own layout."""
    model.pack_weights(False)
    yield
    model.pack_weights(True)


def repeated_words(model) -> AbstractContextManager:
    """Every occurrence of a word goes through the character encoder."""

    def all_rows(rows):
        return rows, torch.arange(len(rows))

    return mock.patch.object(token_encoder_elmo, "distinct_rows", all_rows)


def computed_words(model) -> AbstractContextManager:
    """No cache of words."""
    return mock.patch.object(model.token_encoder, "word_cache", None)


def whole_loss(model) -> AbstractContextManager:
    """All logits at once, differentiated by autograd."""
    return mock.patch.object(softmax_elmo, "_rows_per_chunk", return_value=2**40)


def packed_few(model) -> AbstractContextManager:
    """Packed weights for one and two sequences of small layers too."""
    return mock.patch.object(lstm_elmo, "FEW_SEQUENCES", 0)


def same_page_offset(model) -> AbstractContextManager:
    """Gates that begin at the same place of a page as the recurrent weight."""

    def memory(weights, sequences):
        values = sequences * weights.bias.numel()
        memory = weights.recurrent.new_empty(values + 1024)
        distance = (weights.recurrent.data_ptr() - memory.data_ptr()) % 4096
        return memory[distance // 4 :][:values]

    return mock.patch.object(lstm_cpu_elmo, "_gate_memory", memory)


def returned_memory(model) -> AbstractContextManager:
    """glibc returns freed memory to the system, as it does by default."""
    return mock.patch.object(products_elmo, "retain_freed_memory", return_value=None)


def direct_tanh(model) -> AbstractContextManager:
    """tanh by torch.tanh."""

    def update(gates, cell, clip):
        input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)
        torch.add(forget_gate.sigmoid_() * cell, input_gate.sigmoid_() * candidate.tanh_(), out=cell)
        if clip is not None:
            cell.clamp_(-clip, clip)
        return output_gate.sigmoid_() * torch.tanh(cell)

    return mock.patch.object(lstm_cpu_elmo, "_update_cell", update)


def autograd_only(model) -> AbstractContextManager:
    """The plain loop, differentiated by autograd."""
    return mock.patch.object(lstm_elmo, "lstm_autograd", lstm_elmo.lstm)


def no_onednn_training(model) -> AbstractContextManager:
    """PyTorch's products in training of large layers."""
    return mock.patch.object(lstm_autograd_elmo, "MIN_ONEDNN_SIZE", 10**12)


def conv_autograd(model) -> AbstractContextManager:
    """The largest responses of the character filters, differentiated by autograd."""

    def largest(chars, weight):
        return token_encoder_elmo._responses(token_encoder_elmo._windows(chars, weight), weight).amax(dim=1)

    return mock.patch.object(token_encoder_elmo._LargestResponses, "apply", staticmethod(largest))


TRICKS = [
    Trick("packed-weights", unpacked, [("full", 1), ("full", 8), ("full", 32), ("compact", 8), ("compact", 32)]),
    Trick("distinct-words", repeated_words, [("compact", 32), ("full", 32)]),
    Trick("word-cache", computed_words, [("compact", 1), ("compact", 32), ("full", 32)], cached_inference),
    Trick("few-sequences", packed_few, [("compact", 1), ("small", 1)]),
    Trick("page-offset", same_page_offset, [("compact", 1), ("small", 1)]),
    Trick("retained-memory", returned_memory, [("compact", 8), ("compact", 32), ("small", 8)], own_processes=True),
    Trick("tanh-by-sigmoid", direct_tanh, [("compact", 8), ("compact", 32), ("full", 32)]),
    Trick("gradient-by-hand", autograd_only, [("compact", 128), ("full", 32)], training),
    Trick("largest-responses", conv_autograd, [("compact", 128)], training, memory_case=("full", 64)),
    Trick("onednn-training", no_onednn_training, [("full", 32)], training),
    Trick("chunked-loss", whole_loss, [("compact", 2560), ("compact", 5120)], softmax, memory_case=("compact", 5120)),
]


def seconds_per_call(call: Callable[[], object]) -> float:
    """The median over a second or three calls."""
    times, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(trick: Trick, size: str, batch: int) -> float:
    """How many times as fast the work is with the trick."""
    times: dict[bool, list[float]] = {True: [], False: []}
    if trick.own_processes:
        for _ in range(ROUNDS):
            for enabled in (True, False):
                times[enabled].append(in_own_process(trick, size, batch, enabled)["seconds"])
        return statistics.median(times[False]) / statistics.median(times[True])
    model, call = trick.work(size, batch)
    for round_index in range(ROUNDS + 1):
        for enabled in (True, False):
            with nullcontext() if enabled else trick.without(model):
                call()
                if round_index:
                    times[enabled].append(seconds_per_call(call))
    return statistics.median(times[False]) / statistics.median(times[True])


def in_own_process(trick: Trick, size: str, batch: int, enabled: bool) -> dict[str, float]:
    """
    The work with or without a trick in a process of its own: `megabytes`, the peak of two calls, and, if the trick
    wants processes of its own, `seconds` and page `faults` per call after these.
    """
    arguments = [trick.name, size, str(batch), "with" if enabled else "without"]
    command = [sys.executable, "-m", "benchmarks.tricks", "--side", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_side(name: str, size: str, batch: str, side: str):
    """What [`in_own_process`] runs."""
    trick = next(trick for trick in TRICKS if trick.name == name)
    model, call = trick.work(size, int(batch))
    result: dict[str, float] = {}
    with nullcontext() if side == "with" else trick.without(model):
        call()
        call()
        result |= peak_memory()
        if trick.own_processes:
            result |= {"faults": faults_per_call(call), "seconds": seconds_per_call(call)}
    print(json.dumps(result))


def faults_per_call(call: Callable[[], object], calls: int = 5) -> int:
    """The number of page faults per call."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(calls):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // calls


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tricks", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", help="A part of the names to measure.")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        return print_side(*options.side)
    results: dict[str, dict[str, float]] = {}
    memory: dict[str, dict[str, list[float]]] = {}
    faults: dict[str, dict[str, list[float]]] = {}
    for trick in TRICKS:
        if options.only and options.only not in trick.name:
            continue
        for size, batch in trick.cases:
            ratio = measure(trick, size, batch)
            results.setdefault(trick.name, {})[f"{size} {batch}"] = round(ratio, 2)
            if trick.own_processes:
                counts = [in_own_process(trick, size, batch, enabled)["faults"] for enabled in (True, False)]
                faults.setdefault(trick.name, {})[f"{size} {batch}"] = counts
                print(f"{trick.name:<20}{size} {batch}: {counts[0]:,} page faults per call, {counts[1]:,} without")
            print(f"{trick.name:<20}{trick.work.__name__:<18}{size} {batch:<6}{ratio:.2f}x", flush=True)
        if trick.memory_case:
            size, batch = trick.memory_case
            peaks = [in_own_process(trick, size, batch, enabled)["megabytes"] for enabled in (True, False)]
            memory[trick.name] = {f"{size} {batch}": peaks}
            print(f"{trick.name:<20}{size} {batch}: {peaks[0]:,} MB with it, {peaks[1]:,} MB without", flush=True)
    if options.json:
        record: dict[str, object] = {"processor": processor(), "threads": torch.get_num_threads()}
        if options.only and options.json.exists():  # the other tricks keep their results
            before = json.loads(options.json.read_text())
            results, memory = before["speed_with_trick"] | results, before.get("peak_memory", {}) | memory
            faults = before.get("page_faults", {}) | faults
        record |= {"speed_with_trick": results, "peak_memory": memory, "page_faults": faults}
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
