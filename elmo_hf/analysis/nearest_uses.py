"""The paper's Table 4: the uses nearest to a word in its sentence, beside the word's nearest static vectors."""

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

MAX_WORDS = 50_000  # that static neighbours are looked for among
WORDS_AT_ONCE = 4096
LAYER_0 = "layer 0"


@dataclass
class NearestWord:
    """A word and the cosine of its static vector."""

    word: str
    similarity: float


@dataclass
class NearestUse:
    """A word in a sentence of the corpus, where it begins and ends there, and the cosine of its vector."""

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
    Attributes:
        sentence, start, end: A word in its sentence.
        words: The nearest words by static vectors; none where the word has no static vector.
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
    Attributes:
        layers: Of the contextual vectors.
        static: Where static vectors come from: a file, or "layer 0".
        sentences: In the corpus.
        rows: One for each question.
    """

    layers: str | int
    static: str
    sentences: int
    rows: list[NeighborsRow]

    def table(self) -> str:
        """The nearest words once for each word, then for each of its sentences the nearest uses."""
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
    Args:
        embedder: The model.
        corpus: Texts or lists of words.
        questions: Sentences with one word between `**` and `**`.
        k: Neighbours of each kind.
        layers: Of the contextual vectors: `"top"`, `"mix"`, `"average"` or a number.
        vectors: A text file of static word vectors, as GloVe's. Default: layer 0 of the model, for the words of the
            corpus.
        same_word: Whether uses of the same word only are wanted, whatever its case; else all words of the corpus are
            embedded.
        max_words: Words among which static neighbours are looked for: the first of the file, or the most frequent ones
            of the corpus.
        progress: As in [`ElmoEmbedder.embed`].
    """
    if k < 1:
        raise ValueError(f"`k` must be 1 or more, found {k}.")
    if not questions:
        raise ValueError("Ask for at least one word: a sentence with ** on both sides of it.")
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
            # More than are shown: sentences that repeat each other, or the question, are shown once or not at all.
            found = embedder.neighbors(question, index, 4 * k + 20, same_word=same_word)
            uses: dict[str, NearestUse] = {}
            for similarity, use in found:
                if use.sentence != one.sentence:
                    uses.setdefault(use.sentence, NearestUse(use.sentence, use.start, use.end, similarity))
            near = near_words[one.sentence[one.start : one.end]]
            rows.append(NeighborsRow(one.sentence, one.start, one.end, near, list(uses.values())[:k]))
    return NeighborsTable(layers, static.name, len(corpus), rows)


class _StaticVectors:
    """
    Args:
        name: Where they come from.
        words: Of the vectors.
        vectors: `(words, size)`
    """

    def __init__(self, name: str, words: Sequence[str], vectors: np.ndarray):
        self.name, self._words, self._units = name, list(words), unit(vectors)
        self._rows = {word: row for row, word in enumerate(self._words)}

    def nearest(self, word: str, k: int) -> list[NearestWord]:
        """Other words, the nearest first; the word in another case is no other word."""
        row = self._rows.get(word, self._rows.get(word.lower()))
        if row is None:
            return []
        cosines = self._units @ self._units[row]
        found: list[NearestWord] = []
        for place in np.argsort(-cosines, kind="stable"):
            if self._words[place].casefold() != word.casefold():
                found.append(NearestWord(self._words[place], float(cosines[place])))
            if len(found) == k:
                break
        return found


def _from_file(path: str, words: Iterable[str], max_words: int) -> _StaticVectors:
    found = read_vectors(path, {form for word in words for form in (word, word.lower())}, max_words)
    return _StaticVectors(PurePath(path).name, list(found), np.stack(list(found.values())))


def _from_layer_0(
    embedder: ElmoEmbedder, corpus: Iterable[Sentence], words: Iterable[str], max_words: int
) -> _StaticVectors:
    """The most frequent words of the corpus, and those that are asked for."""
    counts = Counter(word for sentence in embedder.tokenize(corpus) for word in sentence.words)
    known = list(dict.fromkeys([*words, *(word for word, _ in counts.most_common(max_words))]))
    parts = [known[start : start + WORDS_AT_ONCE] for start in range(0, len(known), WORDS_AT_ONCE)]
    return _StaticVectors(LAYER_0, known, np.concatenate([_encode(embedder, part) for part in parts]))


@torch.no_grad()
def _encode(embedder: ElmoEmbedder, words: list[str]) -> np.ndarray:
    """What the token encoder makes of words, `(words, size)`."""
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
