"""Vectors of senses, learned in one pass over a text, and the sense that is nearest to another vector."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..embedding import ElmoEmbedder
from ..runtime.progress import Progress
from .layer_vectors import Span, representation_names, span_blocks, unit
from .sense_data import SenseInstance, SenseSentence
from .work_folder import WorkFolder

EQUAL = 1e-6  # cosines that differ by less are equal: layer 0 has one vector for all occurrences of a word

Key = tuple[str, str]  # lemma and part of speech


def key_of(instance: SenseInstance) -> Key:
    """What decides which senses an occurrence may have."""
    return instance.lemma, instance.pos


class Inventory(NamedTuple):
    """
    Attributes:
        senses: For each lemma and part of speech of a text its senses and how often they occur, in the order of their
            first occurrence.
    """

    senses: dict[Key, Counter[str]]

    @classmethod
    def of(cls, sentences: Iterable[SenseSentence]) -> "Inventory":
        """The senses of a text."""
        found: dict[Key, Counter[str]] = {}
        for sentence in sentences:
            for instance in sentence.instances:
                found.setdefault(key_of(instance), Counter()).update(instance.senses)
        return cls(found)

    def candidates(self, key: Key) -> int:
        """How many senses there are to choose from."""
        return len(self.senses.get(key, ()))

    def most_frequent(self, key: Key) -> str:
        """The most frequent sense, the first of equals; an empty string where there is none."""
        counts = self.senses.get(key)
        return max(counts, key=counts.__getitem__) if counts else ""


class SenseTable:
    """
    The senses that have to be told apart, in rows; those of one lemma and part of speech follow each other.

    Args:
        inventory: All senses.
        keys: Those to be told apart.

    Attributes:
        names: The sense of each row, an array of strings.
        numbers: The number of each lemma and part of speech.
        bounds: The first row of each number, and the end.
    """

    def __init__(self, inventory: Inventory, keys: set[Key]):
        chosen = {key: counts for key, counts in inventory.senses.items() if key in keys}
        pairs = [(key, sense) for key, counts in chosen.items() for sense in counts]
        self.names = np.array([sense for _, sense in pairs], dtype=object)
        self.numbers = {key: number for number, key in enumerate(chosen)}
        self.bounds = np.cumsum([0, *(len(counts) for counts in chosen.values())])
        self._rows = {pair: row for row, pair in enumerate(pairs)}

    def row(self, key: Key, sense: str) -> int:
        """The row of a sense."""
        return self._rows[key, sense]


class Occurrences(NamedTuple):
    """
    Occurrences that need vectors.

    Attributes:
        words, spans: The sentences that have some, and where they are there.
        keys (`np.ndarray` of shape `(spans,)`): The number of the lemma and part of speech.
        labels (`np.ndarray` of shape `(spans,)`): Of a training text the row of the sense, of a test text the number of
            the occurrence among all of that text.
    """

    words: list[list[str]]
    spans: list[list[Span]]
    keys: np.ndarray
    labels: np.ndarray

    @classmethod
    def to_learn_from(cls, sentences: Sequence[SenseSentence], table: SenseTable) -> "Occurrences":
        """An occurrence with two senses is there twice, once for each."""
        return cls._of(sentences, table, lambda one, _: [table.row(key_of(one), sense) for sense in one.senses])

    @classmethod
    def to_test(cls, sentences: Sequence[SenseSentence], table: SenseTable) -> "Occurrences":
        """Each once."""
        return cls._of(sentences, table, lambda _, place: [place])

    @classmethod
    def _of(
        cls, sentences: Sequence[SenseSentence], table: SenseTable, labels: Callable[[SenseInstance, int], list[int]]
    ) -> "Occurrences":
        words: list[list[str]] = []
        spans: list[list[Span]] = []
        keys: list[int] = []
        chosen: list[int] = []
        place = 0  # of the instance among all of the text
        for sentence in sentences:
            own: list[Span] = []
            for instance in sentence.instances:
                if (key := table.numbers.get(key_of(instance))) is not None:
                    found = labels(instance, place)
                    own += [(instance.start, instance.end)] * len(found)
                    keys += [key] * len(found)
                    chosen += found
                place += 1
            if own:
                words.append(sentence.words)
                spans.append(own)
        return cls(words, spans, np.array(keys, dtype=int), np.array(chosen, dtype=int))


class NearestSenses:
    """
    The mean vector of each sense in each representation, and the single vectors.

    Args:
        embedder: The model.
        train: What to learn from.
        table: The senses.
        neighbors: Occurrences that vote beside the means; 0: their vectors are not stored.
        work, progress: As in [`span_blocks`].

    Attributes:
        means (`np.ndarray` of shape `(representations, senses, hidden_size)`): Of length one.
    """

    def __init__(
        self,
        embedder: ElmoEmbedder,
        train: Occurrences,
        table: SenseTable,
        neighbors: int,
        work: WorkFolder,
        progress: Progress = None,
    ):
        self._table, self._neighbors, self._labels = table, neighbors, train.labels
        representations, size = len(representation_names(embedder)), embedder.hidden_size
        sums = torch.zeros(representations, len(table.names), size)
        # Directions in half precision: 150,000 occurrences in four representations of 512 are 600 MB.
        self._stored = torch.empty(representations, len(train.keys) if neighbors else 0, size, dtype=torch.float16)
        for block in span_blocks(embedder, train.words, train.spans, work=work, name="train", progress=progress):
            rows = torch.from_numpy(train.labels[block.spans])
            for representation, vectors in enumerate(block.vectors):
                sums[representation].index_add_(0, rows, torch.from_numpy(vectors))
                if neighbors:
                    self._stored[representation, block.spans] = torch.from_numpy(unit(vectors)).half()
        self.means = unit(sums.numpy())
        self._order = np.argsort(train.keys, kind="stable")
        self._bounds = np.searchsorted(train.keys[self._order], np.arange(len(table.numbers) + 1))

    def answers(self, vectors: np.ndarray, keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """
        Args:
            vectors: `(representations, occurrences, size)`.
            keys: The number of the lemma and part of speech of each occurrence.
            ties: `(occurrences, candidates)`, at least as many as a word has candidates: of equally near means the one
                with the largest number is the answer.

        Returns:
            Rows of the table, `(representations, occurrences)`: the nearest means. With neighbours twice as many
            representations: the answers of the nearest occurrences come second.
        """
        queries, half = unit(vectors), len(vectors)
        found = np.empty((half * (2 if self._neighbors else 1), len(keys)), dtype=int)
        order = np.argsort(keys, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            key = keys[places[0]]
            start, stop = self._table.bounds[key], self._table.bounds[key + 1]
            cosines = queries[:, places] @ self.means[:, start:stop].swapaxes(1, 2)  # (representations, places, senses)
            is_nearest = cosines >= cosines.max(axis=-1, keepdims=True) - EQUAL
            found[:half, places] = start + np.where(is_nearest, ties[places, : stop - start], -1).argmax(axis=-1)
            if self._neighbors:
                found[half:, places] = start + self._votes(queries[:, places], key).argmax(axis=-1)
        return found

    def _votes(self, queries: np.ndarray, key: int) -> np.ndarray:
        """
        How many of the nearest occurrences have each sense, `(representations, queries, senses)`; of equals the one
        with the larger cosines has more. All occurrences that are as near as the last of the nearest vote too.
        """
        rows = torch.from_numpy(self._order[self._bounds[key] : self._bounds[key + 1]])
        start, stop = self._table.bounds[key], self._table.bounds[key + 1]
        labels = torch.from_numpy(self._labels)[rows]
        is_of_sense = (labels[:, None] == torch.arange(int(start), int(stop))).float()  # (occurrences, senses)
        stored = self._stored[:, rows].float()  # (representations, occurrences, size)
        cosines = torch.from_numpy(queries) @ stored.mT  # (representations, queries, occurrences)
        least = cosines.topk(min(self._neighbors, len(rows)), dim=-1).values[..., -1:]
        is_near = (cosines >= least - EQUAL).float()
        share = 2 * is_near.sum(dim=-1, keepdim=True) + 2  # more than twice any sum of cosines
        return (is_near @ is_of_sense + (is_near * cosines) @ is_of_sense / share).numpy()


__all__ = ["Inventory", "Key", "NearestSenses", "Occurrences", "SenseTable", "key_of"]
