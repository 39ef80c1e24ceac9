"""
How well would counting predict? Forward perplexity of the n-gram models that people trained before neural ones, and
still train when they want a baseline: interpolated modified Kneser-Ney (Chen & Goodman 1998), as KenLM's `lmplz` has
it without pruning.

    python -m benchmarks.kneser_ney                                       # the English corpus, orders 1 to 5
    python -m benchmarks.kneser_ney --vocab-size 60000 --order 3          # the most frequent words only
    python -m benchmarks.kneser_ney --vocab vocab.txt a.txt b.txt.gz --heldout c.txt d.txt

Unless told otherwise, the text is `corpora/english/english-*.txt.xz`, the held-out text `heldout.txt.xz` and the
vocabulary `vocab.txt` in the same folder, under `$ELMO_HF_SHARED` or `../shared`. The n-grams are counted by sorting:
60 million words take 4 GB and a few minutes.
"""

import argparse
import math
import resource
import sys
import time
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.report import table
from benchmarks.texts import ENGLISH
from elmo_hf.modeling.tokenizer_files_elmo import index_words, read_vocabulary
from elmo_hf.pretraining.text import Corpus, split_words

BEGIN, END, UNKNOWN = SPECIALS = ("<S>", "</S>", "<UNK>")
# KenLM's `--discount_fallback`: for counts of 0, 1, 2, and 3 or more.
FALLBACK_DISCOUNTS = np.array([0.0, 0.5, 1.0, 1.5])
PROTOCOL = f"""\
One sentence a line, words separated by blanks. Each sentence starts anew from {BEGIN}, which is context only; {END},
and {UNKNOWN}, which stands for every word outside the vocabulary, are predicted and counted. Probabilities sum to 1
over the vocabulary without {BEGIN}."""


@contextmanager
def stage(name: str) -> Generator[list[str]]:
    """A line of progress on stderr, with the seconds it took and what is put into the list meanwhile."""
    begin, facts = time.perf_counter(), []
    yield facts
    print(f"{name}: {time.perf_counter() - begin:.1f} s", *facts, sep=", ", file=sys.stderr, flush=True)


def encode(sentences: Iterable[str], index: Mapping[str, int]) -> np.ndarray:
    """The word ids of all sentences in one row, each from `<S>` to `</S>`."""
    begin, end, unknown = (index[special] for special in SPECIALS)
    ids = array("i")
    for sentence in sentences:
        words = split_words(sentence)
        if BEGIN in words or END in words:
            raise ValueError(f"The text should be without {BEGIN} and {END}, which are added here: {sentence!r:.120}.")
        ids.append(begin)
        ids.extend([index.get(word, unknown) for word in words])
        ids.append(end)
    return np.array(ids, dtype=np.int32)


def estimate_discounts(counts: np.ndarray) -> np.ndarray:
    """What to take off a count of 0, 1, 2, and 3 or more: equation 26 of Chen and Goodman."""
    n = np.bincount(np.minimum(counts, 5), minlength=6)  # n[i]: how many n-grams have the count i
    if not n[1:4].all():
        return FALLBACK_DISCOUNTS
    i = np.arange(4)
    discounts = i - (i + 1) * n[1] / (n[1] + 2 * n[2]) * n[1:5] / np.maximum(n[:4], 1)
    discounts[0] = 0
    # One of 0 would leave nothing for what was never seen after a context.
    return discounts if ((discounts[1:] > 0) & (discounts[1:] <= i[1:])).all() else FALLBACK_DISCOUNTS


