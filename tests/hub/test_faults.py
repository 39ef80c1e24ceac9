"""What the real client does when something goes wrong, and what is left of it."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import CommitInfo, CommitOperationAdd, HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

from tests.hub.client import client_environment
from tests.hub.faults import BreakDownload, BreakUpload, CorruptDownload, CorruptUpload, Pause
from tests.hub.store import Refusal

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # between the client and its library

NAME = "ada/model"
WEIGHTS = bytes(range(256)) * 1000
LARGE = "model.safetensors"


@pytest.fixture
def published(api):
    """A repository with a large file."""
    api.create_repo(NAME)
    return api.upload_file(path_or_fileobj=WEIGHTS, path_in_repo=LARGE, repo_id=NAME).oid


@pytest.fixture
def download(api, published):
    """Downloads the large file, and gives what is in it."""
    return lambda **options: Path(api.hf_hub_download(NAME, LARGE, **options)).read_bytes()


def upload(api: HfApi, content: bytes = WEIGHTS[::-1], path: str = LARGE) -> CommitInfo:
    return api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id=NAME)


def cached_bytes() -> list[Path]:
    """All files of the cache that have a file's content, whole or not."""
    return list(Path(constants.HF_HUB_CACHE).glob("*/blobs/*"))


# The connection


def test_a_broken_upload_is_repeated(hub, api, published):
    hub.faults.inject(BreakUpload(after=1000), "PUT")
    upload(api)
    assert hub.repository(NAME).read(LARGE) == WEIGHTS[::-1]
    assert [request.status for request in hub.requests("PUT")] == [200, None, 200]


