"""A fine-tuning run and its folder, which can be resumed and ends up as a model folder."""

import dataclasses
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from transformers import set_seed

from ..data.tables import kind_of
from ..errors import RunError, TextError, did_you_mean
from ..modeling.checks_elmo import read_json_object
from ..modeling.configuration_elmo import HEADS
from ..modeling.layer_cache_elmo import ElmoLayerCache
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..publishing import Records, is_made_here, write_card
from ..runtime.extras import require
from ..runtime.locks import LOCK, RunLock
from ..runtime.manifests import MANIFEST, is_intact, write_manifest
from ..runtime.processes import shut_down, this_process
from ..runtime.run_records import FINETUNING as RUN
from ..runtime.run_records import RESULTS, stored_name
from ..runtime.staging import move_files, refuse_used, write_atomically
from .settings import FinetuningSettings
from .tasks import TASKS, Task
from .training import CHECKPOINTS, LAYERS, HeadTrainer, build_head
from .word_vectors import WordVectors, learned_vectors, vectors_from_file

# The defaults of runs that began before these settings depended on the number of examples.
FIRST_DEFAULTS = {"learning_rate": 1e-3, "batch_size": 32, "epochs": 20, "evaluation_epochs": 1, "patience": 5}
SEEDS, FINISHED_SEEDS = "seeds", ".seeds.json"  # the checkpoints of several seeds, and the records of finished ones


@dataclass
class TaskData:
    """
    The sources of the examples, and how to read them.

    Args:
        train, dev, test: Files or datasets. The test data are optional.
        options: The options of the task's reader, such as `read_tagged`.
        max_train: The maximum number of training examples, chosen at random. The choice does not depend on the seed,
            and a smaller choice is part of a larger one.
        train_share: The share of the training examples to use, above 0 and at most 1.
    """

    train: str
    dev: str
    test: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    max_train: int | None = None
    train_share: float | None = None

    def __post_init__(self):
        if self.max_train is not None and self.train_share is not None:
            raise ValueError("`max_train` and `train_share` both choose from the training data: give one of them.")
        if self.max_train is not None and self.max_train < 1:
            raise ValueError(f"`max_train` must be 1 or more, found {self.max_train}.")
        if self.train_share is not None and not 0 < self.train_share <= 1:
            raise ValueError(f"`train_share` must be above 0 and at most 1, found {self.train_share}.")

    def read(self, read: Callable[..., list[Any]]) -> "Splits":
        """Reads all examples. The splits of a dataset have their usual names, unless `options` name others."""
        require(*(kind_of(source) for source in (self.train, self.dev, self.test) if source is not None))
        names = {"train": "train", "dev": "validation", "test": "test"}
        examples = {}
        for split, name in names.items():
            source = getattr(self, split)
            examples[split] = [] if source is None else read(source, **({"split": name} | self.options))
        return Splits(**(examples | {"train": self.chosen(examples["train"])}))

    def chosen(self, examples: list[Any]) -> list[Any]:
        """The training examples that `max_train` or `train_share` choose, in their order."""
        num_chosen = self.max_train or len(examples)
        if self.train_share is not None:
            num_chosen = max(1, round(self.train_share * len(examples)))
        order = list(range(len(examples)))
        random.Random(0).shuffle(order)
        return [examples[place] for place in sorted(order[:num_chosen])]


