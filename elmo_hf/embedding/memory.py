"""Memory that is not needed any more."""

import ctypes
import sys


def give_back_freed_memory():
    """
    Has the C library (glibc) give what this process has freed back to the system. It keeps it otherwise, in pieces that
    the next tensors, of other sizes, do not always fit into; from shard to shard that adds up.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)


__all__ = ["give_back_freed_memory"]
