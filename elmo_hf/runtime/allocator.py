"""Makes the allocator reuse the memory of a training step for the next one."""

import ctypes
import sys

# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 2**31 - 1


def keep_freed_memory():
    """
    Tells the C library (glibc) to retain freed memory instead of returning it to the system. On a CPU, every training
    step allocates and frees the same large tensors, and the system clears new memory page by page, which can take as
    long as the matrix products.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None and mallopt(M_MMAP_THRESHOLD, LARGEST):  # old versions refuse this value
        mallopt(M_TRIM_THRESHOLD, LARGEST)


__all__ = ["keep_freed_memory"]
