"""
Linear probes: softmax classifiers on the vectors of each frozen layer, of their mix, and of the concatenated layers.
Their accuracies show what a linear classifier can read from a layer.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

from ..embedding import ElmoEmbedder
from ..errors import TextError, counted
from ..finetuning.tagging_data import TaggedSentence
from ..finetuning.tasks import TaggingTask
from ..runtime.progress import Progress
from .layer_vectors import representation_names, span_blocks
from .report import mean_and_range, per_cent, text_table
from .work_folder import WorkFolder, digest, model_digest

CONCATENATION = "concatenation"
WORDS_AT_ONCE = 8192  # per batch of an evaluation


@dataclass
class ProbeSettings:
    """
    The settings of the training: AdamW on standardised features, with a learning rate that falls to zero. For each
    probe, the weights that are best on the development data are kept.

    Args:
        epochs: The number of passes over the training data; more if they have fewer than `least_steps` steps.
        least_steps: The minimum number of steps.
        batch_size: The number of words per step.
        learning_rate, weight_decay: The learning rate and the weight decay of AdamW.
        evaluations: The number of evaluations on the development data, spread evenly over the training.
    """

    epochs: int = 10
    least_steps: int = 2000
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    evaluations: int = 10

    def __post_init__(self):
        for name in ("epochs", "least_steps", "batch_size", "evaluations"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be 1 or more, found {getattr(self, name)}.")


@dataclass
class ProbeScores:
    """
    The accuracies of the probes on a part of the data. Unknown words do not occur in the training data in the same
    spelling; if there are none, their accuracies are `nan`.

    Attributes:
        words, unknown_words: The numbers of words.
        accuracy, unknown_accuracy (`np.ndarray` of shape `(seeds, representations)`): The share of correct tags.
        baseline, unknown_baseline: The accuracy of the most frequent tag of each word; for an unknown word, of the most
            frequent tag of all words.
    """

    words: int
    unknown_words: int
    accuracy: np.ndarray
    unknown_accuracy: np.ndarray
    baseline: float
    unknown_baseline: float


@dataclass
class ProbeResults:
    """
    The results of all probes.

    Attributes:
        representations: The layers, the mix, the concatenation.
        tags: All tags.
        seeds: The seeds of the probes' weights and of the order of the words.
        train_words: The number of words of the training data.
        scores: The scores by part: "dev", and "test" if there is one.
        settings: The settings of the probes.
    """

    representations: list[str]
    tags: list[str]
    seeds: list[int]
    train_words: int
    scores: dict[str, ProbeScores]
    settings: dict[str, Any]

    def table(self) -> str:
        """A table of the accuracies in per cent; with several seeds their means and ranges."""
        header, columns = [""], []
        for part, scores in self.scores.items():
            header += [part, f"{part}, unknown"]
            columns.append([per_cent(scores.baseline), *map(mean_and_range, scores.accuracy.T)])
            columns.append([per_cent(scores.unknown_baseline), *map(mean_and_range, scores.unknown_accuracy.T)])
        names = ["most frequent tag", *self.representations]
        rows = [[name, *cells] for name, *cells in zip(names, *columns, strict=True)]
        counts = [count for scores in self.scores.values() for count in (scores.words, scores.unknown_words)]
        rows.append(["words", *(f"{count:,}" for count in counts)])
        note = (
            f"Accuracy in per cent. {counted(len(self.tags), 'tag')}, learned from {counted(self.train_words, 'word')}"
        )
        if len(self.seeds) > 1:
            note += f"; mean and range of {len(self.seeds)} seeds"
        return text_table(header, rows, [note + "."])


def probe(
    embedder: ElmoEmbedder,
    train: Sequence[TaggedSentence],
    dev: Sequence[TaggedSentence],
    test: Sequence[TaggedSentence] | None = None,
    *,
    seeds: Sequence[int] = (0,),
    settings: ProbeSettings | None = None,
    work: str | PathLike | None = None,
    progress: Progress = None,
    train_name: str = "the training data",
) -> ProbeResults:
    """
    Trains and evaluates the probes.

    Args:
        embedder: The model.
        train, dev, test: Sentences from [`read_tagged`]. The weights that are best on the development data are kept.
        seeds: The seeds. All probes are trained once with each.
        settings: The settings of the training.
        work: A folder for vectors and results. After a stop, the same call continues there.
        progress: As in [`ElmoEmbedder.embed`]; `True` also shows a bar for the training.
        train_name: The name of the training data in messages.
    """
    settings = settings or ProbeSettings()
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"`seeds` must be one or more different numbers, found {list(seeds)}.")
    parts = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
    for name, sentences in parts.items():
        if not any(sentence.words for sentence in sentences):
            raise TextError(f"The part {name!r} has no words.")
    task = TaggingTask.of([sentence for sentences in parts.values() for sentence in sentences])
    task.check_variety(train, train_name)
    data = {name: _Part(sentences, train, task.labels) for name, sentences in parts.items()}
    identity = {
        "analysis": "probe",
        "model": model_digest(embedder),
        "data": digest((name, sentence) for name, sentences in parts.items() for sentence in sentences),
    }
    with WorkFolder(work, identity) as folder:

        def learn(seed: int) -> dict[str, Any]:
            for name, part in data.items():
                part.embed(embedder, folder, name, progress)
            probes = Probes(data["train"].vectors, data["train"].tags, embedder.num_layers, len(task.labels), seed)
            probes.learn(data["dev"].vectors, data["dev"].tags, settings, progress is True)
            return {name: part.accuracies(probes) for name, part in data.items() if name != "train"}

        records = [folder.record(f"seed-{seed}-{digest([settings])}", partial(learn, seed)) for seed in seeds]
    scores = {name: part.scores([record[name] for record in records]) for name, part in data.items() if name != "train"}
    names = [*representation_names(embedder), CONCATENATION]
    return ProbeResults(names, task.labels, list(seeds), len(data["train"].tags), scores, asdict(settings))


class _Part:
    """
    A part of the data.

    Args:
        sentences: The sentences of the part.
        train: The training data. Words that do not occur there are unknown.
        labels: All tags.

    Attributes:
        tags: The ids of the tags, `(words,)`.
        vectors: The vectors of all words in half precision, `(words, representations, hidden_size)`, after
            [`_Part.embed`].
    """

    def __init__(self, sentences: Sequence[TaggedSentence], train: Sequence[TaggedSentence], labels: Sequence[str]):
        tag_ids = {tag: tag_id for tag_id, tag in enumerate(labels)}
        known = {word for sentence in train for word in sentence.words}
        self._words = [sentence.words for sentence in sentences]
        self.tags = torch.tensor([tag_ids[tag] for sentence in sentences for tag in sentence.tags or ()])
        self._is_unknown = torch.tensor([word not in known for words in self._words for word in words])
        answers = torch.tensor([tag_ids[tag] for tag in _most_frequent_tags(train, self._words)])
        self._baseline = answers == self.tags
        self.vectors = torch.empty(0)

    def embed(self, embedder: ElmoEmbedder, work: WorkFolder, name: str, progress: Progress):
        """Computes the vectors, unless they are computed already."""
        if len(self.vectors):
            return
        spans = [[(place, place + 1) for place in range(len(words))] for words in self._words]
        shape = len(self.tags), len(representation_names(embedder)), embedder.hidden_size
        self.vectors = torch.empty(shape, dtype=torch.float16)
        for block in span_blocks(embedder, self._words, spans, work=work, name=name, progress=progress):
            self.vectors[block.spans] = torch.from_numpy(block.vectors).transpose(0, 1).half()

    def accuracies(self, probes: "Probes") -> dict[str, list[float | None]]:
        """The accuracies of each probe, on all words and on unknown words."""
        is_right = (probes.predict(self.vectors) == self.tags).double()
        unknown = is_right[:, self._is_unknown]
        return {
            "accuracy": is_right.mean(dim=1).tolist(),
            "unknown_accuracy": unknown.mean(dim=1).tolist() if unknown.numel() else [None] * len(unknown),
        }

    def scores(self, records: Sequence[dict[str, Any]]) -> ProbeScores:
        """
        The scores over several seeds.

        Args:
            records: The result of [`_Part.accuracies`] for each seed.
        """
        unknown = self._baseline[self._is_unknown]
        return ProbeScores(
            words=len(self.tags),
            unknown_words=len(unknown),
            accuracy=np.array([record["accuracy"] for record in records]),
            unknown_accuracy=np.array([record["unknown_accuracy"] for record in records], dtype=float),
            baseline=self._baseline.double().mean().item(),
            unknown_baseline=unknown.double().mean().item(),  # `nan` if there are none
        )


def _most_frequent_tags(train: Sequence[TaggedSentence], sentences: Sequence[Sequence[str]]) -> list[str]:
    """The most frequent tag of each word in the training data; for an unknown word, the most frequent tag of all."""
    counts: dict[str, Counter[str]] = {}
    overall: Counter[str] = Counter()
    for sentence in train:
        overall.update(sentence.tags or ())
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    return [best.get(word, overall.most_common(1)[0][0]) for words in sentences for word in words]


# ---- the probes


class Probes(nn.Module):
    """
    One linear classifier for each representation and one for the concatenation of the layers. They are trained in
    parallel.

    Args:
        vectors: The vectors of the training data, `(words, representations, hidden_size)`, the layers first.
        tags: The ids of their tags, `(words,)`.
        num_layers: The number of layers among the representations.
        num_tags: The number of tags.
        seed: The seed of the weights and of the order of the words.
    """

    def __init__(self, vectors: torch.Tensor, tags: torch.Tensor, num_layers: int, num_tags: int, seed: int):
        super().__init__()
        self._vectors, self._tags, self._num_layers = vectors, tags, num_layers
        self._random = torch.Generator().manual_seed(seed)
        sizes = [vectors.shape[2]] * vectors.shape[1] + [num_layers * vectors.shape[2]]
        self.classifiers = nn.ModuleList(nn.Linear(size, num_tags) for size in sizes)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(std=0.01, generator=self._random)
        self._mean, self._scale = _moments(vectors)

    def forward(self, vectors: torch.Tensor) -> list[torch.Tensor]:
        """
        Args:
            vectors: `(words, representations, hidden_size)`

        Returns:
            The logits of each classifier, `(words, tags)`.
        """
        features = (vectors.float() - self._mean) * self._scale
        inputs = [*features.unbind(dim=1), features[:, : self._num_layers].flatten(1)]
        return [classifier(values) for classifier, values in zip(self.classifiers, inputs, strict=True)]

    def learn(self, dev_vectors: torch.Tensor, dev_tags: torch.Tensor, settings: ProbeSettings, has_bar: bool = False):
        """Trains all classifiers; each ends with the weights that were best on the development data."""
        words, size = len(self._tags), min(settings.batch_size, len(self._tags))
        epoch = math.ceil(words / size)
        steps = max(settings.epochs * epoch, settings.least_steps)
        optimizer = torch.optim.AdamW(
            self.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
        evaluations = {math.ceil(steps * part / settings.evaluations) for part in range(1, settings.evaluations + 1)}
        best = [(-1.0, {})] * len(self.classifiers)
        order = torch.empty(0, dtype=torch.long)
        for step in tqdm(range(1, steps + 1), desc="probes", unit="step", disable=None if has_bar else True):
            if not len(order):
                order = torch.randperm(words, generator=self._random)
            batch, order = order[:size], order[size:]
            loss = sum(F.cross_entropy(logits, self._tags[batch]) for logits in self(self._vectors[batch]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if step in evaluations:
                accuracies = (self.predict(dev_vectors) == dev_tags).float().mean(dim=1).tolist()
                best = [
                    max(
                        old, (new, {name: value.clone() for name, value in classifier.state_dict().items()}), key=_first
                    )
                    for old, new, classifier in zip(best, accuracies, self.classifiers, strict=True)
                ]
        for classifier, (_, weights) in zip(self.classifiers, best, strict=True):
            classifier.load_state_dict(weights)

    @torch.no_grad()
    def predict(self, vectors: torch.Tensor) -> torch.Tensor:
        """The tags of words, `(classifiers, words)`."""
        parts = [torch.stack([logits.argmax(dim=1) for logits in self(part)]) for part in vectors.split(WORDS_AT_ONCE)]
        return torch.cat(parts, dim=1)


def _first(pair: tuple[float, Any]) -> float:
    return pair[0]


def _moments(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean and the inverse standard deviation of each feature, `(representations, hidden_size)`."""
    total = torch.zeros(vectors.shape[1:], dtype=torch.float64)
    squares = torch.zeros_like(total)
    for part in vectors.split(WORDS_AT_ONCE):
        part = part.double()
        total += part.sum(dim=0)
        squares += part.square().sum(dim=0)
    mean = total / len(vectors)
    variance = (squares / len(vectors) - mean.square()).clamp_min(1e-10)
    return mean.float(), variance.rsqrt().float()


__all__ = ["CONCATENATION", "ProbeResults", "ProbeScores", "ProbeSettings", "Probes", "probe"]
