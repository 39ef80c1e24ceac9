"""
Sample efficiency, as in section 5.4 of the paper: the same head with and without ELMo, on growing shares of the
training data.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import TextError, counted
from ..finetuning.classification_data import read_labelled
from ..finetuning.run import FinetuningRun, Splits, TaskData, check_fields
from ..finetuning.tagging_data import read_tagged
from ..finetuning.tasks import ClassificationTask, TaggingTask, Task
from ..runtime.extras import require
from ..runtime.run_records import FINETUNING, RESULTS, stored_name
from .report import mean_and_range, text_table
from .work_folder import WorkFolder, digest

SHARES = (0.001, 0.01, 0.1, 1.0)
VECTORS_SIZE = 100  # the default size of the learned word vectors of both heads
WITH, WITHOUT = "with ELMo", "without ELMo"


@dataclass
class SampleCurve:
    """
    The scores of heads with and without ELMo.

    Attributes:
        task: "tagging" or "classification".
        metric: The metric of the scores: "accuracy", "f1" …
        shares: The shares of the training data, ascending.
        examples: The number of examples of each share.
        seeds: The seeds of the heads.
        scores: An array `(shares, seeds)` by part ("dev", and "test" if there is one) and by head ("with ELMo",
            "without ELMo").
    """

    task: str
    metric: str
    shares: list[float]
    examples: list[int]
    seeds: list[int]
    scores: dict[str, dict[str, np.ndarray]]

    def table(self) -> str:
        """A table of the scores in per cent; with several seeds their means and ranges."""
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
    Trains one head with and one without ELMo for each share and seed, with [`FinetuningRun`]. Both have static word
    vectors, and there is no other difference. A share has the same examples for all seeds, and is contained in every
    larger share.

    Args:
        task: The task of the heads.
        data: The examples. `max_train` and `train_share` must not be given.
        work: The folder of the heads. After a stop, the same call continues there and skips finished heads.
        model: The biLM: a folder, or a name on the Hub.
        shares: The shares of the training data, above 0 and at most 1.
        seeds: The seeds. All heads are trained once with each.
        fields: Fields of the heads' config; `elmo_places` is for the heads with ELMo.
        settings: Settings of the training, as in [`FinetuningSettings`]. By default small data get as many steps as
            large data.
        vectors_file: A file of static word vectors.
        vectors_size: The size of word vectors that are learned instead. Default: 100.
        report: Called with a line of text before each head is trained.
    """
    require("finetuning")
    if vectors_file is None and vectors_size is None:
        vectors_size = VECTORS_SIZE
    both = FinetuningRun(task, data, model, dict(fields or {}), dict(settings or {}), vectors_file, vectors_size)
    both.seeds = list(seeds)
    _check_run(both)
    ordered = sorted(set(shares))
    read: Any = read_tagged if task == "tagging" else read_labelled
    splits = data.read(read)
    examples, metric = _check_shares(task, data, splits, ordered)
    scores: dict[str, dict[str, list[list[float]]]] = {}
    with WorkFolder(work, _identity(both, splits)):
        for share, count in zip(ordered, examples, strict=True):
            for head in (WITH, WITHOUT):
                report(f"{head}, {100 * share:g} % of the training data, {counted(count, 'example')}")
                folder = Path(work) / f"{head.replace(' ', '-').lower()}-{share:g}"
                results = _finished(_run_of(both, head, share), folder)
                for part in ("dev", "test"):
                    if part in results:
                        of_seeds = [record[part][metric] for record in results.get("seeds", [results])]
                        scores.setdefault(part, {}).setdefault(head, []).append(of_seeds)
    arrays = {part: {head: np.array(values) for head, values in heads.items()} for part, heads in scores.items()}
    return SampleCurve(task, metric, ordered, examples, both.seeds, arrays)


def _check_run(both: FinetuningRun):
    """Refuses what the heads of a curve cannot have. `both` is what the heads with and without ELMo have in common."""
    if both.data.max_train is not None or both.data.train_share is not None:
        raise ValueError("`shares` already selects training data: leave out `max_train` and `train_share`.")
    if not both.seeds or len(set(both.seeds)) < len(both.seeds):
        raise ValueError(f"`seeds` must be one or more different numbers, found {both.seeds}.")
    if both.fields.get("elmo_places") == "none":
        raise ValueError("`elmo_places` is for the heads with ELMo and cannot be 'none': leave it out.")
    check_fields(both.task, both.fields)


def _identity(both: FinetuningRun, splits: Splits) -> dict[str, Any]:
    """What a folder of heads belongs to, as JSON has it. The shares are not part of it: later calls may add some."""
    identity = {
        "analysis": "samples",
        "task": both.task,
        "train": stored_name(both.data.train),
        "dev": stored_name(both.data.dev),
        "test": both.data.test and stored_name(both.data.test),
        "options": both.data.options,
        "data": digest((part, example) for part, examples in splits._asdict().items() for example in examples),
        "model": stored_name(both.model),
        "fields": both.fields,
        "settings": both.settings,
        "vectors": [both.vectors_file and stored_name(both.vectors_file), both.vectors_size],
        "seeds": both.seeds,
    }
    return json.loads(json.dumps(identity))


def _run_of(both: FinetuningRun, head: str, share: float) -> FinetuningRun:
    """The run that trains a head on a share of the training data."""
    return replace(
        both,
        data=replace(both.data, train_share=share),
        fields=both.fields | ({} if head == WITH else {"elmo_places": "none"}),
        settings=both.settings | {"seed": both.seeds[0]},
        seeds=both.seeds if len(both.seeds) > 1 else [],
    )


def _check_shares(task: str, data: TaskData, splits: Splits, shares: Sequence[float]) -> tuple[list[int], str]:
    """
    Refuses shares from which nothing can be learned, before anything is trained.

    Returns:
        The number of examples of each share, and the metric.
    """
    if not shares:
        raise ValueError("Give at least one share of the training data.")
    task_class: Any = TaggingTask if task == "tagging" else ClassificationTask
    checked_task: Task = task_class.of([example for split in splits for example in split])
    counts: list[int] = []
    for share in shares:
        train = replace(data, train_share=share).chosen(splits.train)
        try:
            checked_task.check_variety(train, data.train)
        except TextError as error:
            few = f"{100 * share:g} % of it, {counted(len(train), 'example')}"
            raise TextError(f"{error} This holds for {few}: choose larger shares.") from error
        if counts and len(train) == counts[-1]:
            raise TextError(
                f"{data.train}: two shares have {counted(counts[-1], 'example')} each, {100 * share:g} % and a smaller "
                "one: choose shares that differ more."
            )
        counts.append(len(train))
    return counts, checked_task.best_metric


def _finished(run: FinetuningRun, folder: Path) -> dict[str, Any]:
    """The results of a run. It is started, or continued after a stop, unless it is finished."""
    if not (folder / RESULTS).exists():
        if (folder / FINETUNING).exists():
            FinetuningRun.resume(folder)
        else:
            run.begin(folder)
    return json.loads((folder / RESULTS).read_text("utf-8"))


__all__ = ["SHARES", "WITH", "WITHOUT", "SampleCurve", "samples"]
