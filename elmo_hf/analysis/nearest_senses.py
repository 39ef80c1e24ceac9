"""Computes the vectors of senses in one pass over a text, and finds the sense that is nearest to a vector."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..embedding import ElmoEmbedder
from ..runtime.progress import Progress
from .layer_vectors import Span, representation_names, span_blocks, unit
from .sense_data import SenseInstance, SenseSentence
from .sense_mix import MixExamples, choose_examples, learn_mix
from .work_folder import WorkFolder

EQUAL = 1e-6  # cosines that differ by less count as equal: in layer 0 all occurrences of a word have one vector

Key = tuple[str, str]  # lemma and part of speech


def key_of(instance: SenseInstance) -> Key:
    """The lemma and the part of speech, which determine the candidate senses of an occurrence."""
    return instance.lemma, instance.pos


class Inventory(NamedTuple):
    """
    The senses of a text.

    Attributes:
        senses: The senses of each lemma and part of speech and how often they occur, in the order of their first
            occurrence.
    """

    senses: dict[Key, Counter[str]]

    @classmethod
    def of(cls, sentences: Iterable[SenseSentence]) -> "Inventory":
        """Collects the senses of a text."""
        senses: dict[Key, Counter[str]] = {}
        for sentence in sentences:
            for instance in sentence.instances:
                senses.setdefault(key_of(instance), Counter()).update(instance.senses)
        return cls(senses)

    def candidates(self, key: Key) -> int:
        """The number of candidate senses."""
        return len(self.senses.get(key, ()))

    def most_frequent(self, key: Key) -> str:
        """The most frequent sense, the first one if several are; an empty string if there is none."""
        counts = self.senses.get(key)
        return max(counts, key=counts.__getitem__) if counts else ""


class SenseTable:
    """
    The senses of ambiguous words, one per row. Those of one lemma and part of speech are adjacent.

    Args:
        inventory: All senses.
        keys: The lemmas and parts of speech that are ambiguous.

    Attributes:
        names: The sense of each row, an array of strings.
        key_ids: The id of each lemma and part of speech.
        bounds: The first row of each id, and the end.
    """

    def __init__(self, inventory: Inventory, keys: set[Key]):
        chosen = {key: counts for key, counts in inventory.senses.items() if key in keys}
        pairs = [(key, sense) for key, counts in chosen.items() for sense in counts]
        self.names = np.array([sense for _, sense in pairs], dtype=object)
        self.key_ids = {key: key_id for key_id, key in enumerate(chosen)}
        self.bounds = np.cumsum([0, *(len(counts) for counts in chosen.values())])
        self._rows = {pair: row for row, pair in enumerate(pairs)}

    def row(self, key: Key, sense: str) -> int:
        """The row of a sense."""
        return self._rows[key, sense]


class Occurrences(NamedTuple):
    """
    Occurrences that need vectors.

    Attributes:
        words, spans: The sentences that contain some, and the spans of the occurrences.
        keys (`np.ndarray` of shape `(spans,)`): The id of the lemma and part of speech.
        places (`np.ndarray` of shape `(spans,)`): The index of the occurrence among all occurrences in the text.
        labels (`np.ndarray` of shape `(spans,)`): The row of the sense; zeros in a test text.
    """

    words: list[list[str]]
    spans: list[list[Span]]
    keys: np.ndarray
    places: np.ndarray
    labels: np.ndarray

    @classmethod
    def to_learn_from(cls, sentences: Sequence[SenseSentence], table: SenseTable) -> "Occurrences":
        """The occurrences of a training text. An occurrence with two senses is included once for each."""
        return cls._of(sentences, table, lambda one: [table.row(key_of(one), sense) for sense in one.senses])

    @classmethod
    def to_test(cls, sentences: Sequence[SenseSentence], table: SenseTable) -> "Occurrences":
        """The occurrences of a test text, each once."""
        return cls._of(sentences, table, lambda _: [0])

    @classmethod
    def _of(
        cls, sentences: Sequence[SenseSentence], table: SenseTable, labels: Callable[[SenseInstance], list[int]]
    ) -> "Occurrences":
        words: list[list[str]] = []
        spans: list[list[Span]] = []
        keys: list[int] = []
        places: list[int] = []
        chosen: list[int] = []
        place = 0  # the index of the instance in the text
        for sentence in sentences:
            own: list[Span] = []
            for instance in sentence.instances:
                if (key := table.key_ids.get(key_of(instance))) is not None:
                    instance_labels = labels(instance)
                    own += [(instance.start, instance.end)] * len(instance_labels)
                    keys += [key] * len(instance_labels)
                    places += [place] * len(instance_labels)
                    chosen += instance_labels
                place += 1
            if own:
                words.append(sentence.words)
                spans.append(own)
        return cls(words, spans, *(np.array(values, dtype=int) for values in (keys, places, chosen)))


class NearestSenses:
    """
    The mean vector of each sense in each representation, and the vectors of all its occurrences.

    Args:
        embedder: The model.
        train: The occurrences of the training text.
        table: The senses.
        neighbors: The number of nearest occurrences that vote; 0: the vectors of occurrences are not stored.
        seed: The seed of the choice of occurrences from which a mix is learned.
        work, progress: As in [`span_blocks`].

    Attributes:
        learned_mix (`np.ndarray` of shape `(layers,)`, or `None`): The share of each layer in the mix that is learned
            from the training text; `None` if no sense occurs twice.
        means (`np.ndarray` of shape `(representations, senses, hidden_size)`): Unit vectors. The last representation is
            the learned mix, if there is one.
    """

    def __init__(
        self,
        embedder: ElmoEmbedder,
        train: Occurrences,
        table: SenseTable,
        neighbors: int,
        seed: int,
        work: WorkFolder,
        progress: Progress = None,
    ):
        self._table, self._neighbors, self._labels = table, neighbors, train.labels
        self._counts = np.bincount(train.labels, minlength=len(table.names))
        layers = embedder.num_layers
        representations, size = len(representation_names(embedder)), embedder.hidden_size
        sums = torch.zeros(representations, len(table.names), size)
        # Unit vectors in half precision: 150,000 occurrences in four representations of 512 take 600 MB.
        self._stored = torch.empty(representations, len(train.keys) if neighbors else 0, size, dtype=torch.float16)
        chosen = choose_examples(train.labels, train.places, seed)
        examples = np.empty((layers, len(chosen), size), dtype=np.float32)
        for block in span_blocks(embedder, train.words, train.spans, work=work, name="train", progress=progress):
            first, end = np.searchsorted(chosen, [block.spans.start, block.spans.stop])
            examples[:, first:end] = block.vectors[:layers, chosen[first:end] - block.spans.start]
            rows = torch.from_numpy(train.labels[block.spans])
            for representation, vectors in enumerate(block.vectors):
                sums[representation].index_add_(0, rows, torch.from_numpy(vectors))
                if neighbors:
                    self._stored[representation, block.spans] = torch.from_numpy(unit(vectors)).half()
        self.learned_mix: np.ndarray | None = None
        if len(chosen):
            bounds = (table.bounds[train.keys[chosen] + more] for more in (0, 1))
            mixer = learn_mix(MixExamples(examples, train.labels[chosen], *bounds), sums[:layers])
            self.learned_mix = mixer.layer_weights().detach().float().numpy()
        self.means = unit(self._with_learned_mix(sums.numpy()))
        self._order = np.argsort(train.keys, kind="stable")
        self._bounds = np.searchsorted(train.keys[self._order], np.arange(len(table.key_ids) + 1))

    def _with_learned_mix(self, vectors: np.ndarray) -> np.ndarray:
        """Adds the learned mix to the representations of vectors, `(representations, …, size)`."""
        if self.learned_mix is None:
            return vectors
        mixed = np.tensordot(self.learned_mix, vectors[: len(self.learned_mix)], axes=1)
        return np.concatenate([vectors, mixed[None]])

    def answers(self, vectors: np.ndarray, keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """
        Finds the nearest senses.

        Args:
            vectors: `(representations, occurrences, size)`
            keys: The id of the lemma and part of speech of each occurrence.
            ties: `(occurrences, candidates)`, random values with a column for each candidate of a word. Among equally
                near means, the one with the largest value is chosen.

        Returns:
            Rows of the table, `(answers, occurrences)`: those of the nearest means, for each representation and the
            learned mix. With neighbours, those of the nearest occurrences follow, for each representation.
        """
        queries, count = unit(self._with_learned_mix(vectors)), len(self.means)
        voting = len(vectors) if self._neighbors else 0
        rows = np.empty((count + voting, len(keys)), dtype=int)
        order = np.argsort(keys, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            key = keys[places[0]]
            start, stop = self._table.bounds[key], self._table.bounds[key + 1]
            cosines = queries[:, places] @ self.means[:, start:stop].swapaxes(1, 2)  # (representations, places, senses)
            is_nearest = cosines >= cosines.max(axis=-1, keepdims=True) - EQUAL
            rows[:count, places] = start + np.where(is_nearest, ties[places, : stop - start], -1).argmax(axis=-1)
            if voting:
                votes = self._votes(queries[:voting, places], key)
                is_best = votes >= votes.max(axis=-1, keepdims=True) - EQUAL
                rows[count:, places] = start + np.where(is_best, 1 + self._counts[start:stop], 0).argmax(axis=-1)
        return rows

    def _votes(self, queries: np.ndarray, key: int) -> np.ndarray:
        """
        The number of nearest occurrences with each sense, `(representations, queries, senses)`, plus a fraction so that
        larger cosines win if the numbers are equal. Occurrences as near as the last of the nearest vote too.
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
