"""Returns freed memory to the system, and prevents the garbage collector from scanning old objects."""

import ctypes
import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager


def release_freed_memory():
    """
    Makes the C library (glibc) return freed memory to the system. By default it retains freed blocks. Later tensors of
    other sizes do not always fit into them, so that memory grows from shard to shard.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)


@contextmanager
def freeze_existing_objects() -> Generator[None]:
    """
    Inside the `with` block, the garbage collector scans only new objects. Older objects in reference cycles are freed
    after the block at the earliest. A scan of all objects that large libraries create at import takes a fifth of a
    second, and would happen every few thousand sentences.
    """
    if gc.get_freeze_count():  # the caller has frozen objects, and does not expect them to be unfrozen
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


__all__ = ["freeze_existing_objects", "release_freed_memory"]
