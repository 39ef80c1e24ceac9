"""What a model's folder tells of how the model was made."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ModelError

# Files that training and conversion leave beside a model; see there for what is in them.
PRETRAINING, HISTORY = "run.json", "history.jsonl"
FINETUNING, RESULTS = "finetune.json", "results.json"
CONVERSION = "conversion.json"


class Records(NamedTuple):
    """
    The contents of a folder's records, as far as there are any.

    Attributes:
        pretraining: Of a run of `elmo-hf pretrain`: its text and settings.
        history: What that run has recorded on the way.
        finetuning: Of a run of `elmo-hf finetune`: its task, data, model and settings.
        results: What came of that: metrics of each split, and how many examples there were.
        conversion: What was converted.
    """

    pretraining: dict[str, Any] | None = None
    history: list[dict[str, Any]] | None = None
    finetuning: dict[str, Any] | None = None
    results: dict[str, Any] | None = None
    conversion: dict[str, Any] | None = None

    @classmethod
    def of(cls, folder: Path) -> "Records":
        """Reads those of a folder."""
        history = folder / HISTORY
        return cls(
            pretraining=_read(folder / PRETRAINING),
            history=read_history(history) if history.exists() else None,
            finetuning=_read(folder / FINETUNING),
            results=_read(folder / RESULTS),
            conversion=_read(folder / CONVERSION),
        )

    def perplexity(self) -> dict[str, Any] | None:
        """The last record of held-out perplexity: `forward_perplexity`, `backward_perplexity`, `heldout_words`."""
        found = [record for record in self.history or [] if "heldout_words" in record]
        return found[-1] if found else None

    def progress(self) -> dict[str, Any] | None:
        """The last record of the training: `step`, `words`, `hours`."""
        found = [record for record in self.history or [] if "hours" in record]
        return found[-1] if found else None


def read_history(path: Path) -> list[dict[str, Any]]:
    """All records of a run."""
    return [record for _, record in history_lines(path)]


def history_lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Whole lines and what they say; the last one may have been torn by a kill, if only of its end."""
    records = []
    for line in path.read_text("utf-8").split("\n"):
        try:
            records.append((line + "\n", json.loads(line)))
        except ValueError:
            continue
    return records


def shown_name(source: str) -> str:
    """A name on the Hub as it is, of a path the last part: what is published tells nothing of the machine."""
    is_path = os.path.isabs(source) or os.path.exists(source)
    return os.path.basename(os.path.normpath(source)) if is_path else source


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{path} is no JSON ({error}): mend or remove it.") from error


__all__ = [
    "CONVERSION",
    "FINETUNING",
    "HISTORY",
    "PRETRAINING",
    "RESULTS",
    "Records",
    "history_lines",
    "read_history",
    "shown_name",
]
