"""What a task of `elmo-hf finetune` is: how examples are read, and their labels, features, batches and metrics."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from transformers import BatchEncoding, EvalPrediction

from ..modeling.configuration_elmo import HEADS, ElmoConfig
from ..modeling.modeling_heads_elmo import ElmoTaskModel
from ..modeling.tokenization_elmo import ElmoTokenizer

IGNORED = -100


class Task(ABC):
    """
    A task: one kind of example, and the head that learns from such examples.

    Attributes:
        name: The name of the task, a key of `TASKS`.
        labels: The labels in the order of their ids.
        best_metric: The metric that decides which of two models is better; larger is better.
        largest_batch: The default of `batch_size`, and the largest batch of evaluations and of filling the layer cache;
            `None` for that of the settings.
    """

    name: str
    labels: list[str]
    best_metric: str
    largest_batch: int | None = None

    @property
    def model_class(self) -> type[ElmoTaskModel]:
        """The head that the registry names for this task."""
        return next(head.model_class for head in HEADS if head.task == self.name)

    @staticmethod
    @abstractmethod
    def read(source: str, **options: Any) -> list[Any]:
        """Reads the examples of a file or a dataset."""

    @classmethod
    @abstractmethod
    def of(cls, examples: Sequence[Any]) -> "Task":
        """The task of these examples, with all their labels."""

    @classmethod  # noqa: B027 (not every task has such a rule)
    def check_sources(cls, sources: Sequence[tuple[str, Sequence[Any]]]):
        """
        Raises an error if the sources hold different kinds of examples.

        Args:
            sources: The name and the examples of each source, the training data first.
        """

    def config_fields(self) -> dict[str, Any]:
        """The fields of the head's config that depend on the task."""
        return {
            "id2label": dict(enumerate(self.labels)),
            "label2id": {label: label_id for label_id, label in enumerate(self.labels)},
        }

    @abstractmethod
    def words(self, examples: Sequence[Any], tokenizer: ElmoTokenizer) -> Iterator[str]:
        """Yields all words of the examples."""

    @abstractmethod
    def features(self, example: Any, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        """The features of an example for `collate`. The length of `input_ids` is the length of the example."""

    def evaluation_features(self, example: Any, tokenizer: ElmoTokenizer) -> list[dict[str, Any]]:
        """The features of an example in an evaluation: several if the task reads a long one in windows."""
        return [self.features(example, tokenizer)]

    @abstractmethod
    def collate(self, features: list[dict[str, Any]], tokenizer: ElmoTokenizer) -> BatchEncoding:
        """Builds a batch from the features of examples."""

    @abstractmethod
    def check_variety(self, examples: Sequence[Any], source: str):
        """
        Raises an error if nothing can be learned from the training data.

        Args:
            source: The name of the training data, for the message.
        """

    @abstractmethod
    def metrics(
        self, prediction: EvalPrediction, features: Sequence[dict[str, Any]] = (), config: ElmoConfig | None = None
    ) -> dict[str, float]:
        """
        Computes the metrics of logits.

        Args:
            prediction: The outputs of the head, and the labels.
            features: The features of the examples (all of [`Task.evaluation_features`]), in the order of the outputs.
            config: The config of the head.
        """


__all__ = ["IGNORED", "Task"]
