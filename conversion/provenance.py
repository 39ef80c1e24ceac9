"""What a converted folder says about its origin: `conversion.json`. File names, never paths: it travels to the Hub."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from elmo_hf._version import __version__
from elmo_hf.runtime.run_records import CONVERSION as PROVENANCE_FILE


def provenance(source: str, parameters: int, **files: str | os.PathLike | None) -> dict[str, Any]:
    """
    Where a model comes from.

    Args:
        source: The format that was converted.
        parameters: How many values the biLM has, in the original's count: no mixer, no row for padding.
        files: The files that were read, by their use; `None`: there was none.

    Returns:
        `format`, `files` (name and SHA-256 of each) and `parameters`.
    """
    described = {
        use: {"name": Path(path).name, "sha256": file_sha256(path)} for use, path in files.items() if path is not None
    }
    return {"format": source, "files": described, "parameters": parameters}


def file_sha256(path: str | os.PathLike) -> str:
    """The SHA-256 of a file's content, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_provenance(folder: Path, origin: dict[str, Any], dtype: str):
    """Writes `conversion.json`: the origin, the stored precision and this package's version."""
    text = json.dumps({**origin, "dtype": dtype, "elmo_hf": __version__}, indent=2, ensure_ascii=False)
    (folder / PROVENANCE_FILE).write_text(text + "\n", "utf-8")


def read_provenance(folder: str | os.PathLike) -> dict[str, Any]:
    """What a converted folder says about its origin."""
    return json.loads((Path(folder) / PROVENANCE_FILE).read_text("utf-8"))


__all__ = ["PROVENANCE_FILE", "file_sha256", "provenance", "read_provenance", "write_provenance"]
