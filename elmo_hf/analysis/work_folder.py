"""A folder for the intermediate results of an analysis, so that an analysis can continue after a stop."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..corpus.work import fingerprint
from ..errors import RunError
from ..modeling.checks_elmo import read_json_object
from ..runtime.locks import RunLock
from ..runtime.staging import write_atomically

if TYPE_CHECKING:
    from ..embedding import ElmoEmbedder

ANALYSIS = "analysis.json"


class WorkFolder:
    """
    Arrays and records by name, in a folder that belongs to one analysis of one model on one set of data.

    Args:
        folder: The folder; it is created if it does not exist. A folder with other content, or of another analysis, is
            refused. `None`: nothing is stored.
        identity: Everything that the results depend on, as plain JSON values by name.
    """

    def __init__(self, folder: str | os.PathLike | None, identity: dict[str, Any]):
        self.folder = None if folder is None else Path(folder)
        self._lock: RunLock | None = None
        if self.folder is not None:
            self._claim(self.folder, identity)

    def _claim(self, folder: Path, identity: dict[str, Any]):
        if (folder / ANALYSIS).exists():
            check_identity(folder, identity)
        elif folder.exists() and (
            not folder.is_dir() or any(not path.name.startswith(".") for path in folder.iterdir())
        ):
            # Hidden files may be left by a call that was stopped before it began.
            raise RunError(f"{folder} exists and holds no analysis: name a new folder for intermediate results.")
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(folder)
        self._lock.acquire()
        if (folder / ANALYSIS).exists():  # another process may have begun one meanwhile
            check_identity(folder, identity)
        write_atomically(folder / ANALYSIS, json.dumps(identity, indent=2, ensure_ascii=False) + "\n")

    def array(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Reads the array with a name, or computes it with `make` and stores it."""
        if self.folder is None:
            return make()
        path = self.folder / f"{name}.npy"
        with suppress(OSError, ValueError, EOFError):  # it does not exist, or is truncated
            return np.load(path, allow_pickle=False)
        array = make()
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with open(temporary, "wb") as file:
                np.save(file, array)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return array

    def record(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """As [`array`][WorkFolder.array], for plain JSON values."""
        if self.folder is None:
            return make()
        path = self.folder / f"{name}.json"
        with suppress(OSError, ValueError):
            return read_json_object(path)
        record = make()
        write_atomically(path, json.dumps(record) + "\n")
        return record

    def close(self):
        """Releases the lock on the folder."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> "WorkFolder":
        return self

    def __exit__(self, *error):
        self.close()


def check_identity(folder: Path, identity: dict[str, Any]):
    """Refuses a folder with the results of another analysis, another model or other data."""
    try:
        stored = read_json_object(folder / ANALYSIS)
    except (OSError, ValueError) as error:
        raise RunError(f"{folder / ANALYSIS} is damaged: remove the folder, or name another one.") from error
    different = [name for name, value in identity.items() if stored.get(name) != value]
    if different:
        raise RunError(
            f"{folder} holds results of another analysis (different: {', '.join(different)}): name another folder, or "
            "remove it."
        )


def digest(parts: Iterable[Any]) -> str:
    """A short fingerprint of values that their `repr` describes completely: words, numbers, tuples of them."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(repr(part).encode("utf-8", "surrogatepass"))
        hashed.update(b"\n")
    return hashed.hexdigest()[:16]


def model_digest(embedder: "ElmoEmbedder") -> str:
    """A short fingerprint of a model's config and weights, and of its tokenizer."""
    return digest(sorted(fingerprint(embedder).items()))


__all__ = ["ANALYSIS", "WorkFolder", "check_identity", "digest", "model_digest"]
