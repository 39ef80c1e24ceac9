"""
Downloads a file over HTTP(S). A download that broke off continues; a complete file is checked, and only then gets its
name.

Until then the file is `NAME.part`; `NAME.json` keeps the address and the server's mark of this version (its ETag). A
later call goes on after the last byte if the server still has the same version, and starts again otherwise.
"""

import http.client
import json
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import is_offline_mode
from huggingface_hub.utils import WeakFileLock
from tqdm import tqdm

from elmo_hf._version import __version__

from .provenance import file_sha256

CHUNK = 2**20
TIMEOUT = 60  # seconds without a byte
PAUSES = (1, 2, 4, 8)  # seconds before each new attempt; an attempt that received bytes starts again at the first
PASSING = (408, 429, 500, 502, 503, 504)  # status codes of temporary failures
BROKEN = (ConnectionError, TimeoutError, http.client.HTTPException, urllib.error.URLError, ssl.SSLError)


class DownloadError(OSError):
    """A failed download. The message names the address, the cause and the remedy."""


class _BrokenOffError(Exception):
    """A connection that ended too early, or a temporary failure of the server."""


def download(
    url: str,
    target: str | os.PathLike,
    size: int | None = None,
    sha256: str | None = None,
    pauses: Sequence[float] = PAUSES,
) -> Path:
    """
    A file from an address, or the one that an earlier call has already fetched from there.

    Args:
        url: `http://…` or `https://…`
        target: The file to write; its folder is made.
        size: Bytes that it must have, where known.
        sha256: Checksum that it must have, where known.
        pauses: Seconds to wait before each new attempt after one that brought nothing.

    Returns:
        `target`
    """
    target = Path(target)
    if not url.startswith(("http://", "https://")):
        raise DownloadError(f"{url} is no address of a file: it should begin with https:// or http://.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(target.with_name(f"{target.name}.lock")):
            if target.is_file() and _read_mark(target).get("url") == url:
                _check(target, url, size, sha256)
                return target
            if is_offline_mode():
                raise DownloadError(
                    f"{url} is not on this machine yet, and HF_HUB_OFFLINE forbids fetching it: unset it."
                )
            target.unlink(missing_ok=True)  # of another address: from here on the mark is of the new one
            part = target.with_name(f"{target.name}.part")
            _fetch(url, target, part, size, pauses)
            _check(part, url, size, sha256)
            part.replace(target)
    except DownloadError:
        raise
    except OSError as error:
        raise DownloadError(f"{error.filename or target} cannot be written: {error.strerror or error}.") from error
    return target


def _fetch(url: str, target: Path, part: Path, size: int | None, pauses: Sequence[float]):
    """Tries until the part is complete. Gives up after `len(pauses) + 1` attempts in a row without new bytes."""
    failures = 0
    while True:
        before = _length(part)
        try:
            return _attempt(url, target, part, size)
        except (_BrokenOffError, *BROKEN) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise DownloadError(f"{url}: its certificate is not trusted ({reason.verify_message}).") from error
            failures = 0 if _length(part) > before else failures + 1
            if failures > len(pauses):
                message = f"{url} cannot be fetched: {str(reason) or type(reason).__name__}."
                remainder = f" {_length(part):,} bytes are kept for the next attempt." if _length(part) else ""
                raise DownloadError(message + remainder) from error
            time.sleep(pauses[max(failures - 1, 0)] if pauses else 0)


def _attempt(url: str, target: Path, part: Path, size: int | None):
    """One attempt: fetches the missing rest of the part, or the whole file."""
    done, mark = _length(part), _read_mark(target)
    headers = {"User-Agent": f"elmo-hf/{__version__}", "Accept-Encoding": "identity"}
    if done and mark.get("url") == url and mark.get("etag"):
        headers |= {"Range": f"bytes={done}-", "If-Range": mark["etag"]}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and error.headers.get("Content-Range", "").endswith(f"/{done}"):
                return  # the part was complete and only had to be moved
            if error.code == 416:
                part.unlink(missing_ok=True)
                raise _BrokenOffError("the server has another version now") from error
            if error.code in PASSING:
                raise _BrokenOffError(f"the server answers {error.code} ({error.reason})") from error
            raise DownloadError(_refusal(url, error)) from error
    except (http.client.InvalidURL, ValueError) as error:
        raise DownloadError(f"{url} is no address of a file: {error}.") from error
    with response:
        if response.status != 206:
            done = 0  # all of it: the server has another version now, or knows no ranges
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            part.unlink(missing_ok=True)
            raise _BrokenOffError("the server sent another part of the file than was asked for")
        total = done + int(response.headers["Content-Length"]) if "Content-Length" in response.headers else None
        if None not in (size, total) and total != size:
            raise DownloadError(f"{url} should have {size:,} bytes, the server has {total:,}.")
        _check_space(part, (total or 0) - done)
        if not done:
            etag = response.headers.get("ETag", "")
            part.write_bytes(b"")  # before the mark is written: it must never describe older bytes
            _write_mark(target, {"url": url, "etag": None if etag.startswith("W/") else etag or None})
        _save_body(response, part, done, size if total is None else total)
        if size is not None and _length(part) > size:
            part.unlink()
            raise DownloadError(f"{url} should have {size:,} bytes, the server sends more.")


def _save_body(response, part: Path, done: int, total: int | None):
    """Appends the response to the part. Stops at the first bytes beyond the expected size, if that is known."""
    name = part.name.removesuffix(".part")
    # No bar if the output is not a terminal.
    with (
        open(part, "ab" if done else "wb") as file,
        tqdm(total=total, initial=done, desc=name, unit="B", unit_scale=True, disable=None) as bar,
    ):
        while (total is None or done <= total) and (chunk := _read(response)):
            file.write(chunk)
            bar.update(len(chunk))
            done += len(chunk)
    if total is not None and done < total:
        raise _BrokenOffError(f"the connection ended after {done:,} of {total:,} bytes")


def _read(response) -> bytes:
    """The next bytes; empty at the end of the response, even if that is too early."""
    try:
        return response.read1(CHUNK)
    except OSError as error:  # of the network, not of the disk
        raise _BrokenOffError(str(error) or type(error).__name__) from error


def _refusal(url: str, error: urllib.error.HTTPError) -> str:
    """A one-line message for a permanent failure."""
    reasons = {
        401: "the server asks for a password",
        403: "the server does not give it to everyone",
        404: "there is no such file",
        410: "it has been removed",
    }
    reason = reasons.get(error.code, str(error.reason))
    return f"{url} cannot be fetched: {reason} ({error.code}). Give another address, or files that you already have."


def _check(path: Path, url: str, size: int | None, sha256: str | None):
    """Removes a complete file that is not the expected one, and raises an error."""
    actual = path.stat().st_size
    problem = None
    if size is not None and actual != size:
        problem = f"it should have {size:,} bytes, found {actual:,}"
    elif sha256 is not None and (digest := file_sha256(path)) != sha256:
        problem = f"its SHA-256 should be {sha256}, found {digest}"
    if problem:
        path.unlink()
        raise DownloadError(f"{url} is not the file that was expected: {problem}. It was removed; fetch it again.")


def _check_space(part: Path, missing: int):
    free = shutil.disk_usage(part.parent).free
    if missing > free:
        raise DownloadError(f"{part.parent} has {free:,} bytes left, the file needs {missing:,} more.")


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mark(target: Path) -> Path:
    return target.with_name(f"{target.name}.json")


def _read_mark(target: Path) -> dict[str, Any]:
    try:
        mark = json.loads(_mark(target).read_text("utf-8"))
    except (OSError, ValueError):  # none, or half-written: start anew
        return {}
    return mark if isinstance(mark, dict) else {}


def _write_mark(target: Path, mark: dict[str, Any]):
    _mark(target).write_text(json.dumps(mark) + "\n", "utf-8")


__all__ = ["DownloadError", "download"]
