"""A pretraining run and its folder, which can be resumed and ends up as a model folder."""

import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accelerate.tracking import get_available_trackers
from safetensors import SafetensorError

from ..errors import CheckpointError, RunError, counted, did_you_mean
from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.modeling_elmo import ElmoForPreTraining
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..publishing import is_made_here, write_card
from ..runtime.locks import LOCK, RunLock
from ..runtime.processes import this_process
from ..runtime.run_records import PRETRAINING as RUN
from ..runtime.run_records import stored_name
from ..runtime.staging import move_files, refuse_used, write_atomically
from .evaluation import Perplexity
from .precision import choose_precision
from .settings import PretrainingSettings
from .streams import Reader, SentenceEncoder, Streams
from .text import Corpus
from .training import Pretrainer
from .vocabulary import count_steps

# Settings that a resumed run keeps, and why.
FIXED = {"optimizer": "the checkpoint has the state of another one", "seed": "it decides the order of the text"}
PLANNED = "the number of steps of an epoch was planned with it"


@dataclass
class RunText:
    """
    The text of a run.

    Args:
        text, heldout: The sources to train and to evaluate on, as in [`Corpus`].
        column: The column of tables and datasets, as in [`Corpus`].
        split: The split of datasets.
        pretokenized: Whether words are separated by blanks. Otherwise the tokenizer splits the text.
    """

    text: list[str]
    heldout: list[str] = field(default_factory=list)
    column: str | None = None
    split: str = "train"
    pretokenized: bool = False

    def description(self) -> dict[str, Any]:
        """The text as it is stored. Its paths are absolute, so that the run can be resumed in another folder."""
        sources = {part: [stored_name(source) for source in getattr(self, part)] for part in ("text", "heldout")}
        return asdict(self) | sources

    def fingerprints(self) -> dict[str, list[str | None]]:
        """Fingerprints of all texts, to detect that one of them has changed."""
        heldout = self.heldout_corpus()
        return {"text": self.corpus().fingerprints(), "heldout": [] if heldout is None else heldout.fingerprints()}

    def corpus(self) -> Corpus:
        """The text to train on."""
        return Corpus(self.text, column=self.column, split=self.split)

    def heldout_corpus(self) -> Corpus | None:
        """The text to evaluate on."""
        return Corpus(self.heldout, column=self.column, split=self.split) if self.heldout else None


