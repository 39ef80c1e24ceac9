"""Uploads models to the Hub and downloads them, completely or not at all."""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TypeVar

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from .._version import __version__
from ..errors import FolderError, HubError, ModelError
from ..runtime.staging import staged_folder
from .repository import REPLACED, complete_repository

T = TypeVar("T")
# Seconds to wait before a request is repeated; the Hub may ask for other times.
PAUSES = (1, 2, 4)
LONGEST_PAUSE = 300
BUSY = {408, 429, 500, 502, 503, 504}
NOT_BEGUN = {429, 503}  # the Hub has refused before it did anything
REPLACED_IN_SPACES = ("*.whl", "models/*")  # removed from a Space if a later one lacks them
MEANINGS = {
    401: "it does not know you: log in with `hf auth login`, or set HF_TOKEN to a token that is valid",
    400: "something is wrong with what was asked for",
    403: "your token does not allow this: create one that does",
    409: "somebody else is writing there: try again",
    412: "somebody else has written there: try again",
    413: "a file is too large",
    429: "too many requests: try again later",
}


def push_model(
    folder: str | os.PathLike,
    repo: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    message: str | None = None,
    create_pr: bool = False,
    token: str | None = None,
) -> str:
    """
    Publishes a complete model in one commit. The repository is created if it does not exist.

    Args:
        folder: The model's folder.
        repo: `owner/name`, or a name only for a repository of your own.
        private: Whether a new repository is private.
        revision: A branch, which is created if it does not exist, or a pull request (`refs/pr/1`). Default: main.
        message: The commit message.
        create_pr: Whether to propose the commit as a pull request.
        token: The access token. Default: that of `hf auth login` or of `HF_TOKEN`.

    Returns:
        The address of the commit or of the pull request.
    """
    if create_pr and revision:
        raise HubError("A pull request goes to the main branch: leave out the revision.")
    api = _api(token)
    with _hub_errors(repo, revision), tempfile.TemporaryDirectory() as stage:
        if "/" not in repo:
            repo = f"{_patiently(api.whoami)['name']}/{repo}"
        # Errors in the model are raised here, before anything is created on the Hub.
        files = complete_repository(Path(folder), Path(stage), repo)
        if not (create_pr and api.repo_exists(repo)):  # a contributor may not be allowed to create it
            _patiently(lambda: api.create_repo(repo, private=private, exist_ok=True))
        if private and not api.model_info(repo).private:
            raise HubError(f"{repo} is there already, and public: make it private in its settings, or name another.")
        if revision and not revision.startswith("refs/"):
            _patiently(lambda: api.create_branch(repo, branch=revision, exist_ok=True))
        stale = [
            file
            for file in api.list_repo_files(repo, revision=revision or None)
            if "/" not in file and file not in files and any(fnmatch(file, pattern) for pattern in REPLACED)
        ]

        def commit() -> str:
            # New operations for each attempt, since an operation remembers whether it was uploaded.
            operations = [CommitOperationAdd(name, str(path)) for name, path in sorted(files.items())]
            done = api.create_commit(
                repo,
                operations=[*operations, *map(CommitOperationDelete, stale)],
                commit_message=message or f"Upload {Path(folder).resolve().name}",
                revision=revision or None,
                create_pr=create_pr,
            )
            return done.pr_url or done.commit_url

        # If the answer is lost, the commit may exist. Repeating a commit changes nothing, but a second pull request
        # would be opened.
        return _patiently(commit, also_when_broken=not create_pr)


def pull_model(repo: str, out: str | os.PathLike, *, revision: str | None = None, token: str | None = None) -> Path:
    """
    Downloads a repository to a folder and verifies the checksum of every file.

    Args:
        repo: `owner/name`.
        out: The folder to create; it must not exist yet, or be empty. It appears when it is complete.
        revision: A branch, tag or commit. Default: main.
        token: The access token. Default: that of `hf auth login` or of `HF_TOKEN`.

    Returns:
        The folder.
    """
    api = _api(token)
    with _hub_errors(repo, revision), staged_folder(out) as stage:
        # The commit first, so that all files are of one version, and none comes from the cache if the Hub is offline.
        commit = _patiently(lambda: api.model_info(repo, revision=revision or None)).sha
        _patiently(lambda: api.snapshot_download(repo, revision=commit, local_dir=stage))
        check = api.verify_repo_checksums(repo, revision=commit, local_dir=stage)
        if check.mismatches or check.missing_paths:
            names = sorted([*(mismatch["path"] for mismatch in check.mismatches), *check.missing_paths])
            raise HubError(f"{', '.join(names)} of {repo} arrived damaged: pull again.")
        shutil.rmtree(stage / ".cache")  # the client's records of its download
    return Path(out)


