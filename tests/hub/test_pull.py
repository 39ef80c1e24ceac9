"""`pull_model`: a whole folder that loads, or none."""

import json

import pytest
from transformers import AutoModel

from elmo_hf.errors import FolderError, HubError
from elmo_hf.publishing import hub as publishing
from elmo_hf.publishing import pull_model, push_model
from tests.full_disk import files_of_at_most
from tests.hub.faults import BreakDownload, CorruptDownload
from tests.hub.models import save_tiny
from tests.hub.store import Commit, Refusal

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]

NAME = "ada/model"


@pytest.fixture
def published(hub, online, tmp_path):
    """A tiny model on the Hub, and its folder here."""
    folder = save_tiny(tmp_path / "model")
    push_model(folder, NAME, token=hub.write_token)
    return folder


@pytest.fixture
def out(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work" / "out"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(publishing.time, "sleep", lambda _: None)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)


def assert_nothing_is_left(out):
    assert list(out.parent.iterdir()) == []


def test_what_was_pushed_is_pulled_and_loads(published, out):
    assert pull_model(NAME, out) == out
    assert (out / "model.safetensors").read_bytes() == (published / "model.safetensors").read_bytes()
    assert {path.name for path in published.iterdir()} | {"README.md", ".gitattributes"} == {
        path.name for path in out.iterdir()
    }
    AutoModel.from_pretrained(out)
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_a_branch_a_tag_and_a_commit(hub, api, published, out, tmp_path):
    first = api.model_info(NAME).sha
    api.create_tag(NAME, tag="v1")
    (published / "scalar_mixes.json").write_text("{}")
    push_model(published, NAME, token=hub.write_token, revision="next")
    for revision, has_mixes in (("v1", False), (first, False), ("next", True), (None, False)):
        folder = pull_model(NAME, tmp_path / f"{revision}", revision=revision)
        assert (folder / "scalar_mixes.json").exists() == has_mixes


def test_a_private_repository_needs_a_token(hub, api, published, out):
    api.update_repo_settings(NAME, private=True)
    with pytest.raises(HubError, match=r"There is no ada/model on the Hub, or it is private: log in"):
        pull_model(NAME, out)
    assert_nothing_is_left(out)
    pull_model(NAME, out, token=hub.read_token)


def test_what_is_not_there_is_told(published, out):
    with pytest.raises(HubError, match=r"There is no ada/other on the Hub"):
        pull_model("ada/other", out)
    with pytest.raises(HubError, match=r"ada/model has no revision v9: name a branch"):
        pull_model(NAME, out, revision="v9")
    with pytest.raises(HubError, match="is not the name of a repository"):
        pull_model("a/b/c", out)
    assert_nothing_is_left(out)


def test_a_folder_that_is_in_use_is_refused_before_the_hub_is_asked(hub, published, out):
    out.mkdir()
    (out / "mine").write_text("precious")
    hub.log.clear()
    with pytest.raises(FolderError, match="exists and is not an empty folder"):
        pull_model(NAME, out)
    assert not hub.log
    assert [path.name for path in out.iterdir()] == ["mine"]


@pytest.mark.parametrize("fault", [BreakDownload(after=500), BreakDownload(after=500, reset=True)])
def test_a_connection_that_drops_in_the_middle_is_made_good(hub, published, out, fault):
    hub.faults.inject(fault, "GET", "model.safetensors")
    hub.faults.inject(fault, "GET", "/lfs/")
    pull_model(NAME, out)
    assert (out / "model.safetensors").read_bytes() == (published / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_corrupted_file_is_refused_and_nothing_is_left(hub, published, out, name):
    hub.faults.inject(CorruptDownload(), "GET", name, times=9)
    hub.faults.inject(CorruptDownload(), "GET", "/lfs/" if name.endswith("tensors") else name, times=9)
    with pytest.raises(HubError, match=rf"{name} of ada/model arrived damaged: pull again"):
        pull_model(NAME, out)
    assert_nothing_is_left(out)


@pytest.mark.parametrize(
    ("status", "match"), [(403, "does not allow this"), (429, "too many requests"), (500, "try again later")]
)
def test_a_refusal_is_told_and_nothing_is_left(hub, published, out, status, match):
    hub.faults.inject(Refusal(status, "No"), "GET", "/api/models/", times=99)
    with pytest.raises(HubError, match=match):
        pull_model(NAME, out)
    assert_nothing_is_left(out)


@pytest.mark.parametrize("status", [429, 500])
def test_a_busy_hub_is_asked_again(hub, published, out, status):
    hub.faults.inject(Refusal(status, "Busy", headers={"Retry-After": "1"}), "GET", "/api/models/")
    hub.faults.inject(Refusal(status, "Busy"), "GET", "/resolve/")
    pull_model(NAME, out)


def test_a_full_disk_is_told_and_nothing_is_left(published, out):
    with files_of_at_most(2000), pytest.raises(HubError, match=r"The disk is full .*: make room"):
        pull_model(NAME, out)
    assert_nothing_is_left(out)


def test_a_hub_that_is_not_there_is_told_and_nothing_is_left(hub, published, out):
    hub.close()
    with pytest.raises(HubError, match="cannot be reached"):
        pull_model(NAME, out)
    assert_nothing_is_left(out)


@pytest.mark.parametrize("name", ["../outside.txt", "a/../../outside.txt", "/outside.txt"])
def test_a_file_outside_the_folder_is_refused(hub, api, published, out, name):
    repository = hub.repository(NAME)
    commit = repository.commit("main")
    files = dict(commit.files) | {name: commit.files["config.json"]}
    repository.add("refs/heads/main", Commit(files, "Evil", "", "ada", commit))
    with pytest.raises(HubError, match="Invalid filename"):
        pull_model(NAME, out)
    assert_nothing_is_left(out)


def test_the_command_pulls(run_command, published, out):
    code, output, _ = run_command("pull", NAME, "--out", out)
    assert code == 0
    assert output.startswith(f"{out}: ")
    assert json.loads((out / "config.json").read_text())["model_type"] == "elmo"
    code, _, error = run_command("pull", "ada/other", "--out", f"{out}2")
    assert code == 2
    assert error.count("\n") == 1
    assert "There is no ada/other on the Hub" in error
