"""What is like a word in its sentence, in an index: the word marked in a text, an occurrence or a vector."""

from typing import TYPE_CHECKING

import numpy as np

from ..data.marked_words import MarkedWord, read_marked
from ..data.occurrences import Occurrence
from ..data.sentences import Sentence
from ..errors import ModelError, TextError
from .index import ALIKE, ElmoIndex, Neighbour

if TYPE_CHECKING:
    from ..embedding.embedder import ElmoEmbedder


def neighbors(
    embedder: "ElmoEmbedder",
    query: str | Occurrence | np.ndarray,
    index: ElmoIndex,
    k: int = 10,
    *,
    same_word: bool = False,
    distinct: bool = False,
    exact: bool | None = None,
) -> list[Neighbour]:
    """As [`ElmoEmbedder.neighbors`], which stands in front of it."""
    index.check_model(embedder)
    if isinstance(query, str):
        word, vector = _embed_marked(embedder, read_marked(query), index)
    elif isinstance(query, Occurrence):
        _check_layers(embedder, query, index)
        word, vector = query.word, query.vector
    elif same_word:
        raise ValueError("A vector does not say whose it is: `same_word` needs a text or an occurrence.")
    else:
        word, vector = None, query
    return index.search(vector, k, word=word if same_word else None, distinct=distinct, exact=exact)


def _embed_marked(embedder: "ElmoEmbedder", marked: MarkedWord, index: ElmoIndex) -> tuple[str, np.ndarray]:
    word = marked.sentence[marked.start : marked.end]
    vector = _vector_at(embedder, marked.sentence, marked.start, marked.end, index)
    if vector is None:
        (found,) = embedder.tokenize([marked.sentence])
        near = [
            some
            for some, (start, end) in zip(found.words, found.offsets, strict=True)
            if end > marked.start and start < max(marked.end, marked.start + 1)
        ]
        raise TextError(f"{word!r:.100} is not one word: the tokenizer reads {' | '.join(near) or 'none'} there.")
    return word, vector


def _check_layers(embedder: "ElmoEmbedder", query: Occurrence, index: ElmoIndex):
    """Refuses a vector that the index's layers do not give for the word: it would be compared with what it is not."""
    as_given = [query.sentence, query.sentence.split(" ")]  # a text, or words joined by blanks
    vectors = [_vector_at(embedder, sentence, query.start, query.end, index) for sentence in as_given]
    given = np.asarray(query.vector)
    for vector in vectors:
        if vector is not None and given.shape == vector.shape and _cosine(given, vector) > ALIKE:
            return
    raise ModelError(
        f"The vector of {query.word!r:.100} is not what layers={index.layers!r} give, of which the index "
        f"{index.folder} is: ask `words` for these layers."
    )


def _vector_at(embedder: "ElmoEmbedder", sentence: Sentence, start: int, end: int, index: ElmoIndex):
    """The vector of the word at a place, `(hidden_size,)`; `None` if there is no such word."""
    (found,) = embedder.tokenize([sentence])
    if (start, end) not in found.offsets:
        return None
    (vectors,) = embedder.embed([sentence], index.layers)
    return vectors[found.offsets.index((start, end))]


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), np.finfo(np.float32).tiny))


__all__ = ["neighbors"]