def push_space(folder: str | os.PathLike, repo: str, *, token: str | None = None) -> str:
    """
    Publishes a folder as a Gradio Space in one commit. The Space is created if it does not exist.

    Args:
        folder: All its files are published.
        repo: `owner/name`.
        token: The access token. Default: that of `hf auth login` or of `HF_TOKEN`.

    Returns:
        The address of the Space.
    """
    api, folder = _api(token), Path(folder)
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    with _hub_errors(repo):
        create = partial(api.create_repo, repo, repo_type="space", space_sdk="gradio", exist_ok=True)
        address = str(_patiently(create))
        if api.space_info(repo).private:
            raise HubError(f"{repo} is private, so that the Hub could not install its wheel: make the Space public.")
        stale = [
            file
            for file in api.list_repo_files(repo, repo_type="space")
            if file not in files and any(fnmatch(file, pattern) for pattern in REPLACED_IN_SPACES)
        ]

        def commit():
            operations = [CommitOperationAdd(name, str(path)) for name, path in files.items()]
            api.create_commit(
                repo,
                operations=[*operations, *map(CommitOperationDelete, stale)],
                commit_message=f"Upload the page of elmo-hf {__version__}",
                repo_type="space",
            )

        _patiently(commit)
        return address


def _api(token: str | None) -> HfApi:
    return HfApi(token=token, library_name="elmo-hf", library_version=__version__)


def _patiently(call: Callable[[], T], also_when_broken: bool = True) -> T:
    """Repeats a call if the Hub is busy or the connection breaks; the client does so only for some requests."""
    for pause in PAUSES:
        try:
            return call()
        except HfHubHTTPError as error:
            if _status(error) not in (BUSY if also_when_broken else NOT_BEGUN):
                raise
            pause = _wanted_pause(error, pause)
        except HTTPError:
            if not also_when_broken:
                raise
        time.sleep(pause)
    return call()


def _wanted_pause(error: HfHubHTTPError, pause: float) -> float:
    retry_after = error.response.headers.get("Retry-After", "")
    return min(float(retry_after), LONGEST_PAUSE) if retry_after.isdecimal() else pause


def _status(error: HfHubHTTPError) -> int | None:
    return None if error.response is None else error.response.status_code


@contextmanager
def _hub_errors(repo: str, revision: str | None = None) -> Generator[None]:
    """Turns errors of the client into one line with the problem and the remedy."""
    try:
        yield
    except (ModelError, FolderError):
        raise
    except HFValidationError as error:
        raise HubError(f"{repo!r} is not the name of a repository: {error}") from error
    except (OfflineModeIsEnabled, LocalTokenNotFoundError, HTTPError) as error:
        raise HubError(_meaning(error, repo, revision)) from error
    except ValueError as error:  # of the client: metadata that the Hub refuses, a file that would be outside its folder
        raise HubError(f"{repo}: {' '.join(str(error).split())}") from error
    except (LookupError, TypeError, AttributeError) as error:  # of the client: a field that an answer should have had
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise HubError(
            f"The Hub's answer about {repo} cannot be understood ({what}): is there a proxy in between? Look at the "
            "repository, and try again."
        ) from error
    except RuntimeError as error:  # of an upload; what went wrong is its cause
        if not isinstance(error.__cause__, HTTPError):
            raise
        raise HubError(f"{error}. {_meaning(error.__cause__, repo, revision)}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise HubError(f"The disk is full ({error.strerror}): make room and try again.") from error
        raise


def _meaning(error: Exception, repo: str, revision: str | None) -> str:
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set: the Hub is not asked. Unset it."
    if isinstance(error, LocalTokenNotFoundError):
        return "You are not logged in: run `hf auth login`, or set HF_TOKEN."
    if isinstance(error, GatedRepoError):
        return f"{repo} is gated: ask for access on its page, and log in with `hf auth login`."
    if isinstance(error, RevisionNotFoundError):
        return f"{repo} has no revision {revision}: name a branch, a tag or a commit of it."
    if isinstance(error, RepositoryNotFoundError):
        return f"There is no {repo} on the Hub, or it is private: log in with `hf auth login`, or set HF_TOKEN."
    if isinstance(error, HfHubHTTPError) and (status := _status(error)) is not None:
        server = error.server_message or f"status {status}"
        return f"The Hub refused {repo} ({server}): {MEANINGS.get(status, 'try again later')}."
    return f"The Hub cannot be reached ({' '.join(str(error).split()) or type(error).__name__}): try again later."


__all__ = ["pull_model", "push_model", "push_space"]
