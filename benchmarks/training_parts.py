"""
`python -m benchmarks.pretraining --parts`: what a training step spends its time on, from text to updated weights. The
share of each part: data, character encoder, recurrence, softmax, optimiser.

The parts are those of one and the same step: the graph is cut between them, and each part's way there and back is timed
where it happens. Medians over the steps; the sizes alternate.
"""

import argparse
import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.report import processor, table
from benchmarks.training_sizes import SIZES, Size, streams_of_text
from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoStates
from elmo_hf.modeling.lstm_elmo import ElmoPacking
from elmo_hf.pretraining import PretrainingSettings
from elmo_hf.pretraining.compilation import compiled_kernels
from elmo_hf.pretraining.sparse_gradients import clip_sparse_grad_norm_, use_sparse_gradients
from elmo_hf.pretraining.streams import Window

PARTS = ["data", "character encoder", "recurrence", "softmax", "optimiser"]


class TimedSteps:
    """
    Training steps of one size, part by part.

    Attributes:
        seconds (`dict[str, list[float]]`): For every part, its time in each step.
        words (`list[int]`): Predicted per direction, in each step.
    """

    def __init__(self, size: Size, precision: str):
        torch.manual_seed(0)
        self.model = ElmoForPreTraining(ElmoConfig(**size.config())).train()
        settings = PretrainingSettings.recipe(size.recipe)
        if settings.optimizer == "adagrad":
            use_sparse_gradients(self.model)
        self.optimizer = settings.build_optimizer(self.model)
        self.streams = streams_of_text(size)
        self.precision = precision
        self.states: ElmoStates | None = None
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.words: list[int] = []

    def step(self):
        """One step."""
        for part in PARTS:
            self.seconds[part].append(0.0)
        with self._timed("data"):
            window = self.streams.take()
            assert window is not None
        self._there_and_back(window)
        with self._timed("optimiser"):
            clip_sparse_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.words.append(window.targets)

    def _there_and_back(self, window: Window):
        """What `ElmoForPreTraining` and `backward` do, with cuts between the parts."""
        model, elmo, inputs = self.model, self.model.elmo, window.model_inputs()
        mask = (inputs["char_ids"] > 0).any(dim=-1)
        cast: Any = torch.autocast("cpu", torch.bfloat16) if self.precision == "bf16" else contextlib.nullcontext()
        with cast, self._timed("character encoder"):
            rows = [(None, inputs["char_ids"]), (None, inputs["backward_char_ids"])]
            tokens = torch.cat(elmo._encode_rows(rows, mask), dim=-1)  # (batch, words, hidden_size)
            cut_tokens = tokens.detach().float().requires_grad_()
        with cast, self._timed("recurrence"):
            packing = ElmoPacking.of(mask, None, [0, 0])
            states = elmo._initial_states(self.states, mask, 2)
            resets = elmo._packed_resets(inputs["state_resets"], packing, [0, 0])
            layers, last_states = elmo._run_layers(cut_tokens, packing, states, [0, 1], resets)
            states = packing.unpack_states(last_states, states)
            cut_top = layers[-1].detach().requires_grad_()
        with cast, self._timed("softmax"):
            tops = model.dropout(cut_top).chunk(2, dim=-1)
            labels = inputs["labels"], inputs["backward_labels"]
            losses = [
                model._loss(top, targets, mask, "labels", None) for top, targets in zip(tops, labels, strict=True)
            ]
        with self._timed("softmax"):
            (sum(losses) / 2).backward()
        with self._timed("recurrence"):
            layers[-1].backward(cut_top.grad)
            self.states = ElmoStates(*(state.detach() for state in states))
        with self._timed("character encoder"):
            tokens.backward(cut_tokens.grad.to(tokens.dtype))

    @contextmanager
    def _timed(self, part: str) -> Generator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part][-1] += time.perf_counter() - start

    def line(self, skipped: int) -> list[str]:
        """A line of the table, without the first steps."""
        whole = [sum(step) for step in zip(*self.seconds.values(), strict=True)][skipped:]
        speed = statistics.median(words / seconds for words, seconds in zip(self.words[skipped:], whole, strict=True))
        shares = [sum(self.seconds[part][skipped:]) / sum(whole) for part in PARTS]
        return [f"{speed:,.0f}", f"{statistics.median(whole) * 1000:,.0f}", *(f"{share:.1%}" for share in shares)]


def print_parts(options: argparse.Namespace):
    """Measures and prints."""
    sides = {size: TimedSteps(SIZES[size], options.precision) for size in options.size}
    with compiled_kernels(options.compile):
        for _ in tqdm(range(options.steps), desc="steps"):
            for side in sides.values():
                side.step()
    print(f"\n{processor()}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}, {options.precision}")
    print(f"{'compiled, ' if options.compile else ''}{options.steps - options.skip} steps each\n")
    header = ["size", "parameters", "words/s", "ms/step", *PARTS]
    lines = [
        [size, f"{side.model.num_parameters() / 1e6:.1f} M", *side.line(options.skip)] for size, side in sides.items()
    ]
    print(table(header, lines))
