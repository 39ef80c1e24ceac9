"""The memory that a foreign file may ask for is limited in proportion to its size, before it is allocated."""

from elmo_hf.errors import ConversionError

# Weights hardly shrink when they are compressed: a file that expands by more than this holds something else.
LARGEST_EXPANSION = 20
ALWAYS_FINE = 64 * 2**20  # bytes


def memory_limit(file_size: int) -> int:
    """The maximum memory, in bytes, for the content of a file of this size."""
    return max(ALWAYS_FINE, LARGEST_EXPANSION * file_size)


def check_memory(needed: int, file_size: int, source):
    """
    Refuses a file whose content is far larger than itself.

    Args:
        needed: Bytes of memory that its content asks for.
        file_size: Bytes of the file.
        source: The file, for the message.
    """
    if needed > memory_limit(file_size):
        raise ConversionError(
            f"{source} has {file_size:,} bytes and asks for {needed:,} bytes of memory: more than "
            f"{LARGEST_EXPANSION} times the file's size is refused."
        )


__all__ = ["check_memory", "memory_limit"]
