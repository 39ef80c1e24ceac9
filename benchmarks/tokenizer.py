"""
How fast does text become tensors? Words per second of `ElmoTokenizer` on one core, from sentences to padded PyTorch
tensors: raw text (as a person types it) and given words, with a vocabulary and without one (every word unknown).

    python -m benchmarks.tokenizer              # words per second
    python -m benchmarks.tokenizer --profile    # and where the time goes

The sentences are the first of `corpora/english/heldout.txt.xz`, the vocabulary is the `vocab.txt` beside it, under
`$ELMO_HF_SHARED` or `../shared`; where they are missing, the text of `benchmarks.inference` and its words. Words are
counted as the tokenizer cuts them, boundaries and padding left out. The time is the processor's, not the wall's, which
would also measure what else the machine is doing.
"""

import argparse
import itertools
import lzma
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest import mock

import torch
import transformers
from tqdm import tqdm

from benchmarks import SHARED
from benchmarks.inference import SENTENCES, processor
from elmo_hf import ElmoTokenizer
from elmo_hf.encoded_batch_elmo import EncodedBatch
from tests.ordinary_text import ordinary_text

ENGLISH = SHARED / "corpora" / "english"
BATCH_SIZES = [1, 64, 1000]
# Part of the time → the methods that take it.
PARTS = {
    "Rust": [(ElmoTokenizer, "_encode_in_rust")],
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
    def watching(self, parts: dict[str, list[tuple[type, str]]]) -> Iterator[None]:
        with ExitStack() as stack:
            for part, methods in parts.items():
                for owner, name in methods:
                    method = owner.__dict__[name]
                    timed = self.timed(part, getattr(owner, name))
                    timed = staticmethod(timed) if isinstance(method, staticmethod) else timed
                    stack.enter_context(mock.patch.object(owner, name, timed))
            yield


def speeds(setting: Setting, repeats: int) -> list[float]:
    """Words per second, one number a repetition."""
    setting.run()
    results = []
    for _ in range(repeats):
        begin = time.process_time()
        words = setting.run()
        results.append(words / (time.process_time() - begin))
    return results


def nanoseconds_by_part(setting: Setting) -> dict[str, float]:
    """Time per word of each part and of the rest."""
    setting.run()
    watch = Stopwatch()
    with watch.watching(PARTS):
        words = watch.timed(REST, setting.run)()
    return {part: watch.seconds[part] / words * 1e9 for part in (*PARTS, REST)}


def read_texts(count: int) -> tuple[list[str], list[str], str]:
    """Sentences, a vocabulary, and where they are from."""
    specials = ["<S>", "</S>", "<UNK>"]
    heldout, vocabulary = ENGLISH / "heldout.txt.xz", ENGLISH / "vocab.txt"
    if heldout.exists() and vocabulary.exists():
        with lzma.open(heldout, "rt", encoding="utf-8") as file:
            sentences = list(itertools.islice((line.strip() for line in file if line.strip()), count))
        words = [word for word in vocabulary.read_text("utf-8").split("\n") if word not in ("", *specials)]
        return sentences, specials + words, heldout.name
    sentences = [f"{sentence} ." for sentence in " ".join(SENTENCES.split()).split(" . ")]
    words = dict.fromkeys(word for sentence in sentences for word in sentence.split())
    return (
        list(itertools.islice(itertools.cycle(sentences), count)),
        [*specials, *words],
        "benchmarks.inference, repeated",
    )


def table(header: list[str], lines: list[list[str]]) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *lines])


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokenizer", description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", nargs="+", type=int, default=BATCH_SIZES, help="sentences a call")
    parser.add_argument("--sentences", type=int, default=4000, help="how many")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="also show where the time goes")
    options = parser.parse_args()
    if min(*options.batch, options.sentences, options.repeats) < 1:
        parser.error("every number must be 1 or more")

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    sentences, words, source = read_texts(options.sentences)
    given = [sentence.split() for sentence in sentences]
    sentences = [ordinary_text(words_of_sentence)[0] for words_of_sentence in given]
    tokenizers = {f"{len(words):,} words": ElmoTokenizer(vocab=words), "none": ElmoTokenizer()}
    settings = [
        Setting(name, kind, batch, tokenizer, texts)
        for name, tokenizer in tokenizers.items()
        for kind, texts in (("raw text", sentences), ("words", given))
        for batch in options.batch
    ]
    lines, parts = [], []
    for setting in tqdm(settings, unit="setting"):
        name = [setting.vocabulary, setting.input, f"{setting.batch:,}"]
        results = speeds(setting, options.repeats)
        lines.append([*name, f"{statistics.median(results):,.0f}", f"{min(results):,.0f}–{max(results):,.0f}"])
        if options.profile:
            shares = nanoseconds_by_part(setting)
            total = sum(shares.values())
            parts.append([*name, *(f"{share:,.0f} ({share / total:.0%})" for share in shares.values())])

    header = ["vocabulary", "input", "sentences a call"]
    print(table([*header, "words/s", "range"], lines), end="\n\n")
    if options.profile:
        print(table([*header, *(f"{part}, ns/word" for part in (*PARTS, REST))], parts), end="\n\n")
    print(f"{len(sentences):,} sentences, {sum(map(len, given)):,} words: {source}.")
    print(f"Median of {options.repeats} repetitions on one core. {processor()}.")
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}.")


if __name__ == "__main__":
    main()
