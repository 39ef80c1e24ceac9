"""
Linear probes: a softmax classifier on the vectors of each frozen layer, of their mix, and of all layers one after the
other. What a linear classifier can read from a layer, the layer knows.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
    for part, sentences in parts.items():
        if not any(sentence.words for sentence in sentences):
            raise TextError(f"The part {part!r} has no words.")
    task = TaggingTask.of([sentence for sentences in parts.values() for sentence in sentences])
    task.check_variety(train, "the training data")
    names = [*representation_names(embedder), CONCATENATION]
    identity = {
        "analysis": "probe",
        "model": model_digest(embedder),
        "data": digest((part, sentence) for part, sentences in parts.items() for sentence in sentences),
    }
    with WorkFolder(work, identity) as folder:
        vectors: dict[str, torch.Tensor] = {}
        tags = {part: _tag_numbers(sentences, task) for part, sentences in parts.items()}
        is_unknown = {part: _unknown(sentences, train) for part, sentences in parts.items()}
        records = []
        for seed in seeds:

            def learn(seed: int = seed) -> dict[str, Any]:
                for part, sentences in parts.items():
                    if part not in vectors:  # not before they are needed: the folder may have all results
                        vectors[part] = _vectors(embedder, sentences, folder, part, progress)
                probes = Probes(vectors["train"], tags["train"], embedder.num_layers, len(task.labels), seed)
                probes.learn(vectors["dev"], tags["dev"], settings, progress is True)
                return {
                    part: _accuracies(probes, vectors[part], tags[part], is_unknown[part])
                    for part in parts
                    if part != "train"
                }

            records.append(folder.record(f"seed-{seed}-{digest([settings])}", learn))
    scores = {}
    for part in parts:
        if part != "train":
            found = [record[part] for record in records]
            baseline = _most_frequent_tags(train, parts[part]) == np.concatenate([some.tags for some in parts[part]])
            scores[part] = ProbeScores(
                words=len(tags[part]),
                unknown_words=int(is_unknown[part].sum()),
                accuracy=np.array([record["accuracy"] for record in found]),
                unknown_accuracy=np.array([record["unknown_accuracy"] for record in found], dtype=float),
                baseline=_mean(baseline),
                unknown_baseline=_mean(baseline[is_unknown[part].numpy()]),
            )
    return ProbeResults(names, task.labels, list(seeds), len(tags["train"]), scores, asdict(settings))


# ---- data


def _tag_numbers(sentences: Sequence[TaggedSentence], task: TaggingTask) -> torch.Tensor:
    numbers = {tag: number for number, tag in enumerate(task.labels)}
    return torch.tensor([numbers[tag] for sentence in sentences for tag in sentence.tags or ()])


def _unknown(sentences: Sequence[TaggedSentence], train: Sequence[TaggedSentence]) -> torch.Tensor:
    known = {word for sentence in train for word in sentence.words}
    return torch.tensor([word not in known for sentence in sentences for word in sentence.words])


def _most_frequent_tags(train: Sequence[TaggedSentence], sentences: Sequence[TaggedSentence]) -> np.ndarray:
    """The tag that each word has most often in the training data, the first of equals; for others that of all words."""
    counts: dict[str, Counter[str]] = {}
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    overall = sum(counts.values(), Counter()).most_common(1)[0][0]
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    return np.array([best.get(word, overall) for sentence in sentences for word in sentence.words])


def _vectors(
    embedder: ElmoEmbedder, sentences: Sequence[TaggedSentence], work: WorkFolder, name: str, progress: Progress
) -> torch.Tensor:
    """The vectors of all words in half precision, `(words, representations, hidden_size)`."""
    words = [sentence.words for sentence in sentences]
    spans = [[(place, place + 1) for place in range(len(sentence))] for sentence in words]
    shape = sum(map(len, words)), len(representation_names(embedder)), embedder.hidden_size
    found = torch.empty(shape, dtype=torch.float16)
    for block in span_blocks(embedder, words, spans, work=work, name=name, progress=progress):
        found[block.spans] = torch.from_numpy(block.vectors).transpose(0, 1).half()
    return found


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


def _accuracies(
    probes: Probes, vectors: torch.Tensor, tags: torch.Tensor, is_unknown: torch.Tensor
) -> dict[str, list[float | None]]:
    is_right = (probes.predict(vectors) == tags).double()
    unknown = is_right[:, is_unknown]
    return {
        "accuracy": is_right.mean(dim=1).tolist(),
        "unknown_accuracy": unknown.mean(dim=1).tolist() if unknown.numel() else [None] * len(unknown),
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


__all__ = ["CONCATENATION", "ProbeResults", "ProbeScores", "ProbeSettings", "Probes", "probe"]
