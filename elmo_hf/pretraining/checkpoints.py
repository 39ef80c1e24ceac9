"""
Checkpoints, written atomically.

A checkpoint is a folder `step-00001000`. It is written under another name and renamed when it is complete. Its manifest
holds the size and the SHA-256 of every file; checkpoints that are truncated or damaged are skipped.
"""

import itertools
import re
import shutil
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..runtime.manifests import MANIFEST, is_complete, is_intact, read_manifest, write_manifest

logger = logging.get_logger(__name__)

NAME = re.compile(r"step-(\d+)")


def checkpoint_name(step: int) -> str:
    """The name of a checkpoint's folder."""
    return f"step-{step:08d}"


def partial_folder(folder: Path, step: int) -> Path:
    """The folder that a checkpoint is written to before it is complete."""
    return folder / f".{checkpoint_name(step)}.partial"


def complete(partial: Path, information: dict[str, Any]) -> Path:
    """Adds the manifest and renames the folder to its final name."""
    write_manifest(partial, information)
    final = partial.parent / partial.name.removeprefix(".").removesuffix(".partial")
    if final.exists():  # the same step was saved before the run was resumed
        shutil.rmtree(final)
    partial.replace(final)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, including incomplete ones, the newest first."""
    paths = [path for path in folder.glob("step-*") if NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(paths, key=lambda path: int(path.name.removeprefix("step-")), reverse=True)


def newest_complete(folder: Path) -> Path | None:
    """The newest checkpoint that is complete, judged by the sizes of its files."""
    return next((checkpoint for checkpoint in checkpoints(folder) if is_complete(checkpoint)), None)


def newest_intact(folder: Path) -> Path | None:
    """The checkpoint to resume from: the newest one whose checksums are right. A warning names each skipped one."""
    for checkpoint in checkpoints(folder):
        if is_intact(checkpoint):
            return checkpoint
        logger.warning(f"{checkpoint} is damaged: its files are not those that were written. It is skipped.")
    return None


def remove_newer(checkpoint: Path):
    """Removes the checkpoints of later steps."""
    for newer in itertools.takewhile(lambda path: path != checkpoint, checkpoints(checkpoint.parent)):
        shutil.rmtree(newer, ignore_errors=True)


def rotate(folder: Path, keep: int):
    """Removes incomplete checkpoints, and all complete ones except the newest `keep`."""
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
    "remove_newer",
    "rotate",
]
