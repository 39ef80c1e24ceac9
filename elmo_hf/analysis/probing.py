"""
Linear probes: a softmax classifier on the vectors of each frozen layer, of their mix, and of all layers one after the
other. What a linear classifier can read from a layer, the layer knows.
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
WORDS_AT_ONCE = 8192  # that are evaluated together


@dataclass
class ProbeSettings:
    """
    How the probes learn: AdamW on standardised features, with a learning rate that falls to zero. The weights that are
    best on the development data are kept, for each probe by itself.

    Args:
        epochs: Passes over the training data; more where these would be fewer than `least_steps`.
        least_steps: Of the whole training.
        batch_size: Words.
        learning_rate, weight_decay: Of AdamW.
        evaluations: On the development data, spread evenly over the training.
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
    What the probes reach on a part of the data. Unknown words are those that the training data do not have, as they are
    written; where there are none, their accuracies are not numbers (`nan`).

    Attributes:
        words, unknown_words: How many there are.
        accuracy, unknown_accuracy (`np.ndarray` of shape `(seeds, representations)`)
        baseline, unknown_baseline: Accuracy of the most frequent tag of each word, for an unknown word that of all.
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
    Attributes:
        representations: The layers, the mix, the concatenation.
        tags: All tags.
        seeds: Of the probes' weights and of the order of the words.
        train_words: Size of the training data.
        scores: By part: "dev", and "test" if there is one.
        settings: Of the probes.
    """

    representations: list[str]
    tags: list[str]
    seeds: list[int]
    train_words: int
    scores: dict[str, ProbeScores]
    settings: dict[str, Any]

    def table(self) -> str:
        """Accuracies in per cent, with several seeds their means and ranges."""
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
) -> ProbeResults:
    """
    Args:
        embedder: The model.
        train, dev, test: As [`read_tagged`] gives them. The development data choose the weights.
        seeds: Each trains all probes once.
        settings: Of the training.
        work: A folder for vectors and results; after a stop the same call continues there.
        progress: As in [`ElmoEmbedder.embed`]; `True` also shows a bar for the training.
    """
    settings = settings or ProbeSettings()
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"Each seed is used once, and there is at least one, found {list(seeds)}.")
    parts = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
    for name, sentences in parts.items():
        if not any(sentence.words for sentence in sentences):
            raise TextError(f"The part {name!r} has no words.")
    task = TaggingTask.of([sentence for sentences in parts.values() for sentence in sentences])
    task.check_variety(train, "the training data")
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
        sentences: Its sentences.
        train: The training data, which decide what is unknown.
        labels: All tags.

    Attributes:
        tags: Numbers, `(words,)`.
        vectors: Of all words in half precision, `(words, representations, hidden_size)`, after [`_Part.embed`].
    """

    def __init__(self, sentences: Sequence[TaggedSentence], train: Sequence[TaggedSentence], labels: Sequence[str]):
        numbers = {tag: number for number, tag in enumerate(labels)}
        known = {word for sentence in train for word in sentence.words}
        self._words = [sentence.words for sentence in sentences]
        self.tags = torch.tensor([numbers[tag] for sentence in sentences for tag in sentence.tags or ()])
        self._is_unknown = torch.tensor([word not in known for words in self._words for word in words])
        answers = torch.tensor([numbers[tag] for tag in _most_frequent_tags(train, self._words)])
        self._baseline = answers == self.tags
        self.vectors = torch.empty(0)

    def embed(self, embedder: ElmoEmbedder, work: WorkFolder, name: str, progress: Progress):
        """Computes the vectors, if they are not there."""
        if len(self.vectors):
            return
        spans = [[(place, place + 1) for place in range(len(words))] for words in self._words]
        shape = len(self.tags), len(representation_names(embedder)), embedder.hidden_size
        self.vectors = torch.empty(shape, dtype=torch.float16)
        for block in span_blocks(embedder, self._words, spans, work=work, name=name, progress=progress):
            self.vectors[block.spans] = torch.from_numpy(block.vectors).transpose(0, 1).half()

    def accuracies(self, probes: "Probes") -> dict[str, list[float | None]]:
        """Of each probe, on all and on unknown words."""
        is_right = (probes.predict(self.vectors) == self.tags).double()
        unknown = is_right[:, self._is_unknown]
        return {
            "accuracy": is_right.mean(dim=1).tolist(),
            "unknown_accuracy": unknown.mean(dim=1).tolist() if unknown.numel() else [None] * len(unknown),
        }

    def scores(self, records: Sequence[dict[str, Any]]) -> ProbeScores:
        """
        Args:
            records: Of each seed, what [`_Part.accuracies`] gave.
        """
        unknown = self._baseline[self._is_unknown]
        return ProbeScores(
            words=len(self.tags),
            unknown_words=len(unknown),
            accuracy=np.array([record["accuracy"] for record in records]),
            unknown_accuracy=np.array([record["unknown_accuracy"] for record in records], dtype=float),
            baseline=self._baseline.double().mean().item(),
            unknown_baseline=unknown.double().mean().item(),  # of nothing it is `nan`
        )


def _most_frequent_tags(train: Sequence[TaggedSentence], sentences: Sequence[Sequence[str]]) -> list[str]:
    """The tag that each word has most often in the training data, the first of equals; for others that of all words."""
    counts: dict[str, Counter[str]] = {}
    overall: Counter[str] = Counter()
    for sentence in train:
        overall.update(sentence.tags or ())
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    return [best.get(word, overall.most_common(1)[0][0]) for words in sentences for word in words]


# ---- the probes


class Probes(nn.Module):
    """
    One linear classifier for each representation and one for the concatenation of the layers, which learn side by side.

    Args:
        vectors: Of the training data, `(words, representations, hidden_size)`, the layers first.
        tags: `(words,)`
        num_layers: Among the representations.
        num_tags: Of the task.
        seed: Of the weights and of the order of the words.
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
            Of each classifier `(words, tags)`.
        """
        features = (vectors.float() - self._mean) * self._scale
        inputs = [*features.unbind(dim=1), features[:, : self._num_layers].flatten(1)]
        return [classifier(some) for classifier, some in zip(self.classifiers, inputs, strict=True)]

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
                found = (self.predict(dev_vectors) == dev_tags).float().mean(dim=1).tolist()
                best = [
                    max(
                        old, (new, {name: value.clone() for name, value in classifier.state_dict().items()}), key=_first
                    )
                    for old, new, classifier in zip(best, found, self.classifiers, strict=True)
                ]
        for classifier, (_, weights) in zip(self.classifiers, best, strict=True):
            classifier.load_state_dict(weights)

    @torch.no_grad()
    def predict(self, vectors: torch.Tensor) -> torch.Tensor:
        """The tags of words, `(classifiers, words)`."""
        found = [torch.stack([logits.argmax(dim=1) for logits in self(part)]) for part in vectors.split(WORDS_AT_ONCE)]
        return torch.cat(found, dim=1)


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
