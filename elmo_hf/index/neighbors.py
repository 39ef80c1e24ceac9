"""Searches an index for neighbours of a word: a marked word in a text, an occurrence, or a vector."""

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
    """Implements [`ElmoEmbedder.neighbors`]."""
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
        (tokenized,) = embedder.tokenize([marked.sentence])
        near = [
            near_word
            for near_word, (start, end) in zip(tokenized.words, tokenized.offsets, strict=True)
            if end > marked.start and start < max(marked.end, marked.start + 1)
        ]
        raise TextError(f"{word!r:.100} is not one word: the tokenizer reads {' | '.join(near) or 'none'} there.")
    return word, vector


def _check_layers(embedder: "ElmoEmbedder", query: Occurrence, index: ElmoIndex):
    """Raises an error if the vector of an occurrence does not come from the layers of the index."""
    as_given = [query.sentence, query.sentence.split(" ")]  # it was a text, or a list of words joined by blanks
    vectors = [_vector_at(embedder, sentence, query.start, query.end, index) for sentence in as_given]
    query_vector = np.asarray(query.vector)
    for vector in vectors:
        if vector is not None and query_vector.shape == vector.shape and _cosine(query_vector, vector) > ALIKE:
            return
    raise ModelError(
        f"The vector of {query.word!r:.100} is not what layers={index.layers!r} give, of which the index "
        f"{index.folder} is: ask `words` for these layers."
    )


def _vector_at(embedder: "ElmoEmbedder", sentence: Sentence, start: int, end: int, index: ElmoIndex):
    """The vector of the word from `start` to `end`, `(hidden_size,)`; `None` if there is no such word."""
    (tokenized,) = embedder.tokenize([sentence])
    if (start, end) not in tokenized.offsets:
        return None
    (vectors,) = embedder.embed([sentence], index.layers)
    return vectors[tokenized.offsets.index((start, end))]


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), np.finfo(np.float32).tiny))


__all__ = ["neighbors"]
