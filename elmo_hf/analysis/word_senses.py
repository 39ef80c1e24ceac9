"""
Word sense disambiguation, as in section 5.3 of the paper: the mean vector of each sense in a training text, and for a
word of the test text the sense whose mean is nearest by cosine. Beside it the nearest single occurrences (k-NN), and
the most frequent sense as baseline.

Candidates of a word are the senses that the training text has for its lemma and part of speech. With one candidate
there is nothing to decide, and with none the answer is WordNet's first sense, if a list of them is given: only words
with several candidates go through the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np

from ..embedding import ElmoEmbedder
from ..errors import TextError, counted
from ..runtime.progress import Progress
from .layer_vectors import representation_names, span_blocks
from .nearest_senses import Inventory, Key, NearestSenses, Occurrences, SenseTable, key_of
from .report import per_cent, text_table
from .sense_data import SenseInstance, SenseSentence
from .work_folder import WorkFolder, digest, model_digest

MOST_FREQUENT = "most frequent sense"
USUAL_POS = ("noun", "verb", "adjective", "adverb")


@dataclass
class SenseResults:
    """
    How many senses are found.

    Attributes:
        methods: The baseline, then for each representation the nearest mean, then the nearest occurrences.
        representations: What the vectors are of: the layers, and their mix.
        groups: "all", "ambiguous" (words with several candidates), and each part of speech that the test text has.
        counts (`np.ndarray` of shape `(groups,)`): Occurrences in the test text.
        accuracy (`np.ndarray` of shape `(methods, groups)`): Share of right answers among all occurrences of a group;
            an occurrence without an answer is not right.
        neighbors: Occurrences that vote in k-NN; 0: no k-NN.
        train_instances, train_sentences, test_sentences: Sizes of the data.
        fallback: Occurrences whose answer is WordNet's first sense.
        unanswered: Occurrences of words that neither the training text nor the list of first senses has.
        answers (`np.ndarray` of shape `(methods, occurrences)`): The senses, as strings; empty where there is no
            answer.
    """

    methods: list[str]
    representations: list[str]
    groups: list[str]
    counts: np.ndarray
    accuracy: np.ndarray
    neighbors: int
    train_instances: int
    train_sentences: int
    test_sentences: int
    fallback: int
    unanswered: int
    answers: np.ndarray = field(repr=False, metadata={"json": False})

    def table(self) -> str:
        """Accuracies in per cent."""
        rows = [[name, *map(per_cent, values)] for name, values in zip(self.methods, self.accuracy, strict=True)]
        rows.append(["occurrences", *(f"{count:,}" for count in self.counts)])
        notes = [
            f"Accuracy in per cent. Learned from {counted(self.train_instances, 'occurrence')} in "
            f"{counted(self.train_sentences, 'sentence')}."
        ]
        if self.fallback:
            notes.append(f"{counted(self.fallback, 'occurrence')}: the answer is WordNet's first sense.")
        if self.unanswered:
            unseen = "of words without a sense in the training text: counted as wrong"
            notes.append(f"{counted(self.unanswered, 'occurrence')} {unseen}.")
        return text_table(["", *self.groups], rows, notes)


def senses(
    embedder: ElmoEmbedder,
    train: Sequence[SenseSentence],
    test: Sequence[SenseSentence],
    *,
    neighbors: int = 1,
    first_senses: Mapping[Key, str] | None = None,
    seed: int = 0,
    work: str | PathLike | None = None,
    progress: Progress = None,
) -> SenseResults:
    """
    Args:
        embedder: The model.
        train, test: As [`read_senses`] gives them.
        neighbors: Occurrences that vote in k-NN; 0: no k-NN. All that are as near as the last of them vote too.
        first_senses: The answer for words that the training text does not have, as [`read_first_senses`] gives them.
        seed: Of the choice between means that are equally near, as many are in layer 0, which does not see the context.
        work: A folder for the vectors; after a stop the same call continues there.
        progress: As in [`ElmoEmbedder.embed`].
    """
    if neighbors < 0:
        raise ValueError(f"`neighbors` must be 0 or more, found {neighbors}.")
    inventory = Inventory.of(train)
    instances = [instance for sentence in test for instance in sentence.instances]
    if not inventory.senses or not instances:
        raise TextError(f"No word of the {'test' if inventory.senses else 'training'} text has a sense.")
    keys = {key for key in map(key_of, instances) if inventory.candidates(key) > 1}
    names = representation_names(embedder)
    methods = [MOST_FREQUENT, *(f"{name}, nearest mean" for name in names)]
    methods += [f"{name}, {neighbors} nearest" for name in names if neighbors]
    default = _answers_without_vectors(instances, inventory, first_senses or {})
    answers = np.tile(default, (len(methods), 1))
    if keys:
        table = SenseTable(inventory, keys)
        learn, ask = Occurrences.to_learn_from(train, table), Occurrences.to_test(test, table)
        identity = {
            "analysis": "senses",
            "model": model_digest(embedder),
            "data": digest(pair for part in (learn, ask) for pair in zip(part.words, part.spans, strict=True)),
        }
        ties = np.random.default_rng(seed).random((len(ask.keys), np.diff(table.bounds).max()), dtype=np.float32)
        with WorkFolder(work, identity) as folder:
            nearest = NearestSenses(embedder, learn, table, neighbors, folder, progress)
            for block in span_blocks(embedder, ask.words, ask.spans, work=folder, name="test", progress=progress):
                found = nearest.answers(block.vectors, ask.keys[block.spans], ties[block.spans])
                answers[1:, ask.labels[block.spans]] = table.names[found]
    return _results(train, test, instances, inventory, names, methods, answers, neighbors)


def _answers_without_vectors(
    instances: Sequence[SenseInstance], inventory: Inventory, first_senses: Mapping[Key, str]
) -> np.ndarray:
    """The most frequent sense, else the first one, else an empty string."""
    keys = map(key_of, instances)
    return np.array([inventory.most_frequent(key) or first_senses.get(key, "") for key in keys], dtype=object)


def _results(
    train: Sequence[SenseSentence],
    test: Sequence[SenseSentence],
    instances: Sequence[SenseInstance],
    inventory: Inventory,
    names: list[str],
    methods: list[str],
    answers: np.ndarray,
    neighbors: int,
) -> SenseResults:
    is_right = np.array([[found in one.senses for found, one in zip(row, instances, strict=True)] for row in answers])
    candidates = np.array([inventory.candidates(key_of(instance)) for instance in instances])
    found_pos = {instance.pos for instance in instances if instance.pos}
    pos = [*(name for name in USUAL_POS if name in found_pos), *sorted(found_pos - set(USUAL_POS))]
    members = {"all": np.full(len(instances), True), "ambiguous": candidates > 1}
    members |= {name: np.array([instance.pos == name for instance in instances]) for name in pos}
    members = {name: chosen for name, chosen in members.items() if chosen.any()}
    is_answered = answers[0] != ""
    return SenseResults(
        methods=methods,
        representations=names,
        groups=list(members),
        counts=np.array([chosen.sum() for chosen in members.values()]),
        accuracy=np.stack([is_right[:, chosen].mean(axis=1) for chosen in members.values()], axis=1),
        neighbors=neighbors,
        train_instances=sum(len(sentence.instances) for sentence in train),
        train_sentences=len(train),
        test_sentences=len(test),
        fallback=int((is_answered & (candidates == 0)).sum()),
        unanswered=int((~is_answered).sum()),
        answers=answers,
    )


__all__ = ["MOST_FREQUENT", "SenseResults", "senses"]
