"""Manifests of checkpoints: the size and the SHA-256 of every file, to detect damage."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

MANIFEST = "checkpoint.json"


def write_manifest(checkpoint: Path, information: dict[str, Any]):
    """
    Writes the manifest of a checkpoint, whose other files are complete.

    Args:
        checkpoint: The folder of the checkpoint.
        information: Further values to store.
    """
    files = {
        str(path.relative_to(checkpoint)): {"size": path.stat().st_size, "sha256": _sha256(path)}
        for path in checkpoint.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }
    with open(checkpoint / MANIFEST, "w", encoding="utf-8") as file:
        json.dump(information | {"files": files}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def read_manifest(checkpoint: Path) -> dict[str, Any]:
    """The `information` of [`write_manifest`], and `files`."""
    return json.loads((checkpoint / MANIFEST).read_text("utf-8"))


def is_complete(checkpoint: Path) -> bool:
    """Whether all files of a checkpoint exist, in the sizes that its manifest states."""
    return _matches(checkpoint, lambda path, file: path.stat().st_size == file["size"])


def is_intact(checkpoint: Path) -> bool:
    """Whether all files of a checkpoint have the bytes that were written. Reads all of them."""
    return is_complete(checkpoint) and _matches(checkpoint, lambda path, file: _sha256(path) == file["sha256"])


def _matches(checkpoint: Path, check: Callable[[Path, dict[str, Any]], bool]) -> bool:
    try:
        files = read_manifest(checkpoint)["files"]
        return all(check(checkpoint / name, file) for name, file in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


__all__ = ["MANIFEST", "is_complete", "is_intact", "read_manifest", "write_manifest"]
