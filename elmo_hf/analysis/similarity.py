"""
How similar the vectors of a model are in each layer, with the measures of Ethayarajh (2019), "How Contextual are
Contextualized Word Representations?", and how similar the layers are to each other.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..embedding import ElmoEmbedder
from ..errors import TextError, counted
from ..runtime.progress import Progress
from .layer_vectors import representation_names, span_blocks, unit
from .report import text_table

LEAST_SENTENCES = 5  # the minimum number of sentences of a word for its self-similarity, as in that paper


@dataclass
class LayerSimilarity:
    """
    The measures of all representations.

    Attributes:
        representations: The layers, and their mix.
        norms (`np.ndarray` of shape `(representations,)`): The mean length of the vectors.
        between (`np.ndarray` of shape `(representations, representations)`): The mean cosine between the vectors of an
            occurrence in two representations.
        anisotropy (`np.ndarray` of shape `(representations,)`): The mean cosine of all pairs of occurrences.
        self_similarity (`np.ndarray` of shape `(representations,)`): The mean cosine of the occurrences of a word in
            different sentences, over words in five or more sentences; `nan` if there is no such word.
        intra_sentence (`np.ndarray` of shape `(representations,)`): The mean cosine between a word and the mean of its
            sentence, over sentences of two or more words; `nan` if there is none.
        sentences, words: Their numbers. Repeated sentences count once.
        measured_words: The number of distinct words whose self-similarity was measured.
    """

    representations: list[str]
    norms: np.ndarray
    between: np.ndarray
    anisotropy: np.ndarray
    self_similarity: np.ndarray
    intra_sentence: np.ndarray
    sentences: int
    words: int
    measured_words: int

    @property
    def adjusted_self_similarity(self) -> np.ndarray:
        """The self-similarity minus the anisotropy, as in that paper."""
        return self.self_similarity - self.anisotropy

    @property
    def adjusted_intra_sentence(self) -> np.ndarray:
        """The intra-sentence similarity minus the anisotropy."""
        return self.intra_sentence - self.anisotropy

    def table(self) -> str:
        """A table of all measures."""
        names = ["mean length", "anisotropy", "self-similarity", "  without anisotropy"]
        names += ["intra-sentence similarity", "  without anisotropy"]
        values = [self.norms, self.anisotropy, self.self_similarity, self.adjusted_self_similarity]
        values += [self.intra_sentence, self.adjusted_intra_sentence]
        rows = [[name, *map(_number, row)] for name, row in zip(names, values, strict=True)]
        rows += [
            [f"cosine to {name}", *map(_number, row)]
            for name, row in zip(self.representations, self.between, strict=True)
        ]
        note = (
            f"{counted(self.words, 'word')} in {counted(self.sentences, 'sentence')}; self-similarity of "
            f"{counted(self.measured_words, 'distinct word')} in {LEAST_SENTENCES} sentences or more."
        )
        return text_table(["", *self.representations], rows, [note])


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def layer_similarity(
    embedder: ElmoEmbedder, sentences: Sequence[Sequence[str]], *, progress: Progress = None
) -> LayerSimilarity:
    """
    Measures the similarities on a text.

    Args:
        embedder: The model.
        sentences: Lists of words. All are embedded; a few thousand are enough.
        progress: As in [`ElmoEmbedder.embed`].
    """
    chosen = [list(words) for words in dict.fromkeys(map(tuple, sentences)) if words]
    if sum(map(len, chosen)) < 2:
        raise TextError("Similarities need a text of two or more words.")
    counts = Counter(word for words in chosen for word in set(words))
    rows = {word: row for row, word in enumerate(w for w, count in counts.items() if count >= LEAST_SENTENCES)}
    names, size = representation_names(embedder), embedder.hidden_size
    sums = _Sums(len(names), size, len(rows))
    spans = [[(place, place + 1) for place in range(len(words))] for words in chosen]
    for block in span_blocks(embedder, chosen, spans, progress=progress):
        sums.add(block.vectors, chosen[block.sentences], rows)
    return LayerSimilarity(
        representations=names,
        norms=sums.norms / sums.words,
        between=sums.between / sums.words,
        anisotropy=_mean_of_pairs(sums.units, sums.squares, sums.words),
        self_similarity=sums.self_similarity(),
        intra_sentence=sums.intra / sums.sentences if sums.sentences else np.full(len(names), np.nan),
        sentences=len(chosen),
        words=sums.words,
        measured_words=len(rows),
    )


class _Sums:
    """
    The sums over blocks from which the measures are computed.

    Args:
        representations, size: The number and the size of the vectors of a word.
        rows: The number of words whose self-similarity is measured.
    """

    def __init__(self, representations: int, size: int, rows: int):
        self.words = self.sentences = 0  # sentences of two words or more
        self.norms = np.zeros(representations)
        self.between = np.zeros((representations, representations))
        self.units = np.zeros((representations, size))  # vectors of length one
        self.squares = np.zeros(representations)  # their squared lengths: one each, or zero
        self.intra = np.zeros(representations)
        self.of_words = np.zeros((representations, rows, size), dtype=np.float32)
        self.squares_of_words = np.zeros((representations, rows))
        self.counts_of_words = np.zeros(rows)

    def add(self, vectors: np.ndarray, sentences: Sequence[Sequence[str]], rows: dict[str, int]):
        """
        Args:
            vectors: `(representations, words, size)`, the vectors of all words of the sentences.
            rows: The rows of the words whose self-similarity is measured.
        """
        units = unit(vectors)
        squares = np.square(units).sum(axis=-1)  # (representations, words)
        self.words += vectors.shape[1]
        self.norms += np.linalg.norm(vectors, axis=-1).sum(axis=1)
        self.between += np.einsum("awd,bwd->ab", units, units, optimize=True)
        self.units += units.sum(axis=1, dtype=np.float64)
        self.squares += squares.sum(axis=1)
        self._add_sentences(vectors, units, np.array([len(words) for words in sentences]))
        self._add_words(units, squares, sentences, rows)

    def _add_sentences(self, vectors: np.ndarray, units: np.ndarray, lengths: np.ndarray):
        starts = np.concatenate([[0], lengths.cumsum()[:-1]])
        means = unit(np.add.reduceat(vectors, starts, axis=1))  # the sum has the direction of the mean
        cosines = (np.add.reduceat(units, starts, axis=1) * means).sum(
            axis=-1
        ) / lengths  # (representations, sentences)
        self.intra += cosines[:, lengths > 1].sum(axis=1)
        self.sentences += int((lengths > 1).sum())

    def _add_words(
        self, units: np.ndarray, squares: np.ndarray, sentences: Sequence[Sequence[str]], rows: dict[str, int]
    ):
        """The first occurrence of each word in a sentence."""
        places, chosen, start = [], [], 0
        for words in sentences:
            first = {word: start + place for place, word in reversed(list(enumerate(words))) if word in rows}
            places += first.values()
            chosen += [rows[word] for word in first]
            start += len(words)
        if not places:
            return
        order = np.argsort(chosen, kind="stable")
        own, begin = np.unique(np.array(chosen)[order], return_index=True)
        taken = np.array(places)[order]
        self.of_words[:, own] += np.add.reduceat(units[:, taken], begin, axis=1)
        self.squares_of_words[:, own] += np.add.reduceat(squares[:, taken], begin, axis=1)
        self.counts_of_words[own] += np.diff([*begin, len(order)])

    def self_similarity(self) -> np.ndarray:
        """The mean over words."""
        if not len(self.counts_of_words):
            return np.full(len(self.norms), np.nan)
        return _mean_of_pairs(self.of_words, self.squares_of_words, self.counts_of_words).mean(axis=1)


def _mean_of_pairs(sums: np.ndarray, squares: np.ndarray, counts: np.ndarray | int) -> np.ndarray:
    """
    The mean product of two different vectors of a set, computed from their sum: its square has the products of all
    pairs.

    Args:
        sums: `(…, size)`, the sum of the vectors of each set.
        squares: `(…)`, the sum of their squared lengths.
        counts: The number of vectors of each set.
    """
    return (np.square(sums.astype(np.float64)).sum(axis=-1) - squares) / (counts * (counts - 1))


__all__ = ["LEAST_SENTENCES", "LayerSimilarity", "layer_similarity"]
