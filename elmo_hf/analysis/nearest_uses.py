"""Table 4 of the paper: the nearest uses of a word in its sentence, and the nearest words by static vectors."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import torch

from ..data.marked_words import read_marked
from ..data.sentences import Sentence, encode
from ..embedding import ElmoEmbedder
from ..errors import TextError, counted
from ..finetuning.word_vectors import read_vectors
from ..index import ElmoIndex
from ..runtime.progress import Progress
from .layer_vectors import unit

MAX_WORDS = 50_000  # the words among which static neighbours are searched
WORDS_AT_ONCE = 4096
LAYER_0 = "layer 0"


@dataclass
class NearestWord:
    """A word and the cosine of its static vector."""

    word: str
    similarity: float


@dataclass
class NearestUse:
    """A word in a sentence of the corpus, its offsets in the sentence, and the cosine of its vector."""

    sentence: str
    start: int
    end: int
    similarity: float

    def marked(self) -> str:
        """The sentence with the word in brackets."""
        return _marked(self.sentence, self.start, self.end)


@dataclass
class NeighborsRow:
    """
    The neighbours of one word in its sentence.

    Attributes:
        sentence, start, end: The sentence, and the offsets of the word in it.
        words: The nearest words by static vectors; none if the word has no static vector.
        uses: The nearest uses in the corpus.
    """

    sentence: str
    start: int
    end: int
    words: list[NearestWord]
    uses: list[NearestUse]

    @property
    def word(self) -> str:
        """The word whose neighbours these are."""
        return self.sentence[self.start : self.end]


@dataclass
class NeighborsTable:
    """
    The neighbours of several words.

    Attributes:
        layers: The layers of the contextual vectors.
        static: The source of the static vectors: a file, or "layer 0".
        sentences: The number of sentences in the corpus.
        rows: One row per question.
    """

    layers: str | int
    static: str
    sentences: int
    rows: list[NeighborsRow]

    def table(self) -> str:
        """A text with the nearest words of each word, and the nearest uses for each of its sentences."""
        lines: list[str] = []
        for word in dict.fromkeys(row.word for row in self.rows):
            rows = [row for row in self.rows if row.word == word]
            words = ", ".join(f"{near.word} {near.similarity:.2f}" for near in rows[0].words)
            lines += [f"{word} ({self.static}): {words or 'no vector'}", ""]
            for row in rows:
                lines.append(_marked(row.sentence, row.start, row.end))
                lines += [f"  {use.similarity:.2f}  {use.marked()}" for use in row.uses] or ["  no use in the corpus"]
                lines.append("")
        return "\n".join([*lines, f"Nearest uses in {counted(self.sentences, 'sentence')}, layers: {self.layers}."])


def neighbors_table(
    embedder: ElmoEmbedder,
    corpus: Sequence[Sentence],
    questions: Sequence[str],
    *,
    k: int = 5,
    layers: str | int = "top",
    vectors: str | None = None,
    same_word: bool = True,
    max_words: int = MAX_WORDS,
    progress: Progress = None,
) -> NeighborsTable:
    """
    Finds the nearest uses and the nearest words.

    Args:
        embedder: The model.
        corpus: Texts or lists of words.
        questions: Sentences with one word between `**` and `**`.
        k: The number of neighbours of each kind.
        layers: The layers of the contextual vectors: `"top"`, `"mix"`, `"average"` or the index of a layer.
        vectors: A text file of static word vectors, such as GloVe. Default: layer 0 of the model, for the words of the
            corpus.
        same_word: Whether to return only uses of the same word, ignoring case. Otherwise all words of the corpus are
            embedded.
        max_words: The number of words among which static neighbours are searched: the first words of the file, or the
            most frequent words of the corpus.
        progress: As in [`ElmoEmbedder.embed`].
    """
    if k < 1:
        raise ValueError(f"`k` must be 1 or more, found {k}.")
    if not questions:
        raise ValueError("Give at least one sentence with ** on both sides of a word.")
    marked = [read_marked(question) for question in questions]
    words = list(dict.fromkeys(one.sentence[one.start : one.end] for one in marked))
    if not corpus:
        raise TextError("The corpus has no sentences.")
    static = _from_file(vectors, words, max_words) if vectors else _from_layer_0(embedder, corpus, words, max_words)
    near_words = {word: static.nearest(word, k) for word in words}
    with tempfile.TemporaryDirectory() as folder:
        index = ElmoIndex.build(
            embedder, corpus, folder, layers=layers, words=words if same_word else None, progress=progress
        )
        rows = []
        for question, one in zip(questions, marked, strict=True):
            uses = _nearest_uses(embedder, question, one.sentence, index, k, same_word)
            near = near_words[one.sentence[one.start : one.end]]
            rows.append(NeighborsRow(one.sentence, one.start, one.end, near, uses))
    return NeighborsTable(layers, static.name, len(corpus), rows)


def _nearest_uses(
    embedder: ElmoEmbedder, question: str, sentence: str, index: ElmoIndex, k: int, same_word: bool
) -> list[NearestUse]:
    """The nearest use in each of the `k` nearest sentences of an index other than the question's own `sentence`."""
    count = 4 * k + 20  # more than `k`, since a sentence may be repeated, and have several words
    while True:
        neighbors = embedder.neighbors(question, index, count, same_word=same_word)
        uses: dict[str, NearestUse] = {}
        for similarity, use in neighbors:
            if use.sentence != sentence:
                uses.setdefault(use.sentence, NearestUse(use.sentence, use.start, use.end, similarity))
        if len(uses) >= k or len(neighbors) < count:
            return list(uses.values())[:k]
        count *= 4


