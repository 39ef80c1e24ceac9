"""The work folder of a run, beside its output: the settings, and the finished shards."""

import hashlib
import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..embedding.embedder import ElmoEmbedder
from ..errors import RunError, in_one_line
from ..modeling.checks_elmo import read_json_object
from ..runtime.locks import RunLock
from ..runtime.staging import staged_folder, write_atomically
from .shards import ENDING, Layout, Shard

RUN = "run.json"
# What decides, beside the vocabulary, which ids a text gets.
TOKENIZER_SETTINGS = ("splitting", "segmenter", "max_characters_per_token", "characters", "max_word_length")
TOKENIZER_SETTINGS += ("boundary_words", "split_special_tokens")


class WorkFolder:
    """
    The folder `OUT.parts`. It exists from the start of a run to its end.

    Args:
        out: The output file.
        target: The file whose existence means that the output is complete.
    """

    def __init__(self, out: Path, target: Path):
        self.path, self._out, self._target = out.with_name(f"{out.name}.parts"), out, target

    @contextmanager
    def begun(self, settings: dict[str, Any], resume: bool, overwrite: bool) -> Generator[None]:
        """
        Starts a run, or continues one that was started with the same settings, and locks it inside the `with` block. A
        failure before the first shard is finished leaves nothing behind.

        Args:
            settings: Everything that the vectors depend on, plain values by name.
            resume: Whether to continue a stopped run, if there is one.
            overwrite: Whether to start from the beginning even if there is an output or a stopped run.
        """
        if not self._out.parent.is_dir():
            raise RunError(f"There is no folder {self._out.parent}.")
        if self._target.exists() and not overwrite and not (resume and self.path.exists()):
            raise RunError(f"{self._target} exists: name another file, or give --overwrite.")
        if not self.path.exists():
            with staged_folder(self.path) as stage:
                write_atomically(stage / RUN, json.dumps(settings, indent=2) + "\n")
        with RunLock(self.path) as lock:
            try:
                self._begin(settings, resume, overwrite)
                yield
            except BaseException:
                if self._is_run() and not self._has_shards():
                    self.remove()
                raise
            finally:
                lock.release()

    def _begin(self, settings: dict[str, Any], resume: bool, overwrite: bool):
        if not self._is_run():
            raise RunError(f"{self.path} holds no run ({RUN} is missing): remove it.")
        if resume and self._target.exists() and not overwrite:  # killed after the output was complete
            self.remove()
            raise RunError(f"{self._target} is complete: nothing is left to do.")
        if overwrite or not self._has_shards():
            for path in self.path.glob(f"*{ENDING}"):
                path.unlink()
            write_atomically(self.path / RUN, json.dumps(settings, indent=2) + "\n")
        elif not resume:
            raise RunError(
                f"{self.path} belongs to a run that was stopped: continue with --resume, or start over with "
                "--overwrite."
            )
        self._check(settings)
        for rest in self.path.glob(".*.tmp"):  # files that were being written when the run was killed
            rest.unlink()

    def _is_run(self) -> bool:
        return (self.path / RUN).is_file()

    def _has_shards(self) -> bool:
        return any(self.path.glob(f"*{ENDING}"))

    def _check(self, settings: dict[str, Any]):
        begun = read_json_object(self.path / RUN)
        for name, now in json.loads(json.dumps(settings)).items():
            if begun.get(name) != now:
                raise RunError(
                    f"The run in {self.path} was started with {name} {begun.get(name)!r}, not {now!r}: give the "
                    "same value, or start over with --overwrite."
                )

    def shard_path(self, shard: int) -> Path:
        """The path of a finished shard."""
        return self.path / f"{shard:08}{ENDING}"

    def shard(self, shard: int, layout: Layout) -> Shard:
        """Opens a finished shard."""
        return Shard(self.shard_path(shard), layout)

    def is_done(self, shard: int, layout: Layout, source: str) -> bool:
        """
        Whether a shard is finished and complete. A shard of an input whose digest is not `source` raises an error.
        """
        try:
            finished = self.shard(shard, layout)
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # truncated by a crash of the machine
            return False
        if finished.source != source:
            raise RunError(
                f"The input is not the one that the run in {self.path} was started with: give the same input, or start "
                "over with --overwrite."
            )
        return True

    @contextmanager
    def written(self) -> Generator[None]:
        """Turns a write error inside the `with` block into one line that says how to continue."""
        try:
            yield
        except OSError as error:
            raise RunError(
                f"{self._out} could not be written ({in_one_line(error)}). What was embedded is in {self.path}: make "
                "room, and continue with --resume."
            ) from error

    def remove(self):
        """Removes the folder, at the end of the run."""
        shutil.rmtree(self.path)


def fingerprint(embedder: ElmoEmbedder) -> dict[str, str]:
    """Digests that identify the model, by its config and weights, and the tokenizer, by its settings and vocabulary."""
    config = embedder.model.config.to_dict()
    for name in ("_name_or_path", "transformers_version"):
        config.pop(name, None)
    weights = {
        name: (str(weight.dtype), *weight.shape, hashlib.sha256(_memory(weight)).hexdigest())
        for name, weight in embedder.model.state_dict().items()
    }
    tokenizer = embedder.tokenizer
    settings = [str(getattr(tokenizer, name)) for name in TOKENIZER_SETTINGS], tokenizer.get_vocab()
    return {"model": _digest([config, weights]), "tokenizer": _digest(settings)}


def _memory(weight: torch.Tensor) -> memoryview:
    return weight.detach().cpu().contiguous().view(torch.uint8).numpy().data


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


__all__ = ["WorkFolder", "fingerprint"]