class Splits(NamedTuple):
    """The training, development and test examples."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]


@dataclass
class FinetuningRun:
    """
    The description of a run, which is stored in its folder.

    Args:
        task: The name of the task, a key of `TASKS`, such as "tagging".
        data: The examples.
        model: The biLM: a folder, or a name on the Hub.
        fields: The fields of the head's config.
        settings: The settings of the training.
        vectors_file: A file of static word vectors to use beside ELMo.
        vectors_size: The size of static word vectors to learn from random values instead.
        max_vectors: The number of words to take from the file beside the words of the task.
        seeds: Several seeds. A head is trained with each, and the best one on the development data is saved. The
            results hold all of them, their mean and their range. Default: the seed of the settings.
    """

    task: str
    data: TaskData
    model: str
    fields: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    vectors_file: str | None = None
    vectors_size: int | None = None
    max_vectors: int = 50_000
    seeds: list[int] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> "FinetuningRun":
        """Loads the run of a folder."""
        if not (folder / RUN).exists():
            raise RunError(f"{folder} holds no run ({RUN} is missing): leave out --resume to start one.")
        stored = read_json_object(folder / RUN)
        try:
            if "seeds" not in stored:
                stored["settings"] = FIRST_DEFAULTS | stored["settings"]
            stored["data"] = TaskData(**stored["data"])
            return cls(**stored)
        except (LookupError, TypeError, ValueError) as error:
            raise RunError(
                f"{folder / RUN} is damaged ({type(error).__name__}: {error}): train the head again."
            ) from error

    def description(self) -> dict[str, Any]:
        """The run as it is stored. Its paths are absolute, so that it can be resumed in another folder."""
        description = asdict(self)
        for values, names in ((description, ("model", "vectors_file")), (description["data"], Splits._fields)):
            values.update({name: stored_name(values[name]) for name in names if values[name] is not None})
        return description

    def begin(self, folder: str | os.PathLike) -> dict[str, dict[str, float]]:
        """
        Trains a head in a new or empty folder, which holds the model, its card and its results at the end.

        Returns:
            The metrics of "dev" and, if there are test data, of "test".
        """
        require("finetuning")
        folder, process = Path(folder), this_process()
        if process.is_main_process:
            _refuse_run(folder)
        process.wait_for_everyone()
        check_fields(self.task, self.fields)
        splits, task = self._read()
        first = self._prepare(folder, splits, task, self._all_seeds()[0])  # raises errors before the folder is created
        if process.is_main_process:
            folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            if process.is_main_process:
                _refuse_begun(folder)  # another process may have begun one since the first look
                _write_json(folder / RUN, self.description())
            process.wait_for_everyone()
            return self._train(folder, splits, task, first)

    @classmethod
    def resume(cls, folder: str | os.PathLike) -> dict[str, dict[str, float]]:
        """Continues from the last checkpoint, or from the beginning if there is none."""
        require("finetuning")
        folder = Path(folder)
        this_process()  # connects the processes
        run = cls.load(folder)
        if (folder / RESULTS).exists():
            raise RunError(f"{folder} is finished: its results are in {RESULTS}.")
        with _locked(folder):
            return run._train(folder, *run._read())

    def _all_seeds(self) -> list[int]:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"Each seed is trained once, found {', '.join(map(str, self.seeds))}.")
        return self.seeds or [FinetuningSettings(**self.settings).seed]

    # ---- before the training

    def _read(self) -> tuple[Splits, Task]:
        """Reads the examples. The labels are those of all splits, so that an unseen label is an error of the model."""
        task_class = _task_class(self.task)
        splits = self.data.read(task_class.read)
        names = (str(getattr(self.data, split)) for split in Splits._fields)
        task_class.check_sources(list(zip(names, splits, strict=True)))
        task = task_class.of([example for split in splits for example in split])
        task.check_variety(splits.train, self.data.train)
        return splits, task

    def _prepare(
        self, folder: Path, splits: Splits, task: Task, seed: int, layers: ElmoLayerCache | None = None
    ) -> HeadTrainer:
        """
        Builds a head with random weights, and its trainer.

        Args:
            layers: The cached layers of the biLM from a head with another seed.
        """
        settings = dataclasses.replace(FinetuningSettings(**self.settings), seed=seed)
        set_seed(seed)
        tokenizer = ElmoTokenizer.from_pretrained(self.model)
        vectors = self._vectors(task, splits, tokenizer)
        model, tokenizer = build_head(
            task, self.model, tokenizer, vectors, self.fields, int8=settings.precision == "int8"
        )
        model.layer_cache = layers
        return HeadTrainer(model, tokenizer, task, splits.train, splits.dev, settings, self._seed_folder(folder, seed))

    def _seed_folder(self, folder: Path, seed: int) -> Path:
        """The folder for the checkpoints of a seed."""
        return folder / SEEDS / str(seed) if len(self.seeds) > 1 else folder

    def _vectors(self, task: Task, splits: Splits, tokenizer: ElmoTokenizer) -> WordVectors | None:
        if self.vectors_file is not None and self.vectors_size is not None:
            raise TextError("Word vectors are read from a file or start at random: choose one.")
        words = partial(task.words, tokenizer=tokenizer)
        if self.vectors_file is not None:
            others = words([*splits.dev, *splits.test])
            return vectors_from_file(self.vectors_file, tokenizer, words(splits.train), self.max_vectors, others)
        return None if self.vectors_size is None else learned_vectors(tokenizer, words(splits.train), self.vectors_size)

    # ---- all seeds, one after the other

    def _train(
        self, folder: Path, splits: Splits, task: Task, first: HeadTrainer | None = None
    ) -> dict[str, dict[str, float]]:
        """
        Trains the heads that are not finished yet.

        Args:
            first: The trainer of the first seed, if the run begins now.
        """
        process, is_new = this_process(), first is not None
        records: list[dict[str, Any]] = [] if is_new else _read_finished_seeds(folder)
        process.wait_for_everyone()  # until all have read
        layers = None
        for seed in self._all_seeds():
            if any(record["seed"] == seed for record in records):
                continue
            trainer = first or self._prepare(folder, splits, task, seed, layers)
            first, layers = None, trainer.model.layer_cache
            trainer.train(resume=not is_new)
            records.append(self._record(trainer, splits, seed))
            if process.is_main_process:
                self._save(trainer, folder, seed)
                _write_json(folder / FINISHED_SEEDS, {"seeds": records, "sha256": _digest(records)})
        best = max(records, key=lambda record: record["dev"][task.best_metric])
        if process.is_main_process:
            self._finish(folder, splits, records, best)
        shut_down(process)
        return {split: best[split] for split in ("dev", "test") if split in best}

    @staticmethod
    def _record(trainer: HeadTrainer, splits: Splits, seed: int) -> dict[str, Any]:
        """The results of a trained head."""
        metrics = {
            name: trainer.evaluate(examples)
            for name, examples in (("dev", splits.dev), ("test", splits.test))
            if examples
        }
        model, state = trainer.model, trainer.trainer.state
        mixers = {"input": model.input_mixer, "output": model.output_mixer}
        return metrics | {
            "seed": seed,
            "epochs": state.epoch,
            "best_epoch": trainer.best_epoch,
            "seconds": round(trainer.seconds, 1),
            "mix": {place: mixer.layer_weights().tolist() for place, mixer in mixers.items() if mixer is not None},
            "settings": trainer.settings.as_dict(),
        }

    @staticmethod
    def _save(trainer: HeadTrainer, folder: Path, seed: int):
        """Saves the model and the tokenizer to a temporary folder, until the best seed is known."""
        stage = _stage(folder, seed)
        shutil.rmtree(stage, ignore_errors=True)
        trainer.model.save_pretrained(stage)
        trainer.tokenizer.save_pretrained(stage)
        write_manifest(stage, {"seed": seed})

    def _finish(self, folder: Path, splits: Splits, records: list[dict[str, Any]], best: dict[str, Any]):
        """Writes the model, the tokenizer and the card. The results come last: they mark the run as finished."""
        stage = _stage(folder, best["seed"])
        if stage.exists():  # otherwise a stopped run has moved it already
            (stage / MANIFEST).unlink(missing_ok=True)
            move_files(stage, folder)
            stage.rmdir()
        results = best | {"examples": {name: len(split) for name, split in splits._asdict().items()}}
        if len(records) > 1:
            results |= {"seeds": records} | over_seeds(records)
        if is_made_here(folder):
            write_card(folder, Records(finetuning=self.description(), results=results))
        _write_json(folder / RESULTS, results)
        for path in (CHECKPOINTS, LAYERS, SEEDS, *(_stage(folder, record["seed"]) for record in records)):
            shutil.rmtree(folder / path, ignore_errors=True)
        (folder / FINISHED_SEEDS).unlink(missing_ok=True)


def over_seeds(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """
    Computes the mean and the range of the metrics over several seeds.

    Args:
        records: The record of each seed, with the metrics of "dev" and, if there are test data, of "test".

    Returns:
        `mean` and `range` (the smallest and the largest value), by split and metric.
    """
    values = {
        split: {metric: [record[split][metric] for record in records] for metric in records[0][split]}
        for split in ("dev", "test")
        if split in records[0]
    }
    return {
        "mean": {
            split: {name: mean(of_seeds) for name, of_seeds in metrics.items()} for split, metrics in values.items()
        },
        "range": {
            split: {name: [min(of_seeds), max(of_seeds)] for name, of_seeds in metrics.items()}
            for split, metrics in values.items()
        },
    }


def reading_options(model: str) -> dict[str, Any]:
    """The options with which the training examples of a model were read; none if its folder has no record of them."""
    folder = Path(model)
    return FinetuningRun.load(folder).data.options if (folder / RUN).exists() else {}


def _stage(folder: Path, seed: int) -> Path:
    return folder / f".model-{seed}"


def _read_finished_seeds(folder: Path) -> list[dict[str, Any]]:
    """
    The records of the heads that were trained and saved. A damaged head is left out: its training continues from its
    last checkpoint.
    """
    if not (folder / FINISHED_SEEDS).exists():
        return []
    try:
        stored = json.loads((folder / FINISHED_SEEDS).read_text("utf-8"))
        if stored["sha256"] != _digest(stored["seeds"]):
            return []
        return [record for record in stored["seeds"] if _is_saved(folder, record["seed"])]
    except (ValueError, LookupError, TypeError):
        return []


def _is_saved(folder: Path, seed: int) -> bool:
    """Whether the head of a seed is saved, in its temporary or its final folder."""
    stage = _stage(folder, seed)
    return is_intact(stage) if stage.exists() else (folder / "config.json").exists()


def _digest(records: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Locks the folder against other processes inside the `with` block."""
    if not this_process().is_main_process:
        yield
        return
    with RunLock(folder) as lock:
        yield
        lock.release()


def check_fields(task: str, fields: Collection[str]):
    """Refuses fields of a head's config that only the heads of other tasks read."""
    own = next(entry for entry in HEADS if entry.task == _task_class(task).name)
    for name in fields:
        readers = [entry.name for entry in HEADS if name in entry.fields]
        if readers and own.name not in readers:
            raise ValueError(
                f"`{name}` has no effect on {own.name}, it is a field of {' and '.join(readers)}: leave it out."
            )


def _task_class(name: str) -> type[Task]:
    if name not in TASKS:
        raise ValueError(f"There is no task {name!r}{did_you_mean(name, TASKS)}: choose one of {', '.join(TASKS)}.")
    return TASKS[name]


def _refuse_run(folder: Path):
    _refuse_begun(folder)
    refuse_used(folder, ignored=LOCK)


def _refuse_begun(folder: Path):
    if (folder / RUN).exists():
        raise RunError(f"{folder} already holds a run: continue with --resume, or name another folder.")


def _write_json(path: Path, values: dict[str, Any]):
    write_atomically(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


__all__ = ["FinetuningRun", "Splits", "TaskData", "check_fields", "over_seeds", "reading_options"]
