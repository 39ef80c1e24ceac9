"""The records in a model's folder of how the model was made."""

import glob
import json
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from ..errors import ModelError
from ..modeling.checks_elmo import read_json_object

# The files that training and conversion write beside a model.
PRETRAINING, HISTORY = "run.json", "history.jsonl"
FINETUNING, RESULTS = "finetune.json", "results.json"
CONVERSION = "conversion.json"
# Owner and name on the Hub, of a dataset also with a config. A path may look the same; a name with a suffix is a file.
HUB_NAME = re.compile(r"\w[\w.-]*/(?:\w[\w-]*|\w[\w.-]*:[^:/\\]+)")


class Records(NamedTuple):
    """
    The records of a folder. A record that does not exist is `None`.

    Attributes:
        pretraining: The text and the settings of a run of `elmo-hf pretrain`.
        history: The history of that run.
        finetuning: The task, the data, the model and the settings of a run of `elmo-hf finetune`.
        results: The results of that run: the metrics of each split and its number of examples.
        conversion: The source of a conversion.
    """

    pretraining: dict[str, Any] | None = None
    history: list[dict[str, Any]] | None = None
    finetuning: dict[str, Any] | None = None
    results: dict[str, Any] | None = None
    conversion: dict[str, Any] | None = None

    @classmethod
    def of(cls, folder: Path) -> "Records":
        """Reads the records of a folder."""
        history = folder / HISTORY
        return cls(
            pretraining=_read(folder / PRETRAINING),
            history=read_history(history) if history.exists() else None,
            finetuning=_read(folder / FINETUNING),
            results=_read(folder / RESULTS),
            conversion=_read(folder / CONVERSION),
        )

    def published(self) -> dict[str, dict[str, Any]]:
        """The records that contain paths, `run.json` and `finetune.json`, with the names of the files only."""
        files = {}
        if (run := self.pretraining) is not None:
            sources = {part: [shown_name(source) for source in run["text"][part]] for part in ("text", "heldout")}
            files[PRETRAINING] = run | {"text": run["text"] | sources}
        if (run := self.finetuning) is not None:
            sources = {split: run["data"].get(split) for split in ("train", "dev", "test")}
            data = {split: source and shown_name(source) for split, source in sources.items()}
            named = {part: run[part] and shown_name(run[part]) for part in ("model", "vectors_file")}
            files[FINETUNING] = run | named | {"data": run["data"] | data}
        return files

    def perplexity(self) -> dict[str, Any] | None:
        """The last record of held-out perplexity: `heldout_words`, and `…_perplexity` of each direction."""
        records = [record for record in self.history or [] if "heldout_words" in record]
        return records[-1] if records else None

    def progress(self) -> dict[str, Any] | None:
        """The last record of the training: `step`, `words`, `hours`."""
        records = [record for record in self.history or [] if "hours" in record]
        return records[-1] if records else None


def read_history(path: Path) -> list[dict[str, Any]]:
    """All records of a run."""
    return [record for _, record in history_lines(path)]


def history_lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The complete lines of a history and their records. A kill may have truncated the last line."""
    records = []
    for line in path.read_text("utf-8", errors="replace").split("\n"):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append((line + "\n", record))
    return records


@contextmanager
def malformed_files(folder: Path) -> Generator[None]:
    """Turns the errors that a malformed config, malformed weights or records raise into one error."""
    try:
        yield
    except ModelError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
    except (SafetensorError, StrictDataclassError) as error:
        what = " ".join(str(error.__cause__ or error).split())
    else:
        return
    raise ModelError(f"A file of {folder} is malformed ({what}): save the model again, or remove the record.")


def is_hub_name(source: str) -> bool:
    """Whether a source looks like an owner and a name on the Hub, and is not a local path."""
    return HUB_NAME.fullmatch(source) is not None and not os.path.exists(source)


def stored_name(source: str) -> str:
    """The name of a source for a record of a run, valid in every folder: a path is absolute, other names stay."""
    is_path = os.path.exists(source) or glob.has_magic(source)  # a name on the Hub has no wildcards
    return os.path.abspath(source) if is_path else source


def shown_name(source: str) -> str:
    """The name of a source for publishing: a name on the Hub as it is, a path without its folders."""
    return source if is_hub_name(source) else PureWindowsPath(source).name or source  # knows both separators


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        return read_json_object(path)
    except OSError as error:
        raise ModelError(str(error)) from error


__all__ = [
    "CONVERSION",
    "FINETUNING",
    "HISTORY",
    "PRETRAINING",
    "RESULTS",
    "Records",
    "history_lines",
    "is_hub_name",
    "malformed_files",
    "read_history",
    "shown_name",
    "stored_name",
]
