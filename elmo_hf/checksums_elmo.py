# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Whether files of the Hub's cache have arrived as they were published.

The cache keeps a large file under the SHA-256 that the Hub has for it, `blobs/SHA256`, to which the names of the
repository's files are links. Nothing compares the two: one wrong byte of weights would give wrong vectors silently.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress

SHA256 = re.compile(r"[0-9a-f]{64}")
NOTES = ".elmo-hf"  # a folder beside `blobs`, with a note for each file that was found to be right


def check_downloads(files: Iterable[str | os.PathLike]):
    """
    Refuses, and removes from the cache, files that differ from what was published. A file is compared once, and again
    if it has changed since. What does not lie in a cache of the Hub, or was not stored as a large file, is passed over.

    Args:
        files: Their paths, as `from_pretrained` finds them.
    """
    for file in files:
        if (blob := _blob_of(file)) is not None and not _is_noted(blob):
            _check(blob, os.fspath(file))
            _write_note(blob)


def _blob_of(file: str | os.PathLike) -> str | None:
    """What a name in the cache is a link to, if that is named after its SHA-256."""
    if not os.path.islink(file):
        return None
    # One link, not all of them: what is named after the SHA-256 may itself be a link to a file of several repositories.
    target = os.path.normpath(os.path.join(os.path.dirname(file), os.readlink(file)))
    folder, name = os.path.split(target)
    return target if os.path.basename(folder) == "blobs" and SHA256.fullmatch(name) else None


def _check(blob: str, file: str):
    with open(blob, "rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() == os.path.basename(blob):
            return
    content = os.path.realpath(blob)
    try:
        os.remove(content)
        remedy = "It was removed from the cache: load the model again."
    except OSError:
        remedy = f"Remove {content} and load the model again."
    raise OSError(
        f"{os.path.basename(file)} is damaged, its SHA-256 is not the one that it was published with. {remedy}"
    )


# ---- notes


def _note(blob: str) -> str:
    folder, name = os.path.split(blob)
    return os.path.join(os.path.dirname(folder), NOTES, name)


def _state(blob: str) -> str:
    """Differs if the file has changed."""
    found = os.stat(blob)
    return f"{found.st_size} {found.st_mtime_ns}\n"


def _is_noted(blob: str) -> bool:
    try:
        with open(_note(blob), encoding="ascii") as file:
            return file.read() == _state(blob)
    except (OSError, ValueError):
        return False


def _write_note(blob: str):
    """Writes that a file is right, where the cache can be written."""
    note = _note(blob)
    with suppress(OSError):
        os.makedirs(os.path.dirname(note), exist_ok=True)
        with open(note, "w", encoding="ascii") as file:
            file.write(_state(blob))


__all__ = ["check_downloads"]