class _StaticVectors:
    """
    Static word vectors.

    Args:
        name: The source of the vectors.
        words: The words.
        vectors: `(words, size)`
    """

    def __init__(self, name: str, words: Sequence[str], vectors: np.ndarray):
        self.name, self._words, self._units = name, list(words), unit(vectors)
        self._rows = {word: row for row, word in enumerate(self._words)}

    def nearest(self, word: str, k: int) -> list[NearestWord]:
        """The nearest other words, the nearest first. Words that differ only in case are left out."""
        row = self._rows.get(word, self._rows.get(word.lower()))
        if row is None:
            return []
        cosines = self._units @ self._units[row]
        neighbors: list[NearestWord] = []
        for place in np.argsort(-cosines, kind="stable"):
            if self._words[place].casefold() != word.casefold():
                neighbors.append(NearestWord(self._words[place], float(cosines[place])))
            if len(neighbors) == k:
                break
        return neighbors


def _from_file(path: str, words: Iterable[str], max_words: int) -> _StaticVectors:
    vectors = read_vectors(path, {form for word in words for form in (word, word.lower())}, max_words)
    return _StaticVectors(PurePath(path).name, list(vectors), np.stack(list(vectors.values())))


def _from_layer_0(
    embedder: ElmoEmbedder, corpus: Iterable[Sentence], words: Iterable[str], max_words: int
) -> _StaticVectors:
    """Layer 0 of the most frequent words of the corpus and of `words`."""
    counts = Counter(word for sentence in embedder.tokenize(corpus) for word in sentence.words)
    known = list(dict.fromkeys([*words, *(word for word, _ in counts.most_common(max_words))]))
    parts = [known[start : start + WORDS_AT_ONCE] for start in range(0, len(known), WORDS_AT_ONCE)]
    return _StaticVectors(LAYER_0, known, np.concatenate([_encode(embedder, part) for part in parts]))


@torch.no_grad()
def _encode(embedder: ElmoEmbedder, words: list[str]) -> np.ndarray:
    """The vectors of words in layer 0, `(words, size)`."""
    model = embedder.model
    (encoded,) = encode([words], embedder.tokenizer)
    tokens = encoded.tokens(1, len(words) + 1)
    ids, char_ids = (torch.from_numpy(part).to(model.device, torch.long) for part in tokens)
    config = model.config
    vectors = model.token_encoder(char_ids if config.uses_characters else None, ids if config.uses_words else None)
    return vectors.float().cpu().numpy()


def _marked(sentence: str, start: int, end: int) -> str:
    return " ".join(f"{sentence[:start]}[{sentence[start:end]}]{sentence[end:]}".split())


__all__ = ["NearestUse", "NearestWord", "NeighborsRow", "NeighborsTable", "neighbors_table"]
