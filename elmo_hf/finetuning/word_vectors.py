"""Static word vectors for a head, from GloVe or word2vec text files: of the words of a task, and the frequent ones."""

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..errors import TextError
from ..tokenization_elmo import ElmoTokenizer
from .records import numbered_lines


class WordVectors(NamedTuple):
    """
    Args:
        tokenizer: Knows the words; `input_ids` are their rows.
        vectors: `(words, size)`, fp32; `nan` for a word that has none and should start at random.
    """

    tokenizer: ElmoTokenizer
    vectors: np.ndarray


def read_vectors(path: str, wanted: set[str], max_words: int) -> dict[str, np.ndarray]:
    """
    The vectors of a text file, a word and its numbers a line; word2vec's first line, which counts them, is left out.

    Args:
        path: Plain or compressed.
        wanted: Words to take wherever they are in the file.
        max_words: How many to take from its beginning anyway, where the frequent ones are.
    """
    found: dict[str, np.ndarray] = {}
    size = None
    for number, line in numbered_lines(path):
        word, _, numbers = line.rstrip().partition(" ")
        if not numbers or (number == 1 and numbers.isdigit()):
            if line.strip() and number > 1:
                raise TextError(f"{path}, line {number}: a word and its numbers should be here, found {line!r:.60}.")
            continue
        if number > max_words and word not in wanted:
            continue
        try:
            vector = np.array(numbers.split(" "), dtype=np.float32)
        except ValueError as error:
            raise TextError(f"{path}, line {number}: {error}.") from error
        if size is not None and len(vector) != size:
            raise TextError(f"{path}, line {number}: {len(vector)} numbers, and {size} in the lines before.")
        size = len(vector)
        found.setdefault(word, vector)
    if not found:
        raise TextError(f"{path} holds no word vectors: a word and its numbers a line.")
    return found


def vectors_from_file(
    path: str, tokenizer: ElmoTokenizer, task_words: Iterable[str], max_words: int = 50_000
) -> WordVectors:
    """
    The words of a task and of a file of vectors, and their vectors.

    A word is looked up as it is written, then in lower case. The words of the file also stand for themselves with a
    capital letter in front, unless the file has that form too. Words of the task that the file does not know start at
    random.

    Args:
        path: Of the file.
        tokenizer: Of the biLM; the new one cuts text as it does.
        task_words: Of the training data, in any order.
        max_words: How many words to take from the file beside those of the task.
    """
    task = list(dict.fromkeys(task_words))
    found = read_vectors(path, {form for word in task for form in (word, word.lower())}, max_words)
    capitals = {word[:1].upper() + word[1:]: word for word in found if word[:1].islower()}
    specials = [tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token]
    words = list(dict.fromkeys(chain(specials, task, found, capitals)))
    size = len(next(iter(found.values())))
    vectors = np.full((len(words), size), np.nan, dtype=np.float32)
    for row, word in enumerate(words):
        for form in (word, word.lower(), capitals.get(word, "")):
            if form in found and row >= len(specials):
                vectors[row] = found[form]
                break
    return WordVectors(_tokenizer_of(tokenizer, words), vectors)


def learned_vectors(tokenizer: ElmoTokenizer, task_words: Iterable[str], size: int) -> WordVectors:
    """The words of a task, with vectors that all start at random."""
    specials = [tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token]
    words = list(dict.fromkeys([*specials, *task_words]))
    return WordVectors(_tokenizer_of(tokenizer, words), np.full((len(words), size), np.nan, dtype=np.float32))


def _tokenizer_of(tokenizer: ElmoTokenizer, words: list[str]) -> ElmoTokenizer:
    return tokenizer.with_vocabulary([word for word in words if word != tokenizer.pad_token])


__all__ = ["WordVectors", "learned_vectors", "read_vectors", "vectors_from_file"]
