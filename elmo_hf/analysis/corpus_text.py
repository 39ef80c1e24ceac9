"""Reads the sentences of text files for the analyses: all of them, or a random sample."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tqdm import tqdm

from ..corpus.readers import ReadingOptions, open_corpus
from ..data.sentences import Sentence
from ..errors import TextError

Item = TypeVar("Item")


def read_sentences(
    inputs: Sequence[str], *, pretokenized: bool = False, most: int | None = None, seed: int = 0, has_bar: bool = False
) -> list[Sentence]:
    """
    The sentences of files, without blank ones.

    Args:
        inputs: Files as for `elmo-hf embed`: text with one sentence per line, CoNLL, JSON lines and others.
        pretokenized: Whether words are separated by blanks. Otherwise the tokenizer splits the text later.
        most: The number of sentences to choose at random; they stay in order. Default: all.
        seed: The seed of the choice.
        has_bar: Whether to show a progress bar, if standard error is a terminal.
    """
    if most is not None and most < 1:
        raise ValueError(f"The number of sentences must be 1 or more, found {most}.")
    sources = open_corpus(list(inputs), ReadingOptions(pretokenized=pretokenized))
    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)

    def sentences() -> Iterator[Sentence]:
        with tqdm(total=total, desc="reading", unit="B", unit_scale=True, disable=None if has_bar else True) as bar:
            for source in sources:
                for record in source.read(bar.update):
                    if isinstance(record, TextError):
                        raise record
                    sentence = record.text if record.words is None else record.words
                    if sentence and (not isinstance(sentence, str) or not sentence.isspace()):
                        yield sentence

    chosen = list(sentences()) if most is None else choose(sentences(), most, seed)
    if not chosen:
        raise TextError(f"There is not a single sentence in {', '.join(inputs)}.")
    return chosen


def choose(items: Iterable[Item], most: int, seed: int = 0) -> list[Item]:
    """At most `most` items of a stream, chosen with equal probability, in their order."""
    generator = random.Random(seed)
    chosen: list[tuple[int, Item]] = []
    for index, item in enumerate(items):
        if len(chosen) < most:
            chosen.append((index, item))
        elif (place := generator.randrange(index + 1)) < most:
            chosen[place] = (index, item)
    return [item for _, item in sorted(chosen, key=lambda pair: pair[0])]


__all__ = ["choose", "read_sentences"]
