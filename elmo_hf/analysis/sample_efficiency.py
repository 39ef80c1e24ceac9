"""
Sample efficiency, as in section 5.4 of the paper: the same head with and without ELMo, on growing shares of the
training data.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import TextError, counted
from ..finetuning.classification_data import read_labelled
from ..finetuning.run import FinetuningRun, TaskData
from ..finetuning.tagging_data import read_tagged
from ..finetuning.tasks import ClassificationTask, TaggingTask, Task
from ..runtime.extras import require
from ..runtime.run_records import FINETUNING, RESULTS
from .report import mean_and_range, text_table
from .work_folder import WorkFolder

SHARES = (0.001, 0.01, 0.1, 1.0)
VECTORS_SIZE = 100  # of the learned word vectors that both heads have
WITH, WITHOUT = "with ELMo", "without ELMo"


@dataclass
class SampleCurve:
    """
    Attributes:
        task: "tagging" or "classification".
        metric: What the scores are: "accuracy", "f1" …
        shares: Of the training data, ascending.
        examples: How many they are.
        seeds: Of the heads.
        scores: By part ("dev", and "test" if there is one) and by head ("with ELMo", "without ELMo"): an array
            `(shares, seeds)`.
    """

    task: str
    metric: str
    shares: list[float]
    examples: list[int]
    seeds: list[int]
    scores: dict[str, dict[str, np.ndarray]]

    def table(self) -> str:
        """The scores in per cent, with several seeds their means and ranges."""
        header, columns = ["share", "examples"], []
        for part, heads in self.scores.items():
            header += [f"{part}, {head}" for head in heads]
            columns += [[mean_and_range(values) for values in scores] for scores in heads.values()]
        rows = [
            [f"{100 * share:g} %", f"{examples:,}", *cells]
            for share, examples, *cells in zip(self.shares, self.examples, *columns, strict=True)
        ]
        note = f"{self.metric}, times 100"
        if len(self.seeds) > 1:
            note += f"; mean and range of {len(self.seeds)} seeds"
        return text_table(header, rows, [note + "."])


def samples(
    task: Literal["tagging", "classification"],
    data: TaskData,
    work: str | os.PathLike,
    *,
    model: str,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (0,),
    fields: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    vectors_file: str | None = None,
    vectors_size: int | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> SampleCurve:
    """
    Trains a head with and one without ELMo for each share and seed, by [`FinetuningRun`]. Both have static word
    vectors, and differ in nothing else. A share is the same examples for all seeds, and a part of every larger share.

    Args:
        task: What the heads learn.
        data: The examples. `max_train` and `train_share` must not be given.
        work: The folder of the heads. The same call continues there after a stop; finished heads are not trained again.
        model: The biLM: a folder, or a name on the Hub.
        shares: Of the training data, above 0 and at most 1.
        seeds: Each trains all heads once.
        fields: Of the heads' config; `elmo_places` is where ELMo goes in the heads that have it.
        settings: Of the training, as in [`FinetuningSettings`]. By default small data get as many steps as large ones.
        vectors_file: Static word vectors from a file.
        vectors_size: Size of learned word vectors, instead. Default: 100.
        report: Called before each head with a line that says which one is trained.
    """
    require("finetuning")
    if data.max_train is not None or data.train_share is not None:
        raise ValueError("The shares choose from the training data: leave `max_train` and `train_share` out.")
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"Each seed is used once, and there is at least one, found {list(seeds)}.")
    if not shares:
        raise ValueError("Give at least one share of the training data.")
    fields = dict(fields or {})
    if fields.get("elmo_places") == "none":
        raise ValueError("`elmo_places` says where ELMo goes in the heads that have it: it cannot be 'none'.")
    if vectors_file is None and vectors_size is None:
        vectors_size = VECTORS_SIZE
    ordered = sorted(set(shares))
    examples, metric = _check_shares(task, data, ordered)
    identity = {
        "analysis": "samples",
        "task": task,
        "train": data.train,
        "dev": data.dev,
        "test": data.test,
        "options": data.options,
        "model": model,
        "fields": fields,
        "settings": settings or {},
        "vectors": [vectors_file, vectors_size],
        "seeds": list(seeds),
    }
    scores: dict[str, dict[str, list[list[float]]]] = {}
    with WorkFolder(work, json.loads(json.dumps(identity))):
        for share, count in zip(ordered, examples, strict=True):
            for head, places in ((WITH, {}), (WITHOUT, {"elmo_places": "none"})):
                run = FinetuningRun(
                    task=task,
                    data=TaskData(data.train, data.dev, data.test, data.options, train_share=share),
                    model=model,
                    fields=fields | places,
                    settings=(settings or {}) | {"seed": seeds[0]},
                    vectors_file=vectors_file,
                    vectors_size=vectors_size,
                    seeds=list(seeds) if len(seeds) > 1 else [],
                )
                folder = Path(work) / f"{head.replace(' ', '-').lower()}-{share:g}"
                report(f"{head}, {100 * share:g} % of the training data, {counted(count, 'example')}")
                results = _finished(run, folder)
                for part in ("dev", "test"):
                    if part in results:
                        found = [record[part][metric] for record in results.get("seeds", [results])]
                        scores.setdefault(part, {}).setdefault(head, []).append(found)
    arrays = {part: {head: np.array(found) for head, found in heads.items()} for part, heads in scores.items()}
    return SampleCurve(task, metric, list(ordered), examples, list(seeds), arrays)


def _check_shares(task: str, data: TaskData, shares: Sequence[float]) -> tuple[list[int], str]:
    """
    Refuses shares that nothing can be learned from, before anything is trained.

    Returns:
        How many examples each share has, and the metric.
    """
    read: Any = read_tagged if task == "tagging" else read_labelled
    task_class: Any = TaggingTask if task == "tagging" else ClassificationTask
    found: Task | None = None
    counts = []
    for share in shares:
        splits = TaskData(data.train, data.dev, data.test, data.options, train_share=share).read(read)
        if found is None:
            found = task_class.of([example for split in splits for example in split])
        try:
            found.check_variety(splits.train, data.train)
        except TextError as error:
            few = f"{100 * share:g} % of it, {counted(len(splits.train), 'example')}"
            raise TextError(f"{error} This is so in {few}: choose larger shares.") from error
        if counts and len(splits.train) == counts[-1]:
            raise TextError(
                f"{data.train}: two shares have {counted(counts[-1], 'example')} each, {100 * share:g} % and a smaller "
                "one: choose shares that differ more."
            )
        counts.append(len(splits.train))
    return counts, found.best_metric  # type: ignore[union-attr]


def _finished(run: FinetuningRun, folder: Path) -> dict[str, Any]:
    """The results of a run: of one that is finished, of one that was stopped and continues, or of a new one."""
    if not (folder / RESULTS).exists():
        if (folder / FINETUNING).exists():
            FinetuningRun.resume(folder)
        else:
            run.begin(folder)
    return json.loads((folder / RESULTS).read_text("utf-8"))


__all__ = ["SHARES", "WITH", "WITHOUT", "SampleCurve", "samples"]
