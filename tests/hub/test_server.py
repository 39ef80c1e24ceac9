"""The real client, from the first repository to its end."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationCopy,
    CommitOperationDelete,
    HfApi,
    get_session,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors.numpy import save

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


# Repositories


def test_a_repository_comes_and_goes(hub, api):
    url = api.create_repo("model")
    assert (url, url.repo_id) == (f"{hub.endpoint}/{NAME}", NAME)
    assert api.repo_exists(NAME)
    assert api.list_repo_files(NAME) == [".gitattributes"]
    api.delete_repo(NAME)
    assert not api.repo_exists(NAME)
    with pytest.raises(RepositoryNotFoundError):
        api.delete_repo(NAME)
    api.delete_repo(NAME, missing_ok=True)


def test_a_repository_is_created_once(api):
    api.create_repo(NAME)
    with pytest.raises(HfHubHTTPError, match="You already created this model repo: ada/model") as caught:
        api.create_repo(NAME)
    assert caught.value.response.status_code == 409
    assert api.create_repo(NAME, exist_ok=True).repo_id == NAME


def test_who_am_i(api, reader):
    assert api.whoami()["name"] == "ada"
    assert [client.whoami()["auth"]["accessToken"]["role"] for client in (api, reader)] == ["write", "read"]


def test_info_and_lists(api, published):
    upload(api, "inner/most/tags.txt", b"tags")
    info = api.model_info(NAME, files_metadata=True)
    assert (info.id, info.author, info.private) == (NAME, "ada", False)
    sizes = {sibling.rfilename: (sibling.size, sibling.lfs and sibling.lfs.sha256) for sibling in info.siblings}
    assert sizes.pop(".gitattributes")[1] is None
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    assert sizes == {SMALL: (2, None), LARGE: (len(WEIGHTS), sha256), "inner/most/tags.txt": (4, None)}
    assert [entry.path for entry in api.list_repo_tree(NAME, "inner", recursive=True)] == [
        "inner/most",
        "inner/most/tags.txt",
    ]
    assert [entry.path for entry in api.list_repo_tree(NAME)] == [".gitattributes", SMALL, "inner", LARGE]
    (small, large) = api.get_paths_info(NAME, [SMALL, LARGE, "absent"])
    assert small.blob_id == "9e26dfeeb6e641a33dae4961196235bdb965b21b"  # git hash-object
    assert (large.lfs.sha256, large.lfs.size) == (sha256, len(WEIGHTS))
    with pytest.raises(RemoteEntryNotFoundError):
        list(api.list_repo_tree(NAME, "absent"))


def test_long_lists_come_in_pages(hub, api, published):
    hub.store.page_size = 2
    assert api.list_repo_files(NAME) == [".gitattributes", SMALL, LARGE]
    assert len(hub.requests("GET", "/tree/")) == 2


def test_history(api, published):
    commits = api.list_repo_commits(NAME)
    assert [commit.title for commit in commits] == ["Publish", "initial commit"]
    assert commits[0].commit_id == published == api.model_info(NAME).sha
    assert commits[0].authors == ["ada"]


# Uploads


def test_a_small_file_goes_into_git(hub, api):
    api.create_repo(NAME)
    upload(api, SMALL, b"{}")
    assert hub.repository(NAME).read(SMALL) == b"{}"
    assert hub.requests("PUT") == []


def test_a_large_file_goes_to_the_storage(hub, api, tmp_path):
    (tmp_path / LARGE).write_bytes(WEIGHTS)
    api.create_repo(NAME)
    api.upload_file(path_or_fileobj=tmp_path / LARGE, path_in_repo=LARGE, repo_id=NAME)
    assert hub.repository(NAME).read(LARGE) == WEIGHTS
    (put,) = hub.requests("PUT")
    assert put.token is None


def test_what_is_there_is_not_uploaded_again(hub, api, published):
    upload(api, "same.safetensors", WEIGHTS)
    assert hub.repository(NAME).read("same.safetensors") == WEIGHTS
    assert len(hub.requests("PUT")) == 1
    head = api.model_info(NAME).sha
    assert upload(api, LARGE, WEIGHTS).oid == head


def test_a_folder_goes_in_one_commit(hub, api, tmp_path):
    contents = {"README.md": b"---\nlicense: mit\n---\n", "sub/a.safetensors": WEIGHTS, "sub/b.txt": b"b"}
    for path, content in contents.items():
        (tmp_path / "folder" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / path).write_bytes(content)
    api.create_repo(NAME)
    upload(api, "old.txt", b"old")
    api.upload_folder(folder_path=tmp_path / "folder", repo_id=NAME, commit_message="All", delete_patterns="*.txt")
    repository = hub.repository(NAME)
    assert {path: repository.read(path) for path in repository.commit("main").files if path[0] != "."} == contents
    assert [commit.title for commit in api.list_repo_commits(NAME)][:1] == ["All"]


def test_a_commit_deletes_and_copies(hub, api, published):
    upload(api, "folder/empty.safetensors", b"")
    changes = [CommitOperationCopy(LARGE, "copy.safetensors"), CommitOperationDelete(LARGE)]
    api.create_commit(NAME, [*changes, CommitOperationDelete("folder/")], commit_message="Rename")
    assert api.list_repo_files(NAME) == [".gitattributes", SMALL, "copy.safetensors"]
    assert hub.repository(NAME).read("copy.safetensors") == WEIGHTS
    with pytest.raises(RemoteEntryNotFoundError, match="A file with this name doesn't exist"):
        api.delete_file(LARGE, NAME)


def test_a_commit_upon_an_old_one_is_refused(api, published):
    upload(api, SMALL, b"[1]", parent_commit=published)
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as caught:
        upload(api, SMALL, b"[2]", parent_commit=published)
    assert caught.value.response.status_code == 412


def test_a_card_is_checked_before_anything_is_uploaded(hub, api, published):
    with pytest.raises(ValueError, match=r"Invalid metadata in README\.md\.\n- the metadata has no end"):
        upload(api, "README.md", b"---\nlicense: mit\n")
    assert "README.md" not in hub.repository(NAME).commit("main").files
    with pytest.warns(UserWarning, match="empty or missing yaml metadata"):
        upload(api, "README.md", b"# Model")
    upload(api, "README.md", b"---\nlanguage:\n- en\npipeline_tag: token-classification\n---\n")
    assert api.model_info(NAME).pipeline_tag == "token-classification"


def test_a_large_file_that_is_not_what_it_was_is_refused(hub, api, published, tmp_path):
    path, content = tmp_path / "new.safetensors", WEIGHTS + b"new"
    for changed, message in ((content[::-1], "has another SHA-256"), (content[1:], "bytes, not")):
        path.write_bytes(content)
        addition = CommitOperationAdd(path.name, path)
        assert addition.upload_info.sha256  # from here on it is not looked at again
        path.write_bytes(changed)
        with pytest.raises(RuntimeError, match=r"Error while uploading 'new\.safetensors' to the Hub") as caught:
            api.create_commit(NAME, [addition], commit_message="Lie")
        assert isinstance(caught.value.__cause__, HfHubHTTPError)
        assert message in str(caught.value.__cause__)
    assert api.model_info(NAME).sha == published
    assert len(hub.repository(NAME).objects) == 1


def test_a_commit_cannot_name_a_large_file_that_was_not_uploaded(hub, api, published):
    line = '{"key": "header", "value": {"summary": "Lie", "description": ""}}\n{"key": "lfsFile", "value": '
    line += '{"path": "absent.safetensors", "algo": "sha256", "oid": "' + "0" * 64 + '", "size": 1}}'
    headers = {"Authorization": f"Bearer {hub.write_token}"}
    answer = get_session().post(f"{hub.endpoint}/api/models/{NAME}/commit/main", content=line, headers=headers)
    assert answer.status_code == 400
    assert api.model_info(NAME).sha == published


# Downloads


@pytest.mark.parametrize(("path", "content"), [(SMALL, b"{}"), (LARGE, WEIGHTS)])
def test_a_file_is_downloaded_once(hub, api, published, path, content):
    first = api.hf_hub_download(NAME, path)
    assert Path(first).read_bytes() == content
    (get,) = hub.requests("GET", path)
    assert (get.token is None) == (path == LARGE)  # the storage is another's
    assert api.hf_hub_download(NAME, path) == first
    assert hub.requests("GET", path) == [get]
    before = len(hub.log)
    assert api.hf_hub_download(NAME, path, revision=published) == first
    assert len(hub.log) == before


def test_a_whole_repository_is_downloaded(api, published, tmp_path):
    upload(api, "inner/tags.txt", b"tags")
    for target in (None, tmp_path / "target"):
        folder = Path(api.snapshot_download(NAME, ignore_patterns=".gitattributes", local_dir=target))
        paths = [path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts]
        contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        assert contents == {SMALL: b"{}", LARGE: WEIGHTS, "inner/tags.txt": b"tags"}
    assert api.verify_repo_checksums(NAME, revision=api.model_info(NAME).sha).mismatches == []


def test_a_subfolder(api, published):
    upload(api, "inner/tags.txt", b"tags")
    assert Path(api.hf_hub_download(NAME, "tags.txt", subfolder="inner")).read_bytes() == b"tags"


def test_revisions(hub, api, published):
    def read(revision: str) -> bytes:
        return Path(api.hf_hub_download(NAME, SMALL, revision=revision)).read_bytes()

    api.create_tag(NAME, tag="v1")
    api.create_branch(NAME, branch="next/one")
    upload(api, SMALL, b"[1]", revision="next/one")
    proposal = upload(api, SMALL, b"[2]", create_pr=True)
    assert (proposal.pr_num, proposal.pr_revision) == (1, "refs/pr/1")
    upload(api, SMALL, b"[3]")
    upload(api, SMALL, b"[4]", revision=proposal.pr_revision)
    contents = {"main": b"[3]", "v1": b"{}", published: b"{}", "next/one": b"[1]", "refs/pr/1": b"[4]"}
    assert {revision: read(revision) for revision in contents} == contents
    references = api.list_repo_refs(NAME, include_pull_requests=True)
    assert [reference.name for reference in references.branches] == ["main", "next/one"]
    assert [(tag.name, tag.target_commit) for tag in references.tags] == [("v1", published)]
    assert [reference.ref for reference in references.pull_requests] == ["refs/pr/1"]
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_tag(NAME, tag="v1")
    api.create_branch(NAME, branch="next/one", exist_ok=True)
    api.delete_branch(NAME, branch="next/one")
    api.delete_tag(NAME, tag="v1")
    for gone in ("next/one", "v1"):
        with pytest.raises(RevisionNotFoundError):
            api.model_info(NAME, revision=gone)


def test_what_is_not_there(api, published):
    with pytest.raises(RemoteEntryNotFoundError):
        api.hf_hub_download(NAME, "absent.json")
    with pytest.raises(RevisionNotFoundError):
        api.hf_hub_download(NAME, SMALL, revision="absent")
    with pytest.raises(RevisionNotFoundError):
        upload(api, SMALL, b"", revision="absent")
    with pytest.raises(RepositoryNotFoundError):
        api.hf_hub_download("ada/absent", SMALL)


@pytest.mark.parametrize("path", [SMALL, LARGE])
def test_parts_of_a_file(hub, api, published, path):
    content = hub.repository(NAME).read(path)
    parts = {"bytes=0-0": content[:1], "bytes=1-": content[1:], "bytes=-1": content[-1:], "bytes=0-99999999": content}
    for part, expected in parts.items():
        answer = get_session().get(f"{hub.endpoint}/{NAME}/resolve/main/{path}", headers={"Range": part})
        assert (answer.status_code, answer.content) == (206, expected)
        assert answer.headers["Content-Range"].endswith(f"/{len(content)}")
    beyond = {"Range": f"bytes={len(content)}-"}
    answer = get_session().get(f"{hub.endpoint}/{NAME}/resolve/main/{path}", headers=beyond)
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, f"bytes */{len(content)}")


def test_the_head_of_the_weights_without_the_weights(hub, api, published):
    weights = save({"vectors": np.zeros((3, 100_000), np.float32)})
    upload(api, LARGE, weights)
    tensors = api.get_safetensors_metadata(NAME).files_metadata[LARGE].tensors
    assert tensors["vectors"].shape == [3, 100_000]
    assert all(request.range == "bytes=0-100000" for request in hub.requests("GET", LARGE))


# Rights


def test_a_private_repository(hub, api, reader, stranger, published, tmp_path):
    api.update_repo_settings(NAME, private=True)
    assert reader.model_info(NAME).private
    assert Path(reader.hf_hub_download(NAME, LARGE)).read_bytes() == WEIGHTS
    other = HfApi(endpoint=hub.endpoint, token=hub.store.create_token("grace", "write"))
    for client, status in ((stranger, 401), (other, 404)):
        with pytest.raises(RepositoryNotFoundError) as caught:
            client.hf_hub_download(NAME, LARGE, cache_dir=tmp_path / "empty")  # what is in a cache is still given
        assert caught.value.response.status_code == status
    api.update_repo_settings(NAME, private=False)
    assert not stranger.model_info(NAME).private
    api.create_repo("ada/secret", private=True)
    assert not stranger.repo_exists("ada/secret")


def test_a_gated_repository(api, stranger, published):
    api.update_repo_settings(NAME, gated="manual")
    assert stranger.model_info(NAME).gated == "manual"
    with pytest.raises(GatedRepoError):
        stranger.hf_hub_download(NAME, LARGE)
    api.auth_check(NAME, write=True)
    with pytest.raises(GatedRepoError):
        stranger.auth_check(NAME)


def test_a_wrong_token(hub, online, published):
    client = HfApi(endpoint=hub.endpoint, token="hf_wrong")
    for action in (client.whoami, lambda: client.model_info(NAME), lambda: client.hf_hub_download(NAME, SMALL)):
        with pytest.raises(HfHubHTTPError, match="Invalid") as caught:
            action()
        assert caught.value.response.status_code == 401


def test_a_token_without_the_right_to_write(hub, reader, stranger, published):
    with pytest.raises(HfHubHTTPError, match="you must use a write token") as caught:
        upload(reader, SMALL, b"[]")
    assert caught.value.response.status_code == 403
    with pytest.raises(HfHubHTTPError, match="403 Forbidden"):
        reader.create_repo("ada/other")
    assert reader.create_repo(NAME, exist_ok=True).repo_id == NAME
    with pytest.raises(RepositoryNotFoundError, match="401 Client Error"):
        upload(stranger, SMALL, b"[]")
    with pytest.raises(HfHubHTTPError, match="401 Unauthorized"):
        stranger.create_repo("ada/other")
    assert hub.repository(NAME).read(SMALL) == b"{}"


def test_another_user_can_only_propose(hub, online, published):
    other = HfApi(endpoint=hub.endpoint, token=hub.store.create_token("grace", "write"))
    with pytest.raises(HfHubHTTPError, match="You don't have the rights to write to ada/model"):
        upload(other, LARGE, WEIGHTS + b"!")
    with pytest.raises(HfHubHTTPError, match='under the namespace "ada"'):
        other.create_repo("ada/other")
    upload(other, LARGE, WEIGHTS + b"!", create_pr=True)
    assert hub.repository(NAME).read(LARGE) == WEIGHTS
    assert hub.repository(NAME).read(LARGE, "refs/pr/1") == WEIGHTS + b"!"


# Processes of their own

DOWNLOAD = """
import sys
from huggingface_hub import hf_hub_download
print(hf_hub_download(*sys.argv[1:]))
"""


def test_offline_afterwards(hub, run_python, published):
    path = run_python(DOWNLOAD, NAME, LARGE).stdout.strip()
    assert Path(path).read_bytes() == WEIGHTS
    before = len(hub.log)
    assert run_python(DOWNLOAD, NAME, LARGE, environment={"HF_HUB_OFFLINE": "1"}).stdout.strip() == path
    absent = run_python(DOWNLOAD, NAME, SMALL, environment={"HF_HUB_OFFLINE": "1"}, check=False)
    assert absent.returncode == 1
    assert LocalEntryNotFoundError.__name__ in absent.stderr
    assert len(hub.log) == before


def test_the_token_of_the_environment(hub, api, run_python, published):
    api.update_repo_settings(NAME, private=True)
    assert "RepositoryNotFoundError: 401 Client Error" in run_python(DOWNLOAD, NAME, SMALL, check=False).stderr
    assert Path(run_python(DOWNLOAD, NAME, SMALL, token=hub.read_token).stdout.strip()).read_bytes() == b"{}"
