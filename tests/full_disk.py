"""A disk that is full, as far as the libraries can tell."""

import resource
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """Within, a larger file cannot be written: to the libraries, and to what they make of it, a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
