"""The Hub of the tests refuses what the real one refuses, and its faults happen: else the tests on it show nothing."""

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import CommitInfo, CommitOperationAdd, HfApi, constants, get_session
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from tests.hub.faults import BreakDownload, BreakUpload, CorruptDownload
from tests.hub.store import Refusal

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # between the client and its library

NAME = "ada/model"
WEIGHTS = bytes(range(256)) * 300
SMALL, LARGE = "config.json", "model.safetensors"


def upload(api: HfApi, path: str, content: bytes, **options: Any) -> CommitInfo:
    return api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id=NAME, **options)


@pytest.fixture
def published(api):
    """A repository with a small and a large file."""
    api.create_repo(NAME)
    additions = [CommitOperationAdd(SMALL, b"{}"), CommitOperationAdd(LARGE, WEIGHTS)]
    return api.create_commit(NAME, additions, commit_message="Publish").oid


def test_large_files_go_to_the_storage_without_the_token_and_come_back_once(hub, api, published):
    (put,) = hub.requests("PUT")
    assert put.token is None
    assert Path(api.hf_hub_download(NAME, LARGE)).read_bytes() == WEIGHTS
    assert api.hf_hub_download(NAME, LARGE) == api.hf_hub_download(NAME, LARGE, revision=published)
    assert len(hub.requests("GET", LARGE)) == 1


def test_revisions_have_their_own_content(api, published):
    api.create_tag(NAME, tag="v1")
    upload(api, SMALL, b"[1]", create_pr=True)
    upload(api, SMALL, b"[2]")
    for revision, content in {"main": b"[2]", "v1": b"{}", published: b"{}", "refs/pr/1": b"[1]"}.items():
        assert Path(api.hf_hub_download(NAME, SMALL, revision=revision)).read_bytes() == content
    with pytest.raises(RevisionNotFoundError):
        api.hf_hub_download(NAME, SMALL, revision="absent")


def test_a_commit_upon_an_old_one_is_refused(api, published):
    upload(api, SMALL, b"[1]", parent_commit=published)
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as caught:
        upload(api, SMALL, b"[2]", parent_commit=published)
    assert caught.value.response.status_code == 412


def test_a_large_file_with_another_checksum_is_refused(api, published, tmp_path):
    path = tmp_path / "new.safetensors"
    path.write_bytes(WEIGHTS + b"new")
    addition = CommitOperationAdd(path.name, path)
    assert addition.upload_info.sha256  # from here on it is not looked at again
    path.write_bytes((WEIGHTS + b"new")[::-1])
    with pytest.raises(RuntimeError) as caught:
        api.create_commit(NAME, [addition], commit_message="Lie")
    assert "has another SHA-256" in str(caught.value.__cause__)
    assert api.model_info(NAME).sha == published


def test_a_commit_cannot_name_a_large_file_that_was_not_uploaded(hub, api, published):
    line = '{"key": "header", "value": {"summary": "Lie", "description": ""}}\n{"key": "lfsFile", "value": '
    line += '{"path": "absent.safetensors", "algo": "sha256", "oid": "' + "0" * 64 + '", "size": 1}}'
    headers = {"Authorization": f"Bearer {hub.write_token}"}
    answer = get_session().post(f"{hub.endpoint}/api/models/{NAME}/commit/main", content=line, headers=headers)
    assert answer.status_code == 400
    assert api.model_info(NAME).sha == published


def test_a_private_repository_is_there_for_its_owner_alone(hub, api, reader, stranger, published):
    api.update_repo_settings(NAME, private=True)
    assert reader.model_info(NAME).private
    other = HfApi(endpoint=hub.endpoint, token=hub.store.create_token("grace", "write"))
    for client, status in ((stranger, 401), (other, 404)):
        with pytest.raises(RepositoryNotFoundError) as caught:
            client.model_info(NAME)
        assert caught.value.response.status_code == status


def test_only_a_token_of_the_owner_with_the_right_to_write_writes(hub, reader, online, published):
    with pytest.raises(HfHubHTTPError, match="you must use a write token"):
        upload(reader, SMALL, b"[]")
    other = HfApi(endpoint=hub.endpoint, token=hub.store.create_token("grace", "write"))
    with pytest.raises(HfHubHTTPError, match="You don't have the rights to write to ada/model"):
        upload(other, SMALL, b"[]")
    with pytest.raises(HfHubHTTPError, match="Invalid"):
        upload(HfApi(endpoint=hub.endpoint, token="hf_wrong"), SMALL, b"[]")
    assert hub.repository(NAME).read(SMALL) == b"{}"


@pytest.mark.medium
def test_faults_reach_the_client(hub, api, published):
    hub.faults.inject(BreakUpload(after=1000), "PUT")
    upload(api, LARGE, WEIGHTS[::-1])
    assert [request.status for request in hub.requests("PUT")] == [200, None, 200]  # repeated by the client
    chunk = constants.DOWNLOAD_CHUNK_SIZE
    content = (bytes(range(256)) * (chunk // 128))[: chunk + 2000]
    upload(api, "long.safetensors", content)
    hub.faults.inject(BreakDownload(after=chunk + 1000), "GET", "long.safetensors")
    assert Path(api.hf_hub_download(NAME, "long.safetensors")).read_bytes() == content
    ranges = [(request.range, request.status) for request in hub.requests("GET", "long.safetensors")]
    assert ranges == [(None, 200), (f"bytes={chunk}-", 206)]
    hub.faults.inject(CorruptDownload(), "GET", LARGE)
    assert Path(api.hf_hub_download(NAME, LARGE)).read_bytes() != WEIGHTS[::-1]
    hub.faults.inject(Refusal(409, "Because."), "POST", "/commit/")
    with pytest.raises(HfHubHTTPError, match=r"Because\."):
        upload(api, SMALL, b"[]")
