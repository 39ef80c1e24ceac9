"""The metadata at the head of a model card, as far as the server needs it: there is no YAML in the standard library."""

import re

FENCE = "---"


def read_metadata(card: str) -> dict[str, str]:
    """
    The top-level entries; of one with nested values, only that it is there.

    Raises:
        ValueError: What is at the head is no metadata.
    """
    lines = card.lstrip("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != FENCE:
        return {}
    try:
        end = next(index for index, line in enumerate(lines) if index and line.rstrip() == FENCE)
    except StopIteration:
        raise ValueError("the metadata has no end") from None
    entries = {}
    for line in lines[1:end]:
        if entry := re.fullmatch(r"([\w-]+):(?: +(.*))?", line.rstrip()):
            entries[entry[1]] = (entry[2] or "").strip("\"' ")
        elif not re.match(r"[ #-]|$", line):
            raise ValueError(f"this is no metadata: {line}")
    return entries
