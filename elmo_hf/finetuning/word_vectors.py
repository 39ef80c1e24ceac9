"""Static word vectors of a head, from text files in GloVe or word2vec format or learned from scratch."""

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
    The words of a head, and their initial vectors.

    Args:
        tokenizer: The head's tokenizer. Its `input_ids` are the rows of the vectors.
        vectors: `(words, size)`, fp32; `nan` for words whose vector starts from random values.
    """

    tokenizer: ElmoTokenizer
    vectors: np.ndarray


def read_vectors(path: str, words: set[str], max_words: int) -> dict[str, np.ndarray]:
    """
    Reads vectors from a text file with a word and its values per line. The first line of word2vec files, which holds
    the counts, is skipped.

    Args:
        path: The file, plain or compressed.
        words: Words to read wherever they are in the file.
        max_words: The number of lines from which all words are read: frequent words come first in these files.
    """
    vectors: dict[str, np.ndarray] = {}
    size, first = None, 0  # the size of a vector, and the line that it was read from
    for line_number, line in numbered_lines(path):
        parts = line.rstrip().split(" ")
        if line_number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
            continue
        if not line.strip():
            continue
        if not size:
            size, first = len(parts) - 1, line_number
        word_parts, values = parts[: len(parts) - size], parts[len(parts) - size :]  # a few words contain blanks
        if not word_parts or not values or any(_is_number(part) for part in word_parts[1:]):
            is_later = line_number > first
            expected = f"a word and {size} numbers, as in line {first}," if is_later else "a word and its numbers"
            raise TextError(f"{path}, line {line_number}: {expected} should be here, found {line!r:.60}.")
        word = " ".join(word_parts)
        if line_number > max_words and word not in words:
            continue
        try:
            vectors.setdefault(word, np.array(values, dtype=np.float32))
        except ValueError as error:
            raise TextError(f"{path}, line {line_number}: {error}.") from error
    if not vectors:
        raise TextError(f"{path} holds no word vectors: each line should have a word and its numbers.")
    return vectors


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
    Builds the word vectors of a task from a file.

    A word is looked up as it is written, then in lower case. Words of the file are also used for their capitalised and
    upper-case forms, unless the file has these forms too. Words of the training data that are not in the file start
    from random values if they occur at least twice; words that occur once train the vector of unknown words.

    Args:
        path: The file.
        tokenizer: The tokenizer of the biLM. The new tokenizer splits text in the same way.
        task_words: The words of the training data, in any order.
        max_words: The number of words to take from the file beside the words of the task.
        other_words: The words of other data. They are used if the file has them.
    """
    counts = Counter(task_words)
    every = dict.fromkeys(chain(counts, other_words))  # in the order of the data, as are the rows
    stored = read_vectors(path, {form for word in every for form in (word, word.lower())}, max_words)
    in_file = {form: word for word in stored for form in (word.upper(), word[:1].upper() + word[1:])}
    in_file |= {word: word.lower() for word in every if word.lower() in stored}
    in_file |= {word: word for word in stored}
    words = _vocabulary(tokenizer, chain(_frequent(counts, in_file), in_file))
    vectors = np.full((len(words), len(next(iter(stored.values())))), np.nan, dtype=np.float32)
    for row, word in enumerate(words):
        if word in in_file and row >= NUM_SPECIALS:
            vectors[row] = stored[in_file[word]]
    return WordVectors(tokenizer.with_vocabulary(words), vectors)


def learned_vectors(tokenizer: ElmoTokenizer, task_words: Iterable[str], size: int) -> WordVectors:
    """
    The words of a task with vectors that start from random values. Words that occur once are excluded, so that they
    train the vector of unknown words.
    """
    words = _vocabulary(tokenizer, _frequent(Counter(task_words)))
    return WordVectors(tokenizer.with_vocabulary(words), np.full((len(words), size), np.nan, dtype=np.float32))


def _frequent(counts: Mapping[str, int], known: Container[str] = ()) -> list[str]:
    """The words that occur at least twice or are known."""
    return [word for word, count in counts.items() if count > 1 or word in known]


def _vocabulary(tokenizer: ElmoTokenizer, words: Iterable[str]) -> list[str]:
    """The special tokens and the words, without duplicates."""
    specials = [tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token]
    return [word for word in dict.fromkeys(chain(specials, words)) if word and word != tokenizer.pad_token]


__all__ = ["WordVectors", "learned_vectors", "read_vectors", "vectors_from_file"]
