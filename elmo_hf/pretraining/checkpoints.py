"""
Checkpoints that are there as a whole or not at all.

A checkpoint is a folder `step-00001000`, written under another name and renamed when it is complete. Its manifest holds
the size and the SHA-256 of every file: a checkpoint that was cut short or damaged later is passed over.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..runtime.manifests import MANIFEST, is_complete, is_intact, read_manifest, write_manifest

logger = logging.get_logger(__name__)

NAME = re.compile(r"step-(\d+)")


def checkpoint_name(step: int) -> str:
    """The folder's name."""
    return f"step-{step:08d}"


def partial_folder(folder: Path, step: int) -> Path:
    """Where a checkpoint is written before it is complete."""
    return folder / f".{checkpoint_name(step)}.partial"


def complete(partial: Path, information: dict[str, Any]) -> Path:
    """Adds the manifest, and gives the checkpoint its name."""
    write_manifest(partial, information)
    final = partial.parent / partial.name.removeprefix(".").removesuffix(".partial")
    if final.exists():  # the same step again, after a resume
        shutil.rmtree(final)
    partial.replace(final)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, the newest first, torn ones included."""
    found = [path for path in folder.glob("step-*") if NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")), reverse=True)


def newest_complete(folder: Path) -> Path | None:
    """The newest checkpoint that looks whole."""
    return next((checkpoint for checkpoint in checkpoints(folder) if is_complete(checkpoint)), None)


def newest_intact(folder: Path) -> Path | None:
    """The checkpoint to resume from; a warning names each damaged one that is passed over."""
    for checkpoint in checkpoints(folder):
        if is_intact(checkpoint):
            return checkpoint
        logger.warning(f"{checkpoint} is damaged: its files are not those that were written. It is passed over.")
    return None


def rotate(folder: Path, keep: int):
    """Removes what was left half-written, and all complete checkpoints but the newest `keep`. Torn ones go too."""
    good = [checkpoint for checkpoint in checkpoints(folder) if is_complete(checkpoint)]
    for old in [*folder.glob(".step-*.partial"), *(path for path in checkpoints(folder) if path not in good[:keep])]:
        shutil.rmtree(old, ignore_errors=True)


__all__ = [
    "MANIFEST",
    "checkpoint_name",
    "checkpoints",
    "complete",
    "is_complete",
    "is_intact",
    "newest_complete",
    "newest_intact",
    "partial_folder",
    "read_manifest",
    "rotate",
]