@dataclass
class Level:
    """
    The n-grams of one order.

    Args:
        keys: One an n-gram, sorted: the id of its first n - 1 words times `size`, plus its last word. The place of a
            key is the id of its n-gram.
        counts: In the same order.
        size: Words in the vocabulary.
    """

    keys: np.ndarray
    counts: np.ndarray
    size: int

    def __post_init__(self):
        self.discounts = estimate_discounts(self.counts)

    def find(self, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Ids of the n-grams, -1 where there is none."""
        keys = contexts.astype(np.int64) * self.size + words
        places = np.searchsorted(self.keys, keys)
        return np.where(np.searchsorted(self.keys, keys, side="right") > places, places, -1)

    def interpolate(self, contexts: np.ndarray, words: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """
        The probabilities of words after their contexts.

        Args:
            contexts: Ids of the n - 1 words before; -1 where they were never seen, so that `lower` stays as it is.
            words: What follows them.
            lower: The probabilities of the words by the next lower order.
        """
        seen = contexts >= 0
        contexts, words = contexts[seen].astype(np.int64), words[seen]
        counts = np.append(self.counts, 0)[self.find(contexts, words)]  # the id -1 finds the 0
        first, last = (np.searchsorted(self.keys, (contexts + after) * self.size) for after in (0, 1))

        def per_context(values: np.ndarray) -> np.ndarray:
            sums = np.append(0, np.cumsum(values, dtype=np.int64))
            return sums[last] - sums[first]

        freed = (
            self.discounts[1] * per_context(self.counts == 1)
            + self.discounts[2] * per_context(self.counts == 2)
            + self.discounts[3] * per_context(self.counts >= 3)
        )
        discounted = counts - self.discounts[np.minimum(counts, 3)]
        probabilities = lower.copy()
        probabilities[seen] = (discounted + freed * lower[seen]) / per_context(self.counts)
        return probabilities


def count_ngrams(
    prefixes: np.ndarray, words: np.ndarray, size: int, begin: int
) -> tuple[Level, np.ndarray, np.ndarray]:
    """
    Counts the n-grams of a text.

    Args:
        prefixes: At each position of the text the id of the (n - 1)-gram that ends there, or -1.
        words: The text, as of `encode`.
        size: Words in the vocabulary.
        begin: The id of `<S>`.

    Returns:
        The n-grams with their counts; at each position the id of the n-gram that ends there, or -1; and for each
        n-gram a position where it ends.
    """
    ends = np.flatnonzero((prefixes[:-1] >= 0) & (words[1:] != begin)).astype(np.int32) + 1
    keys = prefixes[ends - 1].astype(np.int64) * size
    keys += words[ends]
    order = np.argsort(keys)
    keys, ends = keys[order], ends[order]
    del order
    is_first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    grams = np.full(len(words), -1, dtype=np.int32)
    grams[ends] = np.cumsum(is_first, dtype=np.int32) - 1
    firsts = np.flatnonzero(is_first)
    counts = np.diff(firsts, append=len(keys)).astype(np.int32)
    return Level(keys[firsts], counts, size), grams, ends[firsts]


def predict(training: np.ndarray, heldout: np.ndarray, size: int, begin: int, order: int) -> Iterator[np.ndarray]:
    """
    Trains on one text and predicts the words of another.

    Args:
        training: A text, as of `encode`.
        heldout: Another one.
        size: Words in the vocabulary.
        begin: The id of `<S>`.
        order: The words of the longest n-grams.

    Yields:
        For each order from 1 on the probability of every held-out word that is not `<S>`.
    """
    is_predicted = heldout != begin
    # The empty n-gram, which all words follow, has the id 0; only one level at a time is in memory.
    grams, known = np.zeros(len(training), dtype=np.int32), np.zeros(len(heldout), dtype=np.int64)
    probabilities = np.full(len(heldout), 1 / (size - 1))
    level, contexts = None, known
    for n in range(1, order + 1):
        with stage(f"counting {n}-grams") as facts:
            next_level, next_grams, ends = count_ngrams(grams, training, size, begin)
            facts.append(f"{len(next_level.keys):,} distinct")
        if level is not None:
            # Below the highest order not an n-gram's occurrences count but the distinct words before it. Before <S>
            # there are none, and n-grams that begin with it keep their count.
            distinct = np.bincount(grams[ends], minlength=len(level.keys))
            level = Level(level.keys, np.where(distinct > 0, distinct, level.counts), size)
            probabilities = level.interpolate(contexts, heldout, probabilities)
            del distinct
        level, grams = next_level, next_grams
        del next_level, next_grams, ends
        with stage(f"predicting with order {n}") as facts:
            contexts = np.where(is_predicted, np.append(-1, known[:-1]), -1)
            predicted = level.interpolate(contexts, heldout, probabilities)[is_predicted]
            facts.append(f"discounts {' '.join(f'{discount:.3f}' for discount in level.discounts[1:])}")
        yield predicted
        known = np.where(contexts >= 0, level.find(contexts, heldout), -1)
        if n == 1:
            # <S> is no unigram, yet a context.
            grams[training == begin] = known[heldout == begin] = len(level.keys)


def perplexity(probabilities: np.ndarray) -> float:
    """Of the words with these probabilities."""
    return math.exp(-np.log(probabilities).mean())


def parse_arguments() -> argparse.Namespace:
    """What to train on, and what to predict."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kneser_ney", description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="TRAIN_FILE", help="text, plain or compressed")
    parser.add_argument("--heldout", nargs="+", type=Path, default=[ENGLISH / "heldout.txt.xz"], metavar="FILE")
    parser.add_argument("--vocab", type=Path, default=ENGLISH / "vocab.txt", help="one word per line, by frequency")
    parser.add_argument("--vocab-size", type=int, help="take only so many lines of the vocabulary")
    parser.add_argument("--order", type=int, default=5, help="words of the longest n-grams")
    options = parser.parse_args()
    if options.order < 1:
        parser.error("--order must be 1 or more")
    options.files = options.files or sorted(ENGLISH.glob("english-*.txt.xz")) or [ENGLISH / "english-000.txt.xz"]
    return options


