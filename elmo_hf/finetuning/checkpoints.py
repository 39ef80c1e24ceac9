"""
Checkpoints of a head's training, which transformers' Trainer writes.

Each complete checkpoint gets a manifest. Resuming skips damaged checkpoints, and incomplete ones, which have none.
"""

import shutil
from pathlib import Path
from typing import Any

from transformers.trainer_callback import TrainerCallback, TrainerControl, TrainerState
from transformers.utils import logging

from ..runtime.manifests import MANIFEST, is_intact, write_manifest
from ..runtime.processes import this_process

logger = logging.get_logger(__name__)

TRAINER_STATE = "trainer_state.json"


class CheckpointManifests(TrainerCallback):
    """Adds a manifest to every checkpoint, and corrects the path of the best one if the run's folder was moved."""

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if state.best_model_checkpoint is not None:  # an absolute path: the folder may have been moved since
            state.best_model_checkpoint = str(best_checkpoint(Path(args.output_dir), state))

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        this_process().wait_for_everyone()  # until every process has written its part
        if state.is_world_process_zero:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_manifest(checkpoint, {"step": state.global_step})


def best_checkpoint(folder: Path, state: TrainerState) -> Path | None:
    """
    Finds the checkpoint with the best weights.

    Args:
        folder: The folder of the checkpoints.
        state: The trainer state that a checkpoint has stored.

    Returns:
        The checkpoint with the best weights so far; `None` before the first evaluation.
    """
    return None if state.best_model_checkpoint is None else folder / Path(state.best_model_checkpoint).name


def last_intact_checkpoint(folder: Path) -> Path | None:
    """
    The checkpoint to resume from: the last one that is intact, and whose best checkpoint so far is intact too. Unusable
    checkpoints are removed, with a warning for those that were complete and have been damaged since.
    """
    process = this_process()
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    intact = {path for path in checkpoints if is_intact(path)}
    usable = [path for path in checkpoints if path in intact and _best(path) in intact]
    process.wait_for_everyone()  # until every process has read
    if process.is_main_process:
        for path in checkpoints:
            if path not in intact and (path / MANIFEST).exists():
                logger.warning(f"{path} is damaged: its files are not those that were written. It is skipped.")
            if path not in usable:
                shutil.rmtree(path)
    process.wait_for_everyone()
    return usable[-1] if usable else None


def _best(checkpoint: Path) -> Path:
    state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE))
    return best_checkpoint(checkpoint.parent, state) or checkpoint


__all__ = ["TRAINER_STATE", "CheckpointManifests", "best_checkpoint", "last_intact_checkpoint"]
