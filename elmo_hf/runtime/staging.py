"""Folders and files that are there as a whole, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FolderError


@contextmanager
def staged_folder(out: str | os.PathLike) -> Generator[Path]:
    """
    A temporary folder near `out` that takes its name when the block ends, and vanishes when the block fails.

    Args:
        out: The folder to make. It must not exist yet, or be empty.
    """
    out = Path(out).resolve()
    refuse_used(out)
    # In the nearest folder that is there: a rename stays on one disk, and a failure leaves no new parents behind.
    nearest = next(parent for parent in out.parents if parent.exists())
    stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=nearest))
    try:
        yield stage
        refuse_used(out)  # somebody else may have been faster
        if out.exists():  # stays itself: it may be somebody's working directory, or a mounted disk
            move_files(stage, out)
            stage.rmdir()
        else:
            _open_to_others(stage)
            out.parent.mkdir(parents=True, exist_ok=True)
            stage.replace(out)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise


def move_files(stage: Path, folder: Path):
    """
    Moves all that is in a temporary folder into another one, the config last: until then it is no model's folder.

    Files of the same names are replaced.
    """
    _open_to_others(stage)
    for path in sorted(stage.iterdir(), key=lambda path: (path.name == "config.json", path.name)):
        shutil.move(path, folder / path.name)


def write_atomically(path: Path, text: str):
    """Writes a file, or leaves the one that is there."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def refuse_used(folder: Path):
    """Refuses a folder that is neither new nor empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderError(f"{folder} exists and is not an empty folder: name another one, or remove it.")


def _open_to_others(folder: Path):
    """The permissions of an ordinary folder with ordinary files: temporary ones, and safetensors', are private."""
    mask = os.umask(0)
    os.umask(mask)
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


__all__ = ["move_files", "refuse_used", "staged_folder", "write_atomically"]
