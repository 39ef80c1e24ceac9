"""Writes HDF5 to a disk that may be full."""

import io
from typing import Any


class PatientFile(io.FileIO):
    """
    A file that accepts all writes even if the disk is full, and reports the error later. Call `check()` from time to
    time and after `h5py.File(patient_file, "w")` is closed. h5py ignores errors of single writes, and an error when the
    file is closed would end the process.
    """

    _error: OSError | None = None

    def check(self):
        """Raises the first error of a write."""
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        left = view = memoryview(data).cast("B")
        while left and self._error is None:
            try:
                left = left[super().write(left) :]
            except OSError as error:
                self._error = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self._error = error
            return size or 0


__all__ = ["PatientFile"]
