"""Writes folders and files atomically: they are complete, or they do not exist."""

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
    A temporary folder that is renamed to `out` when the `with` block ends, and removed if the block fails.

    Args:
        out: The folder to create. It must not exist yet, or be empty.
    """
    refuse_used(Path(out))
    out = Path(out).resolve()
    # In the nearest existing folder: the rename stays on one disk, and a failure leaves no new parents behind.
    nearest = next(parent for parent in out.parents if parent.exists())
    stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=nearest))
    try:
        yield stage
        refuse_used(out)  # another process may have created it
        if out.exists():  # not replaced, since it may be a working directory or a mounted disk
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
    Moves all files of a temporary folder to another folder, the config last: it makes the folder a model's folder.

    Files of the same names are replaced.
    """
    _open_to_others(stage)
    for path in sorted(stage.iterdir(), key=lambda path: (path.name == "config.json", path.name)):
        shutil.move(path, folder / path.name)


def write_atomically(path: Path, text: str):
    """Writes a file atomically. If that fails, an existing file is unchanged."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def refuse_used(folder: Path, ignored: str | None = None):
    """Raises an error if a folder exists and is not empty. A file with the name `ignored` does not count."""
    if folder.exists() and (not folder.is_dir() or any(path.name != ignored for path in folder.iterdir())):
        raise FolderError(f"{folder} exists and is not an empty folder: name another one, or remove it.")


def _open_to_others(folder: Path):
    """Sets the usual permissions. Temporary folders, and files of safetensors, are private."""
    mask = os.umask(0)
    os.umask(mask)
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


__all__ = ["move_files", "refuse_used", "staged_folder", "write_atomically"]
