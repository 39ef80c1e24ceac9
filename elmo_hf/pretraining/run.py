"""A run and its folder: begun once, resumed as often as needed, and in the end a model that loads."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accelerate import PartialState

from ..configuration_elmo import ElmoConfig
from ..modeling_elmo import ElmoForPreTraining
from ..tokenization_elmo import ElmoTokenizer
from .evaluation import Perplexity
from .precision import choose_precision
from .settings import PretrainingSettings
from .text import Corpus
from .training import Pretrainer
from .vocabulary import count_steps

RUN = "run.json"


class RunError(ValueError):
    """What is wrong with a run's folder, in one line for the user."""


@dataclass
class RunText:
    """
    What a run reads.

    Args:
        text, heldout: Sources, as [`Corpus`] takes them.
        column, split: Of datasets.
        pretokenized: Whether words are what blanks separate.
    """

    text: list[str]
    heldout: list[str] = field(default_factory=list)
    column: str = "text"
    split: str = "train"
    pretokenized: bool = False

    def corpus(self) -> Corpus:
        """The text to train on."""
        return Corpus(self.text, column=self.column, split=self.split)

    def heldout_corpus(self) -> Corpus | None:
        """The text to evaluate on."""
        return Corpus(self.heldout, column=self.column, split=self.split) if self.heldout else None


class Run:
    """
    A run in a folder. Make one with [`Run.begin`] or [`Run.resume`].

    Attributes:
        trainer ([`Pretrainer`]): The loop.
        tokenizer ([`ElmoTokenizer`]): The model's.
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
        Starts a run in a new or empty folder.

        Args:
            folder: Gets checkpoints, records and in the end the model.
            model: Fresh or pretrained.
        """
        folder, process = Path(folder).resolve(), PartialState()
        if process.is_main_process:
            _refuse_used(folder)
            corpus = text.corpus()
            steps = settings.steps
            if steps is None:
                words = count_steps(corpus, tokenizer, pretokenized=text.pretokenized)
                per_step = settings.batch_size * settings.window * settings.accumulate * process.num_processes
                steps = max(-(-words * (settings.epochs or 1) // per_step), 1)
            settings.mixed_precision = choose_precision(settings.mixed_precision)  # ty: ignore[invalid-assignment]
            description = {
                "text": asdict(text),
                "settings": settings.as_dict(),
                "total_steps": steps,
                "tracker": tracker,
            }
            folder.mkdir(parents=True, exist_ok=True)
            model.config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            _write_atomically(folder / RUN, json.dumps(description, indent=2))
        process.wait_for_everyone()
        run = cls(folder, model, tokenizer, _read_description(folder))
        run.trainer.save()  # from here on there is something to resume from
        return run

    @classmethod
    def resume(cls, folder: str | os.PathLike, **changes: Any) -> "Run":
        """
        Goes on from the newest complete checkpoint.

        Args:
            folder: Of a run that was begun.
            changes: Settings to change. `steps` prolongs a run.
        """
        folder, process = Path(folder).resolve(), PartialState()
        description = _read_description(folder)
        description["settings"] |= changes
        if changes.get("steps"):
            description["total_steps"] = changes["steps"]
        if process.is_main_process and changes:
            _write_atomically(folder / RUN, json.dumps(description, indent=2))
        process.wait_for_everyone()
        tokenizer = ElmoTokenizer.from_pretrained(folder)
        run = cls(folder, ElmoForPreTraining(ElmoConfig.from_pretrained(folder)), tokenizer, description)
        if not run.trainer.resume():
            raise RunError(
                f"{folder} has no complete checkpoint: the run never began; remove the folder and start anew."
            )
        return run

    def train(self) -> Perplexity | None:
        """
        Trains to the end, or to a signal, and saves the model.

        Returns:
            Perplexity on all of the held-out text; `None` without one, and after a signal.
        """
        trainer = self.trainer
        trainer.train()
        if trainer.was_interrupted:
            return None
        result = trainer.evaluate()
        self.save_model()
        return result

    def save_model(self):
        """Puts the model into the folder, where `from_pretrained` finds it."""
        if self.trainer.accelerator.is_main_process:
            stage = self.folder / ".model"
            self.trainer.unwrapped.save_pretrained(stage)
            for path in sorted(stage.iterdir()):
                os.replace(path, self.folder / path.name)
            stage.rmdir()
        self.trainer.accelerator.wait_for_everyone()


def _refuse_used(folder: Path):
    if (folder / RUN).exists():
        raise RunError(f"{folder} already holds a run: go on with --resume, or name another folder.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists and is not an empty folder: name another one, or remove it.")


def _read_description(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / RUN).read_text("utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder} holds no run ({RUN} is missing): leave --resume away to begin one.") from None


def _write_atomically(path: Path, text: str):
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


__all__ = ["Run", "RunError", "RunText"]
