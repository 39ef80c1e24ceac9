"""The tasks of `elmo-hf finetune`: tagging, classification, and the registry of all."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from transformers import BatchEncoding, EvalPrediction

from ..data.coreference import CoreferenceDocument, Span, read_coreference
from ..data.roles import PredicateRoles, read_roles
from ..errors import TextError, counted
from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.task_layers_elmo import allowed_transitions
from ..modeling.tokenization_elmo import ElmoTokenizer
from .classification_data import LabelledText, read_labelled
from .coreference_metrics import coreference_metrics
from .metrics import classification_metrics, multi_label_metrics, regression_metrics, span_metrics
from .question_answering_task import QuestionAnsweringTask
from .role_metrics import role_metrics
from .tagging_data import TaggedSentence, read_tagged
from .task import IGNORED, Task

MAX_PLAUSIBLE_TAGS = 20  # a text with more distinct tags than this, and than half of its words, has no tags
NUMERAL = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


class TaggingTask(Task):
    """
    One tag for each word.

    Args:
        tags: All tags. "O" gets the first id, the others follow in alphabetical order.
    """

    name = "tagging"

    def __init__(self, tags: Sequence[str]):
        self.labels = sorted(set(tags), key=lambda tag: (tag != "O", tag))
        self._label_ids = {tag: label_id for label_id, tag in enumerate(self.labels)}
        self.has_spans = allowed_transitions(self.labels) is not None
        self.best_metric = "f1" if self.has_spans else "accuracy"

    @staticmethod
    def read(source: str, **options: Any) -> list[TaggedSentence]:
        return read_tagged(source, **options)

    @classmethod
    def of(cls, examples: Sequence[TaggedSentence]) -> "TaggingTask":
        return cls(sorted({tag for example in examples for tag in example.tags or ()}))

    def words(self, examples: Sequence[TaggedSentence], tokenizer: ElmoTokenizer) -> Iterator[str]:
        return chain.from_iterable(example.words for example in examples)

    def features(self, example: TaggedSentence, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        tags = [find_label_id(tag, self._label_ids) for tag in example.tags or ()]
        return {"words": example.words, "input_ids": range(len(example.words) + 2), "labels": tags}

    def collate(self, features: list[dict[str, Any]], tokenizer: ElmoTokenizer) -> BatchEncoding:
        batch = tokenizer(
            [feature["words"] for feature in features],
            is_split_into_words=True,
            padding=True,
            padding_side="right",
            return_tensors="pt",
        )
        if features[0]["labels"]:
            labels = torch.full(batch["input_ids"].shape, IGNORED)
            for row, feature in enumerate(features):
                labels[row, 1 : len(feature["labels"]) + 1] = torch.tensor(feature["labels"])
            batch["labels"] = labels
        return batch

    def check_variety(self, examples: Sequence[TaggedSentence], source: str):
        tags = Counter(tag for example in examples for tag in example.tags or ())
        if len(tags) < 2:
            raise TextError(f"{source}: every word has the tag {next(iter(tags))!r}, so there is nothing to learn.")
        if len(tags) > max(MAX_PLAUSIBLE_TAGS, tags.total() / 2):
            raise TextError(
                f"{source}: {counted(tags.total(), 'word')} with {counted(len(tags), 'different tag')}, such as "
                f"{', '.join(list(tags)[:3])}: "
                "is it plain text, or is --tag-column another one? A word and its tag should be on each line."
            )

    def metrics(
        self, prediction: EvalPrediction, features: Sequence[dict[str, Any]] = (), config: ElmoConfig | None = None
    ) -> dict[str, float]:
        predicted, wanted = np.asarray(prediction.predictions).argmax(-1), np.asarray(prediction.label_ids)
        is_labelled = wanted != IGNORED
        accuracy = float((predicted == wanted)[is_labelled].mean())
        if not self.has_spans:
            return classification_metrics(predicted[is_labelled], wanted[is_labelled])
        return span_metrics(*self._tags(wanted, predicted)) | {"accuracy": accuracy}

    def _tags(self, wanted: np.ndarray, predicted: np.ndarray) -> tuple[list[list[str]], list[list[str]]]:
        """The wanted and the predicted tags of each row, from label ids `(rows, words)`."""
        is_labelled = wanted != IGNORED
        sides = [
            [[self.labels[label] for label in labels[mask]] for labels, mask in zip(side, is_labelled, strict=True)]
            for side in (wanted, predicted)
        ]
        return sides[0], sides[1]


class RolesTask(TaggingTask):
    """
    Semantic roles: one BIO tag for each word, given a predicate.

    Args:
        tags: All tags. "O" gets the first id, the others follow in alphabetical order.
    """

    name = "roles"

    @staticmethod
    def read(source: str, **options: Any) -> list[PredicateRoles]:
        return read_roles(source, **options)

    def features(self, example: PredicateRoles, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        tagged = TaggedSentence(example.words, example.tags)
        return super().features(tagged, tokenizer) | {"predicate": example.predicate}

    def collate(self, features: list[dict[str, Any]], tokenizer: ElmoTokenizer) -> BatchEncoding:
        batch = super().collate(features, tokenizer)
        batch["predicate_mask"] = mark_predicates(batch, [feature["predicate"] for feature in features])
        return batch

    def metrics(
        self, prediction: EvalPrediction, features: Sequence[dict[str, Any]] = (), config: ElmoConfig | None = None
    ) -> dict[str, float]:
        predicted, wanted = np.asarray(prediction.predictions).argmax(-1), np.asarray(prediction.label_ids)
        return role_metrics(*self._tags(wanted, predicted))


def mark_predicates(batch: BatchEncoding, predicates: Sequence[int]) -> torch.Tensor:
    """The `predicate_mask` `(batch, words)` of [`ElmoForSemanticRoles`] from the index of the predicate in each row."""
    mask = torch.zeros_like(batch["input_ids"])
    mask[range(len(predicates)), [predicate + 1 for predicate in predicates]] = 1  # after <S>
    return mask


class CoreferenceTask(Task):
    """Clusters of mentions in documents. Batches are of one document, whose sentences are the rows."""

    name = "coreference"
    best_metric = "f1"
    largest_batch = 1

    def __init__(self):
        self.labels = []

    @staticmethod
    def read(source: str, **options: Any) -> list[CoreferenceDocument]:
        return read_coreference(source, **options)

    @classmethod
    def of(cls, examples: Sequence[CoreferenceDocument]) -> "CoreferenceTask":
        return cls()

    def config_fields(self) -> dict[str, Any]:
        return {}

    def words(self, examples: Sequence[CoreferenceDocument], tokenizer: ElmoTokenizer) -> Iterator[str]:
        return (word for example in examples for sentence in example.sentences for word in sentence)

    def features(self, example: CoreferenceDocument, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        length = sum(len(sentence) + 2 for sentence in example.sentences)
        mentions = [
            [first, last, cluster] for cluster, spans in enumerate(example.clusters or []) for first, last in spans
        ]
        labels = None if example.clusters is None else mentions
        return {"sentences": example.sentences, "input_ids": range(length), "labels": labels}

    def collate(self, features: list[dict[str, Any]], tokenizer: ElmoTokenizer) -> BatchEncoding:
        sentences = [sentence for feature in features for sentence in feature["sentences"]]
        batch = tokenizer(sentences, is_split_into_words=True, padding=True, padding_side="right", return_tensors="pt")
        counts = torch.tensor([len(feature["sentences"]) for feature in features])
        batch["document_ids"] = torch.arange(len(features)).repeat_interleave(counts)
        if features[0]["labels"] is not None:
            most = max(len(feature["labels"]) for feature in features)
            labels = torch.full((len(features), most, 3), IGNORED)
            for row, feature in enumerate(features):
                if feature["labels"]:
                    labels[row, : len(feature["labels"])] = torch.tensor(feature["labels"])
            batch["labels"] = labels
        return batch

    def check_variety(self, examples: Sequence[CoreferenceDocument], source: str):
        if not any(len(cluster) > 1 for example in examples for cluster in example.clusters or ()):
            raise TextError(f"{source}: no cluster has two mentions, so there is nothing to learn.")

    def metrics(
        self, prediction: EvalPrediction, features: Sequence[dict[str, Any]] = (), config: ElmoConfig | None = None
    ) -> dict[str, float]:
        wanted, predicted = (
            list(map(clusters_of, np.asarray(side))) for side in (prediction.label_ids, prediction.predictions)
        )
        return coreference_metrics(wanted, predicted)


def clusters_of(mentions: np.ndarray) -> list[list[Span]]:
    """The clusters of a document from first word, last word and cluster of each mention, `(mentions, 3)`."""
    clusters: dict[int, list[Span]] = {}
    for first, last, cluster in mentions.tolist():
        if first != IGNORED:
            clusters.setdefault(cluster, []).append((first, last))
    return list(clusters.values())


class ClassificationTask(Task):
    """
    One label, several labels or a score for each text or pair of texts.

    Args:
        labels: All labels, in the order of their ids.
        problem_type: The problem type, as in transformers.
        pairs: Whether the examples are pairs of texts.
    """

    name = "classification"

    def __init__(self, labels: Sequence[str], problem_type: str, pairs: bool):
        self.labels, self.problem_type, self.pairs = list(labels), problem_type, pairs
        self._label_ids = {label: label_id for label_id, label in enumerate(self.labels)}
        names = {"regression": "pearson", "multi_label_classification": "macro_f1"}
        self.best_metric = names.get(problem_type, "accuracy")

    @staticmethod
    def read(source: str, **options: Any) -> list[LabelledText]:
        return read_labelled(source, **options)

    @classmethod
    def of(cls, examples: Sequence[LabelledText]) -> "ClassificationTask":
        kinds = {type(example.label) for example in examples}
        if _are_scores([example.label for example in examples]):
            kinds = {float}
        if len(kinds) > 1:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise TextError(f"Labels must be of one kind, found {names}.")
        with_pair = {example.pair is not None for example in examples}
        if len(with_pair) > 1:
            raise TextError("Some texts have a pair and some have none.")
        (pairs,) = with_pair
        if kinds == {float}:
            return cls(["score"], "regression", pairs)
        if kinds == {list}:
            labels = {label for example in examples for label in cast(list[str], example.label)}
            return cls(sorted(labels), "multi_label_classification", pairs)
        return cls(sorted({str(example.label) for example in examples}), "single_label_classification", pairs)

    @classmethod
    def check_sources(cls, sources: Sequence[tuple[str, Sequence[LabelledText]]]):
        (train, train_examples), *others = sources
        first = train_examples[0]
        for source, examples in others:
            for other in examples[:1]:
                if (other.pair is None) != (first.pair is None):
                    has, train_has = ("has pairs of texts", "has none") if other.pair else ("has no pairs", "has them")
                    raise TextError(f"{source} {has}, and {train} {train_has}.")
                if isinstance(other.label, list) != isinstance(first.label, list):
                    raise TextError(f"{source}: a label is {other.label!r:.60}, and in {train} {first.label!r:.60}.")

    def config_fields(self) -> dict[str, Any]:
        fields = super().config_fields() | {"problem_type": self.problem_type, "text_pairs": self.pairs}
        if self.pairs:  # docs/decisions/pairs.md
            fields |= {"elmo_layer_norm": True, "elmo_dropout": 0.2}
        return fields

    def words(self, examples: Sequence[LabelledText], tokenizer: ElmoTokenizer) -> Iterator[str]:
        for example in examples:
            yield from tokenizer.tokenize(example.text, example.pair)

    def features(self, example: LabelledText, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        length = len(tokenizer.tokenize(example.text, example.pair)) + (2 if example.pair is None else 4)
        label = None if example.label is None else self._label(example.label)
        return {"text": example.text, "pair": example.pair, "input_ids": range(length), "label": label}

    def _label(self, label: str | float | list[str]) -> int | list[float]:
        if self.problem_type == "regression":
            return [float(cast(float, label))]
        if isinstance(label, list):
            chosen = {find_label_id(name, self._label_ids) for name in label}
            return [float(label_id in chosen) for label_id in range(len(self.labels))]
        return find_label_id(str(label), self._label_ids)

    def collate(self, features: list[dict[str, Any]], tokenizer: ElmoTokenizer) -> BatchEncoding:
        texts, pairs = ([feature[name] for feature in features] for name in ("text", "pair"))
        batch = tokenizer(texts, pairs if self.pairs else None, padding=True, return_tensors="pt")
        if features[0]["label"] is not None:
            batch["labels"] = torch.tensor([feature["label"] for feature in features])
        return batch

    def check_variety(self, examples: Sequence[LabelledText], source: str):
        labels = {str(example.label) for example in examples}
        if len(labels) < 2:
            raise TextError(f"{source}: every text has the label {labels.pop()!r}, so there is nothing to learn.")

    def metrics(
        self, prediction: EvalPrediction, features: Sequence[dict[str, Any]] = (), config: ElmoConfig | None = None
    ) -> dict[str, float]:
        logits, wanted = np.asarray(prediction.predictions), np.asarray(prediction.label_ids)
        if self.problem_type == "regression":
            return regression_metrics(logits.ravel(), wanted.ravel())
        if self.problem_type == "multi_label_classification":
            return multi_label_metrics(logits > 0, wanted > 0.5)
        return classification_metrics(logits.argmax(-1), wanted)


def _are_scores(labels: Sequence[Any]) -> bool:
    """Whether labels are scores: all are numbers, as text or not, and some have a decimal point. Integers are names."""
    texts = [str(label) for label in labels if isinstance(label, (str, int, float))]
    return len(texts) == len(labels) and all(map(NUMERAL.fullmatch, texts)) and any("." in text for text in texts)


def find_label_id(label: str, label_ids: Mapping[str, int]) -> int:
    """The id of a label. An unknown label raises an error."""
    if label not in label_ids:
        raise TextError(f"The label {label!r} is not one of the task's: {', '.join(label_ids)}.")
    return label_ids[label]


TASKS: dict[str, type[Task]] = {
    task.name: task for task in (TaggingTask, ClassificationTask, RolesTask, CoreferenceTask, QuestionAnsweringTask)
}
"""The tasks of `elmo-hf finetune`, by name."""

__all__ = [
    "TASKS",
    "ClassificationTask",
    "CoreferenceTask",
    "QuestionAnsweringTask",
    "RolesTask",
    "TaggingTask",
    "Task",
    "clusters_of",
    "mark_predicates",
]
