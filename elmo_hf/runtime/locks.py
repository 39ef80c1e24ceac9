"""One process per run: a lock on the run's folder, which the system releases when the process ends, however it ends."""

import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import RunError

LOCK = ".lock"
# The locks of this process, by the path of their file: a run that is resumed where it was begun stays locked.
_held: dict[Path, FileLock] = {}


class RunLock:
    """
    Locks the folder of a run against other processes. As a context manager, it releases the lock if the `with` block
    fails. Otherwise the lock is held until [`release`] or the end of the process.

    Args:
        folder: The folder; it must exist. The lock is the file `.lock` in it, which holds the process id.
    """

    def __init__(self, folder: Path):
        self.folder, self._path = folder, folder.resolve() / LOCK

    def acquire(self):
        """Acquires the lock. Raises an error that names the process which holds it."""
        if self._path in _held:
            return
        lock = FileLock(self._path)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise RunError(
                f"{self.folder} is in use by {self._owner()}: wait for it to end, or stop it first."
            ) from None
        _held[self._path] = lock
        with suppress(OSError):  # only the message of another process depends on it
            self._path.write_text(str(os.getpid()), encoding="utf-8")

    def release(self):
        """Releases the lock, if it is held."""
        if (lock := _held.pop(self._path, None)) is not None:
            self._path.unlink(missing_ok=True)
            lock.release()

    def _owner(self) -> str:
        try:
            return f"process {int(self._path.read_text('utf-8'))}"
        except (OSError, ValueError):
            return "another process"

    def __enter__(self) -> "RunLock":
        self.acquire()
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.release()


__all__ = ["LOCK", "RunLock"]
