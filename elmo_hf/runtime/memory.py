"""Memory that is not needed any more."""

import ctypes
import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager


def give_back_freed_memory():
    """
    Has the C library (glibc) give what this process has freed back to the system. It keeps it otherwise, in pieces that
    the next tensors, of other sizes, do not always fit into; from shard to shard that adds up.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)


@contextmanager
def garbage_of_before_stays() -> Generator[None]:
    """
    Within it Python looks for garbage among new objects alone; objects of before that refer to each other are freed
    behind it at the earliest. To look through all that large libraries have made when they were imported takes a fifth
    of a second, every few thousand sentences anew.
    """
    if gc.get_freeze_count():  # somebody else's, who would not expect it to end
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


__all__ = ["garbage_of_before_stays", "give_back_freed_memory"]
