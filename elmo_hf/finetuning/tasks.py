"""Tagging and classification as the Trainer needs them: labels, features, batches, metrics."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from transformers import BatchEncoding, EvalPrediction

from ..errors import TextError, counted
from ..modeling.configuration_elmo import HEADS
from ..modeling.crf_elmo import allowed_transitions
from ..modeling.modeling_heads_elmo import ElmoTaskModel
from ..modeling.tokenization_elmo import ElmoTokenizer
from .classification_data import LabelledText
from .metrics import classification_metrics, multi_label_metrics, regression_metrics, span_metrics
from .tagging_data import TaggedSentence

IGNORED = -100
MOST_TAGS_OF_FEW_WORDS = 20  # more than these, and than half of the words, are no tags
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


class Task(ABC):
    """
    A task on examples of one kind.

    Attributes:
        name: "tagging" or "classification".
        labels: By id.
        best_metric: What says which of two models is better; more is better.
    """

    name: str
    labels: list[str]
    best_metric: str

    @property
    def model_class(self) -> type[ElmoTaskModel]:
        """The head that the registry names for this task."""
        return next(head.model_class for head in HEADS if head.task == self.name)

    def config_fields(self) -> dict[str, Any]:
        """What the head's config says about the task."""
        return {
            "id2label": dict(enumerate(self.labels)),
            "label2id": {label: number for number, label in enumerate(self.labels)},
        }

    @abstractmethod
    def words(self, examples: Sequence[Any], tokenizer: ElmoTokenizer) -> Iterator[str]:
        """All words of the examples."""

    @abstractmethod
    def features(self, example: Any, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        """What `collate` needs of an example; `input_ids` tell its length."""

    @abstractmethod
    def collate(self, features: list[dict[str, Any]], tokenizer: ElmoTokenizer) -> BatchEncoding:
        """A batch."""

    @abstractmethod
    def check_variety(self, examples: Sequence[Any], source: str):
        """
        Refuses training data of which nothing can be learned.

        Args:
            source: Where they come from, for the message.
        """

    @abstractmethod
    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """How good logits are."""


class TaggingTask(Task):
    """
    One tag for each word.

    Args:
        tags: All there are. "O" comes first, the others by the alphabet.
    """

    name = "tagging"

    def __init__(self, tags: Sequence[str]):
        self.labels = sorted(set(tags), key=lambda tag: (tag != "O", tag))
        self._numbers = {tag: number for number, tag in enumerate(self.labels)}
        self.has_spans = allowed_transitions(self.labels) is not None
        self.best_metric = "f1" if self.has_spans else "accuracy"

    @classmethod
    def of(cls, examples: Sequence[TaggedSentence]) -> "TaggingTask":
        """The task of these examples."""
        return cls(sorted({tag for example in examples for tag in example.tags or ()}))

    def words(self, examples: Sequence[TaggedSentence], tokenizer: ElmoTokenizer) -> Iterator[str]:
        return chain.from_iterable(example.words for example in examples)

    def features(self, example: TaggedSentence, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        tags = [number_of(tag, self._numbers) for tag in example.tags or ()]
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
        if len(tags) > max(MOST_TAGS_OF_FEW_WORDS, tags.total() / 2):
            raise TextError(
                f"{source}: {counted(tags.total(), 'word')} with {counted(len(tags), 'different tag')}, such as "
                f"{', '.join(list(tags)[:3])}: "
                "is it plain text, or is --tag-column another one? A word and its tag should be on each line."
            )

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        found, wanted = np.asarray(prediction.predictions).argmax(-1), np.asarray(prediction.label_ids)
        is_labelled = wanted != IGNORED
        accuracy = float((found == wanted)[is_labelled].mean())
        if not self.has_spans:
            return classification_metrics(found[is_labelled], wanted[is_labelled])
        rows = [
            [[self.labels[number] for number in numbers[mask]] for numbers, mask in zip(side, is_labelled, strict=True)]
            for side in (wanted, found)
        ]
        return span_metrics(*rows) | {"accuracy": accuracy}


class ClassificationTask(Task):
    """
    One label, several labels or a number for each text or pair of texts.

    Args:
        labels: All there are.
        problem_type: As in transformers.
        pairs: Whether they are of pairs.
    """

    name = "classification"

    def __init__(self, labels: Sequence[str], problem_type: str, pairs: bool):
        self.labels, self.problem_type, self.pairs = list(labels), problem_type, pairs
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        names = {"regression": "pearson", "multi_label_classification": "macro_f1"}
        self.best_metric = names.get(problem_type, "accuracy")

    @classmethod
    def of(cls, examples: Sequence[LabelledText]) -> "ClassificationTask":
        """The task of these examples."""
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

    def config_fields(self) -> dict[str, Any]:
        return super().config_fields() | {"problem_type": self.problem_type, "text_pairs": self.pairs}

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
            chosen = {number_of(name, self._numbers) for name in label}
            return [float(number in chosen) for number in range(len(self.labels))]
        return number_of(str(label), self._numbers)

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

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        logits, wanted = np.asarray(prediction.predictions), np.asarray(prediction.label_ids)
        if self.problem_type == "regression":
            return regression_metrics(logits.ravel(), wanted.ravel())
        if self.problem_type == "multi_label_classification":
            return multi_label_metrics(logits > 0, wanted > 0.5)
        return classification_metrics(logits.argmax(-1), wanted)


def _are_scores(labels: Sequence[Any]) -> bool:
    """Whether these are numbers, as text or not, and some of them have a point: whole numbers alone are names."""
    texts = [str(label) for label in labels if isinstance(label, (str, int, float))]
    return len(texts) == len(labels) and all(map(NUMBER.fullmatch, texts)) and any("." in text for text in texts)


def number_of(label: str, numbers: Mapping[str, int]) -> int:
    """The id of a label that must be known."""
    if label not in numbers:
        raise TextError(f"The label {label!r} is not one of the task's: {', '.join(numbers)}.")
    return numbers[label]


__all__ = ["ClassificationTask", "TaggingTask", "Task"]
