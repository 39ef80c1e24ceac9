"""
Word sense disambiguation, as in section 5.3 of the paper. A word of the test text gets the sense whose mean vector in a
training text is nearest by cosine: in each layer, in the model's mix, and in a mix that is learned for this from the
training text. It is compared with the nearest occurrences (k-NN), with the most frequent sense of the training text,
and with WordNet's first sense, if a list of first senses is given.

The candidates of a word are the senses of its lemma and part of speech in the training text. A word with one candidate
gets that sense; a word without candidates gets WordNet's first sense, if there is a list of them. Only words with
several candidates are embedded.
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

MOST_FREQUENT, FIRST_SENSE = "most frequent sense", "first sense"
LEARNED_MIX = "learned mix"
USUAL_POS = ("noun", "verb", "adjective", "adverb")


@dataclass
class SenseResults:
    """
    The accuracy of all methods.

    Attributes:
        methods: The most frequent sense, WordNet's first sense if a list of first senses is given, the nearest mean in
            each representation and in the learned mix, and the nearest occurrences in each representation.
        representations: The layers, and their mix.
        groups: "all", "ambiguous" (words with several candidates), and each part of speech in the test text.
        counts (`np.ndarray` of shape `(groups,)`): The number of occurrences in the test text.
        accuracy (`np.ndarray` of shape `(methods, groups)`): The share of correct answers; an occurrence without an
            answer counts as wrong.
        neighbors: The number of occurrences that vote in k-NN; 0: no k-NN.
        learned_mix: The share of each layer in the mix that is learned from the training text; `None` if none of its
            ambiguous words in the test text has a sense that occurs twice.
        train_instances, train_sentences, test_sentences: The sizes of the data.
        fallback: The number of occurrences whose answer is WordNet's first sense.
        unanswered: The number of occurrences without an answer: their words are neither in the training text nor in the
            list of first senses.
        answers (`np.ndarray` of shape `(methods, occurrences)`): The senses, as strings; empty if there is no answer.
    """

    methods: list[str]
    representations: list[str]
    groups: list[str]
    counts: np.ndarray
    accuracy: np.ndarray
    neighbors: int
    learned_mix: list[float] | None
    train_instances: int
    train_sentences: int
    test_sentences: int
    fallback: int
    unanswered: int
    answers: np.ndarray = field(repr=False, metadata={"json": False})

    def table(self) -> str:
        """A table of the accuracies in per cent."""
        rows = [[name, *map(per_cent, values)] for name, values in zip(self.methods, self.accuracy, strict=True)]
        rows.append(["occurrences", *(f"{count:,}" for count in self.counts)])
        notes = [
            f"Accuracy in per cent. Learned from {counted(self.train_instances, 'occurrence')} in "
            f"{counted(self.train_sentences, 'sentence')}."
        ]
        if self.learned_mix:
            shares = ", ".join(f"{share:.2f}" for share in self.learned_mix)
            notes.append(f"The learned mix has these shares of the layers: {shares}.")
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
    Disambiguates the words of a test text.

    Args:
        embedder: The model.
        train, test: Sentences from [`read_senses`].
        neighbors: The number of occurrences that vote in k-NN; 0: no k-NN. Occurrences as near as the last of them vote
            too.
        first_senses: WordNet's first senses, from [`read_first_senses`]: a baseline, and the answers for words that are
            not in the training text.
        seed: The seed of the choice between equally near means. There are many in layer 0, which has no context.
        work: A folder for the vectors. After a stop, the same call continues there.
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
    learned_mix: np.ndarray | None = None
    # Occurrences, and their answers by each method but the baselines.
    nearest_answers: list[tuple[np.ndarray, np.ndarray]] = []
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
            nearest = NearestSenses(embedder, learn, table, neighbors, seed, folder, progress)
            learned_mix = nearest.learned_mix
            for block in span_blocks(embedder, ask.words, ask.spans, work=folder, name="test", progress=progress):
                rows = nearest.answers(block.vectors, ask.keys[block.spans], ties[block.spans])
                nearest_answers.append((ask.places[block.spans], table.names[rows]))
    baselines = [MOST_FREQUENT] if first_senses is None else [MOST_FREQUENT, FIRST_SENSE]
    methods = [*baselines, *(f"{name}, nearest mean" for name in names)]
    methods += [] if learned_mix is None else [f"{LEARNED_MIX}, nearest mean"]
    methods += [f"{name}, {neighbors} nearest" for name in names if neighbors]
    answers = np.tile(_answers_without_vectors(instances, inventory, first_senses or {}), (len(methods), 1))
    for places, senses in nearest_answers:
        answers[len(baselines) :, places] = senses
    if first_senses is not None:
        answers[methods.index(FIRST_SENSE)] = [first_senses.get(key_of(instance), "") for instance in instances]
    mix = None if learned_mix is None else learned_mix.tolist()
    return _results(train, test, instances, inventory, names, methods, answers, neighbors, mix)


def _answers_without_vectors(
    instances: Sequence[SenseInstance], inventory: Inventory, first_senses: Mapping[Key, str]
) -> np.ndarray:
    """The most frequent sense of each instance; WordNet's first sense if there is none; else an empty string."""
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
    learned_mix: list[float] | None,
) -> SenseResults:
    is_right = np.array([[sense in one.senses for sense, one in zip(row, instances, strict=True)] for row in answers])
    candidates = np.array([inventory.candidates(key_of(instance)) for instance in instances])
    present = {instance.pos for instance in instances if instance.pos}
    pos = [*(name for name in USUAL_POS if name in present), *sorted(present - set(USUAL_POS))]
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
        learned_mix=learned_mix,
        train_instances=sum(len(sentence.instances) for sentence in train),
        train_sentences=len(train),
        test_sentences=len(test),
        fallback=int((is_answered & (candidates == 0)).sum()),
        unanswered=int((~is_answered).sum()),
        answers=answers,
    )


__all__ = ["FIRST_SENSE", "LEARNED_MIX", "MOST_FREQUENT", "SenseResults", "senses"]
