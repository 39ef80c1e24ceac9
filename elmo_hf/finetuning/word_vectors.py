"""Static word vectors for a head, from GloVe or word2vec text files: of the words of a task, and the frequent ones."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..data.tables import numbered_lines
from ..errors import TextError
from ..modeling.tokenization_elmo import ElmoTokenizer

NUM_SPECIALS = 3  # <S>, </S>, <UNK>


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
    size, first = None, 0  # numbers of a word, and the line that tells
    for number, line in numbered_lines(path):
        parts = line.rstrip().split(" ")
        if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
            continue
        if not line.strip():
            continue
        if not size:
            size, first = len(parts) - 1, number
        word_parts, numbers = parts[: len(parts) - size], parts[len(parts) - size :]  # some words have blanks inside
        if not word_parts or not numbers or any(_is_number(part) for part in word_parts[1:]):
            expected = f"a word and {size} numbers, as in line {first}," if number > first else "a word and its numbers"
            raise TextError(f"{path}, line {number}: {expected} should be here, found {line!r:.60}.")
        word = " ".join(word_parts)
        if number > max_words and word not in wanted:
            continue
        try:
            found.setdefault(word, np.array(numbers, dtype=np.float32))
        except ValueError as error:
            raise TextError(f"{path}, line {number}: {error}.") from error
    if not found:
        raise TextError(f"{path} holds no word vectors: a word and its numbers a line.")
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def vectors_from_file(
    path: str,
    tokenizer: ElmoTokenizer,
    task_words: Iterable[str],
    max_words: int = 50_000,
    other_words: Iterable[str] = (),
) -> WordVectors:
    """
    The words of a task and of a file of vectors, and their vectors.

    A word is looked up as it is written, then in lower case. The words of the file also stand for themselves with a
    capital letter in front and in capitals, unless the file has these forms too. Words of the training data that the
    file does not know start at random if they occur twice; what occurs once teaches the vector of unknown words.

    Args:
        path: Of the file.
        tokenizer: Of the biLM; the new one cuts text as it does.
        task_words: Of the training data, in any order.
        max_words: How many words to take from the file beside those of the task.
        other_words: Of other data, taken if the file knows them.
    """
    counts = Counter(task_words)
    others = set(other_words)
    found = read_vectors(path, {form for word in counts.keys() | others for form in (word, word.lower())}, max_words)
    in_file = {form: word for word in found for form in (word.upper(), word[:1].upper() + word[1:])}
    in_file |= {word: word.lower() for word in counts.keys() | others if word.lower() in found}
    in_file |= {word: word for word in found}
    words = _vocabulary(tokenizer, chain(_frequent(counts, in_file), in_file))
    vectors = np.full((len(words), len(next(iter(found.values())))), np.nan, dtype=np.float32)
    for row, word in enumerate(words):
        if word in in_file and row >= NUM_SPECIALS:
            vectors[row] = found[in_file[word]]
    return WordVectors(tokenizer.with_vocabulary(words), vectors)


def learned_vectors(tokenizer: ElmoTokenizer, task_words: Iterable[str], size: int) -> WordVectors:
    """
    The words of a task, with vectors that all start at random. Words that occur once are left out: they teach the
    vector of unknown words, which would stay as random as it began.
    """
    words = _vocabulary(tokenizer, _frequent(Counter(task_words)))
    return WordVectors(tokenizer.with_vocabulary(words), np.full((len(words), size), np.nan, dtype=np.float32))


def _frequent(counts: Mapping[str, int], known: Container[str] = ()) -> list[str]:
    """Words that occur twice or are known otherwise."""
    return [word for word, count in counts.items() if count > 1 or word in known]


def _vocabulary(tokenizer: ElmoTokenizer, words: Iterable[str]) -> list[str]:
    """The special words and the others, each once."""
    specials = [tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token]
    return [word for word in dict.fromkeys(chain(specials, words)) if word and word != tokenizer.pad_token]


__all__ = ["WordVectors", "learned_vectors", "read_vectors", "vectors_from_file"]
