"""
How fast is a training step, and what is the time spent on? Words per second (each read in both directions) of a whole
step, from text to updated weights, and the share of each part: data, character encoder, recurrence, softmax, optimiser.

    python -m benchmarks.pretraining                    # the small original and the compact size, fp32
    python -m benchmarks.pretraining --compile          # with what is no matrix product compiled
    python -m benchmarks.pretraining --precision bf16   # where the processor has fast bf16 products

The small original: 2 layers of 1024 cells projected to 128, 2,048 filters, 8,192 sampled words of 100,000. The compact
size is that of the model that comes with the package: 2 layers of 768 cells projected to 256, 512 filters, an adaptive
softmax over 80,000 words. Both read 128 streams in windows of 20 words. The text is the English corpus under
`$ELMO_HF_SHARED` or `../shared`.

The parts are those of one and the same step: the graph is cut between them, and each part's way there and back is timed
where it happens. Medians over the steps; the sizes take turns.
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

from benchmarks.inference import processor
from benchmarks.tokenizer import ENGLISH, table
from elmo_hf import ElmoForPreTraining, ElmoStates, ElmoTokenizer
from elmo_hf.pretraining import Corpus, PretrainingSettings, SentenceEncoder, build_config
from elmo_hf.pretraining.compilation import compiled_kernels
from elmo_hf.pretraining.streams import Reader, Streams, Window
from elmo_hf.recurrence_elmo import ElmoPacking
from elmo_hf.vocabulary_elmo import read_vocabulary

PARTS = ["data", "character encoder", "recurrence", "softmax", "optimiser"]
# Name → recipe, words, streams.
SIZES = {"small": ("original", 100_000, 128), "compact": ("modern", 80_000, 128)}
WINDOW = 20


class TimedSteps:
    """
    Training steps of one size, part by part.

    Attributes:
        seconds (`dict[str, list[float]]`): For every part, its time in each step.
        words (`list[int]`): Predicted per direction, in each step.
    """

    def __init__(self, size: str, precision: str, vocabulary: list[str]):
        recipe, words, streams = SIZES[size]
        torch.manual_seed(0)
        tokenizer = ElmoTokenizer(vocab=vocabulary[:words])
        self.model = ElmoForPreTraining(build_config(size, tokenizer.vocab_size, recipe)).train()
        self.optimizer = PretrainingSettings.recipe(recipe).build_optimizer(self.model)
        reader = Reader(Corpus(str(ENGLISH / "english-*.txt.xz")), epochs=None, seed=0)
        encode = SentenceEncoder(tokenizer, pretokenized=True)
        self.streams = Streams(reader, encode, streams=streams, window=WINDOW, reset_probability=0.5)
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
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
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
            tokens = model._encode_rows(rows, mask)  # (2, words, output_size)
            cut_tokens = tokens.detach().float().requires_grad_()
        with cast, self._timed("recurrence"):
            packing = ElmoPacking.of(mask, None, [0, 0])
            states = elmo._states(self.states, mask, 2)
            resets = inputs["state_resets"][mask]
            layers, states = elmo._run_layers(cut_tokens, packing, states, [0, 1], resets)
            cut_top = layers[-1].detach().requires_grad_()
        with cast, self._timed("softmax"):
            tops = model.dropout(cut_top).chunk(2, dim=-1)
            labels = inputs["labels"], inputs["backward_labels"]
            losses = [model._loss(top, wanted, mask, "labels", None) for top, wanted in zip(tops, labels, strict=True)]
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


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pretraining", description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true", help="compile what is no matrix product (needs g++)")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--skip", type=int, default=5, help="first steps to leave out")
    options = parser.parse_args()
    if not options.steps > options.skip >= 0:
        parser.error("--steps must be greater than --skip")

    vocabulary = read_vocabulary(ENGLISH / "vocab.txt")
    sides = {size: TimedSteps(size, options.precision, vocabulary) for size in options.size}
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


if __name__ == "__main__":
    main()