class Run:
    """
    A run in a folder. [`Run.begin`] starts one, and [`Run.resume`] continues one.

    Attributes:
        trainer ([`Pretrainer`]): The training loop.
        tokenizer ([`ElmoTokenizer`]): The model's tokenizer.
    """

    def __init__(self, folder: Path, model: ElmoForPreTraining, tokenizer: ElmoTokenizer, description: dict[str, Any]):
        self.folder, self.tokenizer = folder, tokenizer
        text = RunText(**description["text"])
        settings = PretrainingSettings(**description["settings"])
        self.trainer = Pretrainer(
            model,
            tokenizer,
            text.corpus(),
            settings,
            folder,
            heldout=text.heldout_corpus(),
            pretokenized=text.pretokenized,
            total_steps=description["total_steps"],
            tracker=description["tracker"],
        )

    @classmethod
    def begin(
        cls,
        folder: str | os.PathLike,
        model: ElmoForPreTraining,
        tokenizer: ElmoTokenizer,
        text: RunText,
        settings: PretrainingSettings,
        tracker: str | None = None,
    ) -> "Run":
        """
        Starts a run in a new or empty folder. If the text, the settings or the disk cause an error, the folder is left
        as it was.

        Args:
            folder: The folder for checkpoints, records and, at the end, the model.
            model: A new or a pretrained model.
            tokenizer: The model's tokenizer.
            text: The text to train and to evaluate on.
            settings: The settings of the training.
            tracker: The name of a tracker that Accelerate knows, such as "tensorboard".
        """
        folder, process = Path(folder), this_process()
        if process.is_main_process:
            _refuse_run(folder)
            _check_tracker(tracker)
            _check_text(text, tokenizer, settings.batch_size * process.num_processes)
            steps = settings.steps
            if steps is None:
                words = count_steps(text.corpus(), tokenizer, pretokenized=text.pretokenized)
                per_step = settings.batch_size * settings.window * settings.accumulate * process.num_processes
                steps = max(-(-words * (settings.epochs or 1) // per_step), 1)
            description = {
                "text": text.description(),
                "settings": settings.as_dict() | {"mixed_precision": choose_precision(settings.mixed_precision)},
                "total_steps": steps,
                "tracker": tracker,
                "fingerprints": text.fingerprints(),
            }
        with _new_run(folder) if process.is_main_process else nullcontext():
            if process.is_main_process:
                model.config.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
                write_atomically(folder / RUN, json.dumps(description, indent=2))
            process.wait_for_everyone()
            run = cls(folder, model, tokenizer, _read_description(folder))
            run.trainer.save()  # the first checkpoint, from which the run can be resumed
        return run

    @classmethod
    def resume(cls, folder: str | os.PathLike, **changes: Any) -> "Run":
        """
        Continues a run from the newest complete checkpoint.

        Args:
            folder: The folder of the run.
            changes: Settings to change. `steps` or `epochs` extend a run.
        """
        folder, process = Path(folder), this_process()
        description = _changed(_read_description(folder), changes)
        with RunLock(folder) if process.is_main_process else nullcontext():
            if process.is_main_process:
                _check_unchanged(description)
            tokenizer = ElmoTokenizer.from_pretrained(folder)
            run = cls(folder, ElmoForPreTraining(ElmoConfig.from_pretrained(folder)), tokenizer, description)
            if not run.trainer.resume():
                raise RunError(
                    f"{folder} has no complete checkpoint: the run never began; remove the folder and start again."
                )
            if process.is_main_process and changes:
                write_atomically(folder / RUN, json.dumps(description, indent=2))
        return run

    def train(self) -> Perplexity | None:
        """
        Trains until the end or until a signal arrives. At the end, saves the model.

        Returns:
            The perplexity on all of the held-out text. `None` if there is none, or after a signal.
        """
        trainer, result = self.trainer, None
        try:
            trainer.train()
            if not trainer.was_interrupted:
                result = trainer.evaluate()
                self.save_model()
            trainer.accelerator.end_training()
        finally:
            RunLock(self.folder).release()
        return result

    def save_model(self):
        """Saves the model and its card to the folder, from which `from_pretrained` can load it."""
        if self.trainer.accelerator.is_main_process:
            stage = self.folder / ".model"
            try:
                self.trainer.unwrapped.save_pretrained(stage)
                move_files(stage, self.folder)
                if is_made_here(self.folder):
                    write_card(self.folder)
            except (OSError, SafetensorError) as error:
                raise CheckpointError(
                    f"The model could not be written to {self.folder} ({' '.join(str(error).split())}). Its last "
                    "checkpoint is there: make room and resume."
                ) from error
            finally:
                shutil.rmtree(stage, ignore_errors=True)
        self.trainer.accelerator.wait_for_everyone()


def _check_unchanged(description: dict[str, Any]):
    """Raises an error if the text has changed since the run began: the run would continue at a wrong position."""
    begun = description.get("fingerprints")  # runs of earlier versions have none
    if begun is None:
        return
    text = RunText(**description["text"])
    remedy = "Put the text back as it was, or start a new run from this one's model with --from."
    for part, corpus in (("text", text.corpus()), ("heldout", text.heldout_corpus())):
        names = [] if corpus is None else corpus.shards
        if len(names) != len(begun[part]):
            before = counted(len(begun[part]), "file")
            raise RunError(f"The run was begun with {before} of {part}, now there are {len(names)}. {remedy}")
        now = [] if corpus is None else corpus.fingerprints()
        for name, before, after in zip(names, begun[part], now, strict=True):
            if before != after:
                raise RunError(f"{name} has changed since the run was begun. {remedy}")


def _refuse_run(folder: Path):
    if (folder / RUN).exists():
        raise RunError(f"{folder} already holds a run: continue with --resume, or name another folder.")
    refuse_used(folder, ignored=LOCK)


def _check_tracker(tracker: str | None):
    """Raises an error for an unknown tracker. Accelerate would ignore a tracker whose package is missing."""
    if tracker is not None and tracker not in (available := [str(name) for name in get_available_trackers()]):
        raise RunError(
            f"There is no tracker {tracker!r}{did_you_mean(tracker, available)} here: install its package, or choose "
            f"one of {', '.join(available)}."
        )


def _check_text(text: RunText, tokenizer: ElmoTokenizer, streams: int):
    """Raises an error if there is too little text, before the run begins."""
    reader, encode = Reader(text.corpus(), epochs=1, seed=0), SentenceEncoder(tokenizer, text.pretokenized)
    Streams(reader, encode, streams=streams, window=1).take()
    if (heldout := text.heldout_corpus()) is not None:
        next(heldout.sentences())


@contextmanager
def _new_run(folder: Path) -> Generator[None]:
    """Locks a new or empty folder. If the `with` block fails, unlocks it and restores its former state."""
    new = [path for path in (folder.absolute(), *folder.absolute().parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with RunLock(folder):
            _refuse_run(folder)  # another process may have begun one since the first look
            with _emptied_by_failure(folder):
                yield
    except BaseException:
        for path in new:
            if path.exists() and not any(path.iterdir()):
                path.rmdir()
        raise


@contextmanager
def _emptied_by_failure(folder: Path) -> Generator[None]:
    """Removes everything but the lock from a folder if the `with` block fails."""
    try:
        yield
    except BaseException:
        for path in folder.iterdir():
            if path.name != LOCK:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def _changed(description: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The description of a run with some settings changed."""
    settings = description["settings"]
    if fixed := sorted(name for name in changes if name not in settings):
        raise RunError(f"{', '.join(fixed)} cannot be changed on resume: only settings of the training can.")
    planned = {} if settings["steps"] or changes.get("steps") else dict.fromkeys(("window", "accumulate"), PLANNED)
    for name, reason in (FIXED | planned).items():
        if changes.get(name, settings[name]) != settings[name]:
            raise RunError(f"{name} cannot be changed on resume: {reason}.")
    if changes.get("epochs") and settings["steps"] and not changes.get("steps"):
        raise RunError("The run has a number of steps: prolong it with steps (--steps), not with epochs.")
    if changes.get("mixed_precision") == "auto":  # keep the precision that was chosen when the run began
        changes = changes | {"mixed_precision": settings["mixed_precision"]}
    steps = description["total_steps"]
    if changes.get("steps"):
        steps = changes["steps"]
    elif changes.get("epochs") and settings["epochs"] and not settings["steps"]:
        steps = -(-steps * changes["epochs"] // settings["epochs"])
    changed = PretrainingSettings(**(settings | changes))
    return description | {"settings": changed.as_dict(), "total_steps": steps}


def _read_description(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / RUN).read_text("utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder} holds no run ({RUN} is missing): leave out --resume to start one.") from None


__all__ = ["Run", "RunText"]
