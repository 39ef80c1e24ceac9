"""
How fast does text become tensors? Words per second of `ElmoTokenizer` on one core, from sentences to padded PyTorch
tensors: raw text (as a person types it) and given words, with a vocabulary and without one (every word unknown).

    python -m benchmarks.tokenizer              # words per second
    python -m benchmarks.tokenizer --profile    # and where the time goes
    python -m benchmarks.tokenizer --no-peer    # without AllenNLP's, which is installed into .venv-peers

Beside it `batch_to_ids` of AllenNLP, which makes character ids of given words and nothing else; repetitions alternate.

The sentences are the first of `corpora/english/heldout.txt.xz`, the vocabulary is the `vocab.txt` beside it, under
`$ELMO_HF_SHARED` or `../shared`; where they are missing, the text of `benchmarks.texts` and its words. Words are
counted as the tokenizer cuts them, boundaries and padding left out. The time is the processor's, not the wall's, which
would also measure what else the machine is doing.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers
from tqdm import tqdm

from benchmarks.peers import PeerError, Worker
from benchmarks.report import add_json_option, describe, machine, spread, table, write_results
from benchmarks.sides import ALLENNLP
from benchmarks.texts import ENGLISH, read_corpus
from elmo_hf import ElmoTokenizer
from elmo_hf.modeling import tokenization_elmo
from elmo_hf.modeling.encoding_elmo import EncodedBatch
from tests.ordinary_text import ordinary_text

BATCH_SIZES = [1, 64, 1000]
# Part of the time → the methods and functions that take it.
PARTS = {
    "Rust": [(tokenization_elmo, "encode_in_rust")],
    "reading the encodings": [(EncodedBatch, name) for name in ("__init__", "__getitem__", "source_words")],
    "character rows": [(ElmoTokenizer, "_ids_and_rows")],
    "tensors": [(EncodedBatch, "by_encoding")],
}
REST = "the rest"


@dataclass
class Setting:
    """One line of the tables: a tokenizer and what it is given."""

    vocabulary: str
    input: str
    batch: int
    tokenizer: ElmoTokenizer
    sentences: list[str] | list[list[str]]

    def run(self) -> int:
        """Tokenises the sentences; gives the number of words."""
        words, is_split_into_words = 0, self.input == "words"
        for start in range(0, len(self.sentences), self.batch):
            sentences = self.sentences[start : start + self.batch]
            batch = self.tokenizer(
                sentences, is_split_into_words=is_split_into_words, padding=True, return_tensors="pt"
            )
            words += int(batch["attention_mask"].sum()) - 2 * len(sentences)
        return words


class Stopwatch:
    """Sums the time by parts, a part within another one counted for itself only."""

    def __init__(self):
        self.seconds: Counter[str] = Counter()
        self._within = [0.0]

    def timed(self, part: str, function: Callable) -> Callable:
        def wrapper(*args, **kwargs):
            self._within.append(0.0)
            begin = time.process_time()
            result = function(*args, **kwargs)
            elapsed = time.process_time() - begin
            self.seconds[part] += elapsed - self._within.pop()
            self._within[-1] += elapsed
            return result

        return wrapper

    @contextmanager
    def watching(self, parts: dict[str, list[tuple[Any, str]]]) -> Iterator[None]:
        with ExitStack() as stack:
            for part, methods in parts.items():
                for owner, name in methods:
                    method = owner.__dict__[name]
                    timed = self.timed(part, getattr(owner, name))
                    timed = staticmethod(timed) if isinstance(method, staticmethod) else timed
                    stack.enter_context(mock.patch.object(owner, name, timed))
            yield


def speed(setting: Setting) -> float:
    """Words per second."""
    begin = time.process_time()
    words = setting.run()
    return words / (time.process_time() - begin)


def nanoseconds_by_part(setting: Setting) -> dict[str, float]:
    """Time per word of each part and of the rest."""
    setting.run()
    watch = Stopwatch()
    with watch.watching(PARTS):
        words = watch.timed(REST, setting.run)()
    return {part: watch.seconds[part] / words * 1e9 for part in (*PARTS, REST)}


def read_vocabulary(sentences: list[list[str]]) -> list[str]:
    """Beside the text, or its own words."""
    specials, file = ["<S>", "</S>", "<UNK>"], ENGLISH / "vocab.txt"
    candidates = (
        file.read_text("utf-8").split("\n") if file.exists() else [word for words in sentences for word in words]
    )
    return [*specials, *(word for word in dict.fromkeys(candidates) if word not in ("", *specials))]


def measure(
    settings: list[Setting], batches: list[int], peer: Worker | None, repeats: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Words per second of our settings and of the peer by batch size, one number per repetition."""
    ours = [{"vocabulary": s.vocabulary, "input": s.input, "batch": s.batch, "words/s": []} for s in settings]
    theirs = [{"batch": batch, "words/s": []} for batch in batches] if peer is not None else []
    for repeat in tqdm(range(-1, repeats), unit="repetition"):  # the first is a warm-up
        speeds = [speed(setting) for setting in settings]
        speeds += [peer.ask("measure", batch=record["batch"])["words/s"] for record in theirs]
        if repeat >= 0:
            for record, value in zip([*ours, *theirs], speeds, strict=True):
                record["words/s"].append(value)
    return ours, theirs


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokenizer", description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", nargs="+", type=int, default=BATCH_SIZES, help="sentences a call")
    parser.add_argument("--sentences", type=int, default=4000, help="how many")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="also show where the time goes")
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True, help="AllenNLP's beside it")
    add_json_option(parser)
    options = parser.parse_args()
    if min(*options.batch, options.sentences, options.repeats) < 1:
        parser.error("every number must be 1 or more")
    return options


