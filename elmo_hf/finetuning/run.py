"""A head's training and its folder: begun once, resumed as often as needed, and in the end a model that loads."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transformers import set_seed

from ..classification_elmo import ElmoTaskModel
from ..errors import RunError, TextError
from ..processes import part, this_process
from ..publishing import Records, is_made_here, write_card
from ..publishing.records import FINETUNING as RUN
from ..publishing.records import RESULTS
from ..staging import move_files, refuse_used, write_atomically
from ..tokenization_elmo import ElmoTokenizer
from .classification_data import read_labelled
from .settings import FinetuningSettings
from .tagging_data import read_tagged
from .tasks import ClassificationTask, TaggingTask, Task
from .training import CHECKPOINTS, LAYERS, HeadTrainer, build_head
from .word_vectors import WordVectors, learned_vectors, vectors_from_file


@dataclass
class TaskData:
    """
    Where the examples are, and how they are read.

    Args:
        train, dev, test: Files or datasets; without a test there is none.
        options: Of `read_tagged` or `read_labelled`.
    """

    train: str
    dev: str
    test: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def read(self, read: Callable[..., list[Any]]) -> "Splits":
        """All examples. A dataset's splits are named as usual, unless `options` say otherwise."""
        names = {"train": "train", "dev": "validation", "test": "test"}
        found = {}
        for split, name in names.items():
            source = getattr(self, split)
            found[split] = [] if source is None else read(source, **({"split": name} | self.options))
        return Splits(**found)


class Splits(NamedTuple):
    """Examples to learn from, to choose by, and to report on."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]


@dataclass
class FinetuningRun:
    """
    All that a run is made of; stored in its folder.

    Args:
        task: "tagging" or "classification".
        data: The examples.
        model: The biLM: a folder, or a name on the Hub.
        fields: Of the head's config.
        settings: Of the training.
        vectors_file: A file of word vectors to put beside ELMo.
        vectors_size: The size of word vectors that start at random, instead.
        max_vectors: How many words of the file to take beside those of the task.
    """

    task: Literal["tagging", "classification"]
    data: TaskData
    model: str
    fields: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    vectors_file: str | None = None
    vectors_size: int | None = None
    max_vectors: int = 50_000

    @classmethod
    def load(cls, folder: Path) -> "FinetuningRun":
        """The run that was begun in a folder."""
        try:
            stored = json.loads((folder / RUN).read_text("utf-8"))
        except FileNotFoundError:
            raise RunError(f"{folder} holds no run ({RUN} is missing): leave --resume away to begin one.") from None
        return cls(**(stored | {"data": TaskData(**stored["data"])}))

    def begin(self, folder: str | os.PathLike) -> dict[str, dict[str, float]]:
        """
        Trains a head in a new or empty folder, which in the end holds the model, its card and its results.

        Returns:
            Metrics of "dev" and, if there is one, of "test".
        """
        folder, process = Path(folder).resolve(), this_process()
        if process.is_main_process:
            _refuse_run(folder)
        process.wait_for_everyone()
        trainer, splits = self._prepare(folder)  # finds what is wrong before there is a folder
        if process.is_main_process:
            folder.mkdir(parents=True, exist_ok=True)
            _write_json(folder / RUN, asdict(self))
        process.wait_for_everyone()
        return self._finish(trainer, splits, folder, resume=False)

    @classmethod
    def resume(cls, folder: str | os.PathLike) -> dict[str, dict[str, float]]:
        """Goes on from the last checkpoint, or from the beginning if there is none."""
        folder = Path(folder).resolve()
        this_process()  # brings the processes together
        run = cls.load(folder)
        if (folder / RESULTS).exists():
            raise RunError(f"{folder} is finished: its results are in {RESULTS}.")
        trainer, splits = run._prepare(folder)
        return run._finish(trainer, splits, folder, resume=True)

    def _prepare(self, folder: Path) -> tuple[HeadTrainer, Splits]:
        settings = FinetuningSettings(**self.settings)
        splits, task = self._read()
        set_seed(settings.seed)
        tokenizer = ElmoTokenizer.from_pretrained(self.model)
        vectors = self._vectors(task, splits, tokenizer)
        model, tokenizer = build_head(task, self.model, tokenizer, vectors, self.fields)
        return HeadTrainer(model, tokenizer, task, splits.train, splits.dev, settings, folder), splits

    def _read(self) -> tuple[Splits, Task]:
        """The labels are those of all examples: one that was never seen in training is a mistake, not an error."""
        if self.task == "tagging":
            splits = self.data.read(read_tagged)
            return splits, TaggingTask.of([example for split in splits for example in split])
        splits = self.data.read(read_labelled)
        return splits, ClassificationTask.of([example for split in splits for example in split])

    def _vectors(self, task: Task, splits: Splits, tokenizer: ElmoTokenizer) -> WordVectors | None:
        if self.vectors_file is not None and self.vectors_size is not None:
            raise TextError("Word vectors are read from a file or start at random: choose one.")
        words = partial(task.words, tokenizer=tokenizer)
        if self.vectors_file is not None:
            others = words([*splits.dev, *splits.test])
            return vectors_from_file(self.vectors_file, tokenizer, words(splits.train), self.max_vectors, others)
        return None if self.vectors_size is None else learned_vectors(tokenizer, words(splits.train), self.vectors_size)

    def _finish(self, trainer: HeadTrainer, splits: Splits, folder: Path, resume: bool) -> dict[str, dict[str, float]]:
        trainer.train(resume)
        results = {
            name: trainer.evaluate(examples)
            for name, examples in (("dev", splits.dev), ("test", splits.test))
            if examples
        }
        if trainer.trainer.is_world_process_zero():
            self._save(trainer, splits, results, folder)
        part(this_process())
        return results

    def _save(self, trainer: HeadTrainer, splits: Splits, results: dict[str, dict[str, float]], folder: Path):
        """Model, tokenizer, card; the results come last: with them the run is finished."""
        stage = folder / ".model"
        shutil.rmtree(stage, ignore_errors=True)
        model: ElmoTaskModel = trainer.model
        model.save_pretrained(stage)
        trainer.tokenizer.save_pretrained(stage)
        move_files(stage, folder)
        stage.rmdir()
        sizes = {name: len(split) for name, split in splits._asdict().items()}
        recorded = results | {"epochs": trainer.trainer.state.epoch, "examples": sizes}
        if is_made_here(folder):
            write_card(folder, Records(finetuning=asdict(self), results=recorded))
        _write_json(folder / RESULTS, recorded)
        for name in (CHECKPOINTS, LAYERS):
            shutil.rmtree(folder / name, ignore_errors=True)


def reading_options(model: str) -> dict[str, Any]:
    """How the examples were read that a model was trained on; nothing where its folder does not tell."""
    folder = Path(model)
    return FinetuningRun.load(folder).data.options if (folder / RUN).exists() else {}


def _refuse_run(folder: Path):
    if (folder / RUN).exists():
        raise RunError(f"{folder} already holds a run: go on with --resume, or name another folder.")
    refuse_used(folder)


def _write_json(path: Path, values: dict[str, Any]):
    write_atomically(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


__all__ = ["FinetuningRun", "Splits", "TaskData", "reading_options"]