def test_a_broken_download_goes_on_after_the_last_whole_chunk(hub, api, published):
    chunk = constants.DOWNLOAD_CHUNK_SIZE
    content = (bytes(range(256)) * (chunk // 128))[: chunk + 2000]
    upload(api, content, "long.safetensors")
    hub.faults.inject(BreakDownload(after=chunk + 1000), "GET", "long.safetensors")
    assert Path(api.hf_hub_download(NAME, "long.safetensors")).read_bytes() == content
    ranges = [(request.range, request.status) for request in hub.requests("GET", "long.safetensors")]
    assert ranges == [(None, 200), (f"bytes={chunk}-", 206)]


def test_a_download_that_is_reset_is_not_repeated(hub, download):
    hub.faults.inject(BreakDownload(after=1000, reset=True), "GET", LARGE)
    with pytest.raises(httpx2.ReadError):
        download()
    assert cached_bytes() == []
    assert download() == WEIGHTS


def test_a_question_for_a_file_that_breaks_is_not_repeated(hub, download):
    hub.faults.inject(BreakUpload(), "HEAD", LARGE)
    with pytest.raises(httpx2.RemoteProtocolError):
        download()
    assert download() == WEIGHTS


def test_a_commit_whose_answer_is_lost_is_made_once(hub, api, published):
    hub.faults.inject(BreakDownload(), "POST", "/commit/")
    with pytest.raises(httpx2.RemoteProtocolError):
        upload(api)
    commits = [commit.commit_id for commit in api.list_repo_commits(NAME)]
    assert len(commits) == 3
    assert upload(api).oid == commits[0]


def test_a_client_that_is_killed_leaves_nothing_to_be_taken_for_the_file(hub, download, tmp_path):
    hub.faults.inject(Pause(60, after=1000), "GET", LARGE)
    code = f"import huggingface_hub; huggingface_hub.hf_hub_download({NAME!r}, {LARGE!r})"
    with subprocess.Popen([sys.executable, "-c", code], env=client_environment(hub, tmp_path / "home")) as process:
        while process.poll() is None and not hub.requests("GET", LARGE):
            time.sleep(0.01)
        process.kill()
    assert [path.suffix for path in cached_bytes()] == [".incomplete"]
    assert download() == WEIGHTS


def test_a_client_that_is_killed_publishes_nothing(hub, api, published, tmp_path):
    hub.faults.inject(Pause(60), "PUT")
    code = f"import huggingface_hub as h; h.upload_file(path_or_fileobj=b'1', path_in_repo={LARGE!r}, repo_id={NAME!r})"
    environment = client_environment(hub, tmp_path / "home", hub.write_token)
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as process:
        while process.poll() is None and not hub.requests("POST", "/objects/batch")[1:]:
            time.sleep(0.01)
        process.kill()
    assert api.model_info(NAME).sha == published


# Answers that are not repeated


def test_what_is_refused_is_said(hub, api, published):
    for status in (400, 401, 403, 404, 409, 500):
        hub.faults.inject(Refusal(status, "Because."), "POST", "/commit/")
        hub.faults.inject(Refusal(status, "Because."), "POST", "/repos/create")
        for action in (partial(upload, api, b"{}", "config.json"), partial(api.create_repo, "ada/other")):
            with pytest.raises(HfHubHTTPError, match=r"Because\.") as caught:
                action()
            assert caught.value.response.status_code == status
    assert api.model_info(NAME).sha == published
    assert not api.repo_exists("ada/other")


def test_a_file_that_is_refused(hub, download):
    for status in (403, 500):
        hub.faults.inject(Refusal(status, "Because."), "GET", LARGE)
        with pytest.raises(HfHubHTTPError, match=r"Because\."):
            download()
    assert cached_bytes() == []


def test_a_question_that_is_refused(hub, download):
    hub.faults.inject(Refusal(401, "Because."), "HEAD", LARGE)
    with pytest.raises(HfHubHTTPError, match=r"Because\."):
        download()
    hub.faults.inject(Refusal(404, "Because.", "RepoNotFound"), "HEAD", LARGE)
    with pytest.raises(RepositoryNotFoundError, match=r"Because\."):
        download()
    hub.faults.inject(Refusal(403, "Because."), "HEAD", LARGE)
    with pytest.raises(LocalEntryNotFoundError, match="check your connection") as caught:
        download()
    assert "Because." in str(caught.value.__cause__)


def test_what_is_in_the_cache_is_given_whatever_the_hub_says(hub, api, download):
    download()
    upload(api)
    for status in (401, 403, 404, 500):
        hub.faults.inject(Refusal(status, "Because."), "HEAD", LARGE)
        assert download() == WEIGHTS
    assert download() == WEIGHTS[::-1]
    hub.close()
    assert download() == WEIGHTS[::-1]


def test_a_folder_that_is_there_is_given_whatever_the_hub_says(hub, api, published, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for status in (401, 403, 404, 500):
        hub.faults.inject(Refusal(status, "Because.", "RepoNotFound"), "GET", "/api/models/")
        assert api.snapshot_download(NAME, local_dir=tmp_path) == str(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


# Answers that are repeated


def test_too_many_requests_wait_as_long_as_they_are_told(hub, api, published):
    hub.faults.inject(Refusal(429, "Too many requests", headers={"Retry-After": "1"}), "POST", "/preupload/")
    upload(api)
    refused, answered = hub.requests("POST", "/preupload/")[-2:]
    assert (refused.status, answered.status) == (429, 200)
    assert answered.time - refused.time >= 1


def test_an_upload_after_an_error_of_the_server(hub, api, published):
    hub.faults.inject(Refusal(500, "Internal error"), "PUT")
    upload(api)
    assert hub.repository(NAME).read(LARGE) == WEIGHTS[::-1]


def test_a_download_after_an_error_of_the_server(hub, download):
    hub.faults.inject(Refusal(500, "Internal error"), "HEAD", LARGE)
    assert download() == WEIGHTS
    assert [request.status for request in hub.requests("HEAD", LARGE)] == [500, 302]


def test_an_answer_that_is_late(hub, download):
    hub.faults.inject(Pause(60), "HEAD", LARGE)
    assert download(etag_timeout=0.1) == WEIGHTS


def test_a_file_that_stops_coming(hub, download, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    hub.faults.inject(Pause(60, after=1000), "GET", LARGE)
    assert download() == WEIGHTS
    assert len(hub.requests("GET", LARGE)) == 2


# The content


def test_a_corrupted_upload_is_refused(hub, api, published):
    hub.faults.inject(CorruptUpload(), "PUT")
    with pytest.raises(RuntimeError, match=f"Error while uploading '{LARGE}'") as caught:
        upload(api)
    assert "has another SHA-256" in str(caught.value.__cause__)
    assert hub.repository(NAME).read(LARGE) == WEIGHTS
    upload(api)
    assert hub.repository(NAME).read(LARGE) == WEIGHTS[::-1]


def test_a_corrupted_download_is_found_only_by_who_looks(hub, api, download, published):
    hub.faults.inject(CorruptDownload(), "GET", LARGE)
    assert download() != WEIGHTS
    api.snapshot_download(NAME)
    (mismatch,) = api.verify_repo_checksums(NAME).mismatches
    assert mismatch["path"] == LARGE
    assert download() != WEIGHTS
    assert download(force_download=True) == WEIGHTS
    assert api.verify_repo_checksums(NAME).mismatches == []


def test_a_file_of_another_size_is_refused(hub, download):
    (sha256,) = hub.repository(NAME).objects
    hub.repository(NAME).objects[sha256] = WEIGHTS[:-1]
    with pytest.raises(OSError, match="Consistency check failed: file should be of size"):
        download()
    assert cached_bytes() == []


def test_all_of_a_commit_or_nothing(hub, api, published):
    hub.faults.inject(CorruptUpload(), "PUT")
    additions = [CommitOperationAdd("config.json", b"{}"), CommitOperationAdd(LARGE, WEIGHTS[::-1])]
    with pytest.raises(RuntimeError):
        api.create_commit(NAME, additions, commit_message="Half")
    assert api.model_info(NAME).sha == published