def main() -> str | None:
    """Measures and prints; gives what went wrong, if anything did."""
    options = parse_arguments()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    word_lists, source = read_corpus(options.sentences)
    sentences = [ordinary_text(words)[0] for words in word_lists]
    vocabulary = read_vocabulary(word_lists)
    tokenizers = {f"{len(vocabulary):,} words": ElmoTokenizer(vocab=vocabulary), "none": ElmoTokenizer()}
    settings = [
        Setting(name, kind, batch, tokenizer, texts)
        for name, tokenizer in tokenizers.items()
        for kind, texts in (("raw text", sentences), ("words", word_lists))
        for batch in options.batch
    ]
    try:
        with contextlib.ExitStack() as stack:
            peer = None
            if options.peer:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                file = Path(folder) / "sentences.json"
                file.write_text(json.dumps(word_lists), encoding="utf-8")
                arguments = ALLENNLP.interpreter(), "benchmarks.tokenizer_worker", str(file)
                peer = stack.enter_context(Worker("AllenNLP", *arguments))
            ours, theirs = measure(settings, options.batch, peer, options.repeats)
    except PeerError as error:
        return f"{error} (`--no-peer` measures without it.)"

    header = ["vocabulary", "input", "sentences a call"]
    lines = [[r["vocabulary"], r["input"], f"{r['batch']:,}", spread(r["words/s"])] for r in ours]
    lines += [["AllenNLP", "words", f"{r['batch']:,}", spread(r["words/s"])] for r in theirs]
    print(table([*header, "words/s"], lines), end="\n\n")
    if options.profile:
        parts = []
        for setting in settings:
            shares = nanoseconds_by_part(setting)
            total = sum(shares.values())
            name = [setting.vocabulary, setting.input, f"{setting.batch:,}"]
            parts.append([*name, *(f"{share:,.0f} ({share / total:.0%})" for share in shares.values())])
        print(table([*header, *(f"{part}, ns/word" for part in (*PARTS, REST))], parts), end="\n\n")
    print(f"{len(sentences):,} sentences, {sum(map(len, word_lists)):,} words: {source}.")
    print(f"{options.repeats} repetitions on one core: median (smallest–largest). {describe(machine())}")
    print(f"transformers {transformers.__version__}.")
    write_results(options.json, "tokenizer", {"ours": ours, "allennlp": theirs})
    return None


if __name__ == "__main__":
    sys.exit(main())