def read_index(path: Path, size: int | None) -> dict[str, int]:
    """The words of a vocabulary, or its first `size`, with their ids."""
    words = read_vocabulary(path)
    if size is not None and not len(SPECIALS) <= size <= len(words):
        raise ValueError(f"--vocab-size must be from {len(SPECIALS)} to {len(words)}, the lines of {path}, not {size}.")
    return index_words(words[:size], SPECIALS)


def describe(name: str, ids: np.ndarray, index: Mapping[str, int]) -> str:
    """How long a text is, and how much of it the vocabulary has."""
    sentences = np.count_nonzero(ids == index[BEGIN])
    words = len(ids) - 2 * sentences
    unknown = np.count_nonzero(ids == index[UNKNOWN]) / max(words, 1)
    return f"{name}: {sentences:,} sentences, {words:,} words, {unknown:.2%} of them {UNKNOWN}."


def main() -> str | None:
    """Trains, predicts and prints; gives what went wrong, if anything did."""
    options = parse_arguments()
    try:
        index = read_index(options.vocab, options.vocab_size)
        with stage("reading the held-out text"):
            texts = [encode(Corpus(path).sentences(), index) for path in options.heldout]
        with stage("reading the training text"):
            training = encode(Corpus(options.files).sentences(), index)
    except (OSError, ValueError) as error:
        return str(error)

    begin = index[BEGIN]
    borders = np.cumsum([np.count_nonzero(text != begin) for text in texts])[:-1]
    lines = []
    predictions = predict(training, np.concatenate(texts), len(index), begin, options.order)
    for order, probabilities in enumerate(predictions, start=1):
        lines.append([str(order), *(f"{perplexity(part):,.2f}" for part in np.split(probabilities, borders))])

    print(table(["order", *(f"{path.name}, perplexity" for path in options.heldout)], lines), end="\n\n")
    print(f"Vocabulary: {len(index):,} words.")
    print(describe("Training text", training, index))
    for path, text in zip(options.heldout, texts, strict=True):
        print(describe(path.name, text, index))
    print(PROTOCOL)
    # In kB on Linux.
    print(f"Peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB.")
    return None


if __name__ == "__main__":
    sys.exit(main())
