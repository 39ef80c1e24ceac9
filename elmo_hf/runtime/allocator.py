"""Memory that a training step has freed and the next one takes again."""

import ctypes
import sys

# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 2**31 - 1


def keep_freed_memory():
    """
    Tells the C library (glibc) to keep what this process frees instead of giving it back to the system. A training step
    on a CPU takes and frees the same large tensors each time; memory that comes anew from the system has to be cleared
    page by page first, which can take as long as the products.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None and mallopt(M_MMAP_THRESHOLD, LARGEST):  # old versions take no such number
        mallopt(M_TRIM_THRESHOLD, LARGEST)


__all__ = ["keep_freed_memory"]
