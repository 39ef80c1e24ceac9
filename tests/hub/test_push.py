"""`push_model`: a complete repository in one commit, or none."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from huggingface_hub import ModelCard, constants
from huggingface_hub.errors import RevisionNotFoundError
from transformers import AutoModel

from elmo_hf import default_model
from elmo_hf.embedding import SENTENCE_FILES, write_sentence_files
from elmo_hf.errors import HubError, ModelError
from elmo_hf.modeling.configuration_elmo import AUTO_MAP
from elmo_hf.publishing import hub as publishing
from elmo_hf.publishing import pull_model, push_model, write_card
from elmo_hf.publishing.repository import CODE
from tests.hub.faults import BreakDownload, BreakUpload, CorruptUpload, OddAnswer
from tests.hub.models import save_tagger, save_tiny
from tests.hub.store import Refusal
from tests.models import edit_config

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]

NAME = "ada/model"
CODE_NAMES = {path.name for path in CODE} | {"configuration_elmo.py", "modeling_elmo.py", "tokenization_elmo.py"}
COMPLETE = {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} | CODE_NAMES


@pytest.fixture
def folder(tmp_path):
    return save_tiny(tmp_path / "model")


@pytest.fixture
def push(hub, online, folder):
    """Pushes the tiny model, as the one who may write."""

    def push(repo=NAME, model=folder, **options):
        return push_model(model, repo, **({"token": hub.write_token} | options))

    return push


@pytest.fixture
def no_pauses(monkeypatch):
    """The Hub is asked again at once; gives the pauses that would have been made."""
    pauses = []
    monkeypatch.setattr(publishing.time, "sleep", pauses.append)
    return pauses


def files_of(api, revision=None) -> set[str]:
    return set(api.list_repo_files(NAME, revision=revision)) - {".gitattributes"}


def change(folder):
    """There is something to commit."""
    (folder / "scalar_mixes.json").write_text("{}")


def read(api, name) -> str:
    with open(api.hf_hub_download(NAME, name), encoding="utf-8") as file:
        return file.read()


def test_a_complete_repository_comes_in_one_commit(api, push):
    address = push()
    assert files_of(api) == COMPLETE
    first, *_ = api.list_repo_commits(NAME)
    assert first.commit_id in address
    assert first.title == "Upload model"
    config = json.loads(read(api, "config.json"))
    assert config["auto_map"] == {"AutoConfig": "configuration_elmo.ElmoConfig"} | AUTO_MAP
    assert json.loads(read(api, "tokenizer_config.json"))["auto_map"]["AutoTokenizer"]
    assert f'"{NAME}", trust_remote_code=True' in read(api, "README.md")


def test_the_model_that_comes_with_the_package_is_published_with_its_own_card(api, push):
    push(model=default_model())
    assert files_of(api) == COMPLETE | {"curve.svg", *SENTENCE_FILES}
    assert read(api, "README.md") == (Path(default_model()) / "README.md").read_text("utf-8")


RUN = {
    "task": "tagging",
    "data": {"train": "/home/me/train.conll", "dev": "../me/dev.conll", "test": None, "options": {"field": "upos"}},
    "model": "/home/me/bilm",
    "settings": {},
    "vectors_file": None,
}


@pytest.fixture
def tagger(tmp_path):
    """A tagger's folder with what its training has left there."""
    folder = save_tagger(tmp_path / "tagger")
    (folder / "finetune.json").write_text(json.dumps(RUN))
    (folder / "results.json").write_text(json.dumps({"dev": {"f1": 0.9}, "examples": {"dev": 7}}))
    (folder / "optimizer.bin").write_bytes(b"pickle")
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "state.json").write_text("{}")
    return folder


def test_how_a_model_was_made_is_published_without_places_on_the_machine(api, push, tagger):
    push(model=tagger)
    assert files_of(api) == COMPLETE | {"mixes.svg", "results.json", "finetune.json"}
    assert "| dev | 7 | 0.9000 |" in read(api, "README.md")
    data = json.loads(read(api, "finetune.json"))["data"]
    assert data == {"train": "train.conll", "dev": "dev.conll", "test": None, "options": {"field": "upos"}}
    for name in files_of(api) - {"model.safetensors"}:
        assert "/me" not in read(api, name)


def test_what_was_pulled_and_is_pushed_again_stays_the_same(hub, api, push, tagger, tmp_path):
    push(model=tagger)
    card, commits = read(api, "README.md"), api.list_repo_commits(NAME)
    push(model=pull_model(NAME, tmp_path / "pulled"))
    assert read(api, "README.md") == card
    assert [commit.commit_id for commit in api.list_repo_commits(NAME)] == [commit.commit_id for commit in commits]


def test_another_model_leaves_nothing_of_the_one_before(api, push, tagger):
    push(model=tagger)
    push()
    assert files_of(api) == COMPLETE


def test_a_folder_of_sentence_transformers_is_published_as_one_if_nothing_of_it_lies_elsewhere(api, push, folder):
    write_sentence_files(folder)
    push()
    assert files_of(api) == COMPLETE | {*SENTENCE_FILES}
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(
        json.dumps([*modules, {"idx": 1, "name": "1", "path": "1_Dense", "type": "x"}])
    )
    push()
    assert files_of(api) == COMPLETE


def test_a_name_of_ones_own_is_published_with_its_owner(api, push, tagger):
    push(repo="model", model=tagger)
    assert f'"{NAME}", trust_remote_code=True' in read(api, "README.md")


def test_a_public_repository_does_not_pass_for_a_private_one(api, push, folder):
    push()
    change(folder)
    with pytest.raises(HubError, match="is there already, and public: make it private"):
        push(private=True)
    assert files_of(api) == COMPLETE


def test_a_pull_request_is_updated(hub, api, push, folder):
    push()
    change(folder)
    push(create_pr=True)
    (folder / "LICENSE").write_text("Mine.")
    push(revision="refs/pr/1")
    assert files_of(api, "refs/pr/1") == COMPLETE | {"scalar_mixes.json", "LICENSE"}


def test_a_card_made_by_hand_is_published_as_it_is_and_one_made_here_for_the_repository(api, push, folder):
    write_card(folder, said={"license": "mit"})
    push()
    card = ModelCard(read(api, "README.md"))
    assert card.data.license == "mit"
    assert f'"{NAME}", trust_remote_code=True' in card.content
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\nMine.\n")
    push()
    assert read(api, "README.md") == "---\nlicense: apache-2.0\n---\nMine.\n"


def test_the_folder_stays_as_it_was(push, folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    push()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_new_version_replaces_weights_and_code_and_leaves_the_rest(api, push):
    api.create_repo(NAME)
    for name in ("model-00001-of-00002.safetensors", "old_elmo.py", "notes.txt"):
        api.upload_file(path_or_fileobj=b"old", path_in_repo=name, repo_id=NAME)
    push()
    assert files_of(api) == COMPLETE | {"notes.txt"}


def test_pushed_again_nothing_is_uploaded_again(hub, api, push):
    push()
    hub.log.clear()
    push()
    assert not [request for request in hub.log if request.method == "PUT"]


def test_private_revision_message_and_pull_request(api, stranger, push, folder):
    push(private=True, message="The first")
    assert api.model_info(NAME).private
    assert not stranger.repo_exists(NAME)
    push(revision="try")
    assert "try" in [branch.name for branch in api.list_repo_refs(NAME).branches]
    assert files_of(api, "try") == COMPLETE
    with pytest.raises(RevisionNotFoundError):
        api.list_repo_files(NAME, revision="no")
    assert next(commit.title for commit in api.list_repo_commits(NAME)) == "The first"
    change(folder)
    assert "/discussions/1" in push(create_pr=True)
    assert files_of(api, "refs/pr/1") == COMPLETE | {"scalar_mixes.json"}
    assert files_of(api) == COMPLETE
    with pytest.raises(HubError, match="A pull request goes to the main branch"):
        push(create_pr=True, revision="try")


def test_another_user_can_propose_to_a_repository_that_is_not_theirs(hub, api, push, folder):
    push()
    change(folder)
    token = hub.store.create_token("grace", "write")
    with pytest.raises(HubError, match="does not allow"):
        push(token=token)
    assert "/discussions/1" in push(token=token, create_pr=True)


@pytest.mark.parametrize(
    ("missing", "match"),
    [
        ("config.json", r"holds no config\.json: save a model"),
        ("model.safetensors", r"holds no model\*\.safetensors: save a model .* a pickle is not published"),
        ("tokenizer.json", r"holds no tokenizer\.json: save its tokenizer"),
    ],
)
def test_an_incomplete_folder_is_refused_before_the_hub_hears_of_it(hub, push, folder, missing, match):
    (folder / missing).unlink()
    with pytest.raises(ModelError, match=match):
        push()
    assert not hub.log


def shard(folder):
    AutoModel.from_pretrained(folder).save_pretrained(folder, max_shard_size="2KB")
    (folder / "model.safetensors").unlink(missing_ok=True)


def drop_a_shard(folder):
    shard(folder)
    sorted(folder.glob("model-*.safetensors"))[1].unlink()


BROKEN = {
    "another kind of model": (lambda folder: edit_config(folder, model_type="bert"), "type elmo, found bert"),
    "other sizes": (lambda folder: edit_config(folder, cell_size=9), "other shapes than the config says"),
    "absurd sizes": (lambda folder: edit_config(folder, cell_size=-8), "`cell_size` must be greater than 0"),
    "another class": (
        lambda folder: edit_config(folder, architectures=["ElmoForPreTraining"]),
        "The weights lack .*, which a ElmoForPreTraining has",
    ),
    "an unknown class": (lambda folder: edit_config(folder, architectures=["Bert"]), "should be one of ElmoModel"),
    "a damaged tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("x"), "does not load: .*tokenizer"),
    "damaged weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 99),
        "does not load: .*damaged",
    ),
    "a missing shard": (drop_a_shard, "lacks model-00002-of-.*, which model.safetensors.index.json names"),
    "records of the wrong kind": (lambda folder: (folder / "run.json").write_text("{}"), "is malformed"),
    "a record that is no object": (lambda folder: (folder / "run.json").write_text("3"), "should hold a JSON object"),
    "a card that is not UTF-8": (lambda folder: (folder / "README.md").write_bytes(b"\xff"), "README.md is not UTF-8"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_does_not_load_is_refused_before_the_hub_hears_of_it(hub, push, folder, kind):
    damage, match = BROKEN[kind]
    damage(folder)
    with pytest.raises(ModelError, match=match):
        push()
    assert not hub.log


def test_a_model_in_several_files_is_published(api, push, folder):
    shard(folder)
    push()
    assert "model.safetensors.index.json" in files_of(api)
    assert len([name for name in files_of(api) if name.endswith(".safetensors")]) > 1


def test_who_is_not_allowed_is_told_so(hub, push):
    with pytest.raises(HubError, match="does not know you: log in"):
        push(token="hf_wrong")
    with pytest.raises(HubError, match="does not allow this"):
        push(token=hub.read_token)
    with pytest.raises(HubError, match="is not the name of a repository"):
        push(repo="a/b/c")


def test_without_a_token_and_offline_what_to_do_is_said(push, monkeypatch):
    with pytest.raises(HubError, match=r"log in with `hf auth login`|not logged in"):
        push(token=None)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        push()


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("request_path", ["/commit/", "/repos/create", "/branch/"])
def test_a_busy_hub_is_asked_again(hub, api, push, no_pauses, status, request_path):
    hub.faults.inject(Refusal(status, "Busy", headers={"Retry-After": "7"}), "POST", request_path)
    push(revision="next")
    assert no_pauses == [7]
    assert files_of(api, "next") == COMPLETE


def test_a_busy_hub_is_not_asked_for_ever(hub, push, no_pauses):
    hub.faults.inject(Refusal(503, "Busy"), "POST", "/commit/", times=9)
    with pytest.raises(HubError, match=r"The Hub refused ada/model \(.*\): try again later\."):
        push()
    assert no_pauses == [1, 2, 4]


@pytest.mark.parametrize(("status", "match"), [(409, "somebody else is writing"), (412, "has written there")])
def test_a_conflict_is_told_and_publishes_nothing(hub, api, push, no_pauses, status, match):
    hub.faults.inject(Refusal(status, "Conflict"), "POST", "/commit/")
    with pytest.raises(HubError, match=match):
        push()
    assert files_of(api) == set()


@pytest.mark.parametrize("body", [b"<html>", b"", b"{}", b"[]", b'"x"', b"null"])
@pytest.mark.parametrize("request_path", ["/commit/", "/repos/create", "/preupload/", "/tree/"])
def test_an_answer_that_cannot_be_understood_is_one_line(hub, push, no_pauses, body, request_path):
    push()
    hub.faults.inject(OddAnswer(body), "GET" if request_path == "/tree/" else "POST", request_path, times=9)
    with suppress(HubError):  # what is not needed of an answer is not missed
        push()


def test_a_conflict_without_an_address_is_one_line(hub, push, no_pauses):
    hub.faults.inject(Refusal(409, "You already created this model repo"), "POST", "/repos/create")
    with pytest.raises(HubError, match="answer about ada/model cannot be understood"):
        push()


def test_a_lost_answer_is_no_second_commit(hub, api, push, no_pauses):
    hub.faults.inject(BreakDownload(), "POST", "/commit/")
    push()
    assert len([commit for commit in api.list_repo_commits(NAME) if commit.title == "Upload model"]) == 1


def test_a_lost_proposal_is_not_made_twice(hub, api, push, no_pauses, folder):
    push()
    change(folder)
    hub.faults.inject(BreakDownload(), "POST", "/commit/")
    with pytest.raises(HubError, match="cannot be reached"):
        push(create_pr=True)
    proposals = [reference.ref for reference in api.list_repo_refs(NAME, include_pull_requests=True).pull_requests]
    assert proposals == ["refs/pr/1"]


def test_a_connection_that_drops_in_the_middle_of_the_weights_is_made_good(hub, api, push, monkeypatch):
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    hub.faults.inject(BreakUpload(after=1000), "PUT")
    push()
    assert files_of(api) == COMPLETE


def test_corrupted_weights_are_refused_and_nothing_is_published(hub, api, push):
    hub.faults.inject(CorruptUpload(), "PUT", times=9)
    with pytest.raises(HubError, match=r"Error while uploading 'model\.safetensors'"):
        push()
    assert files_of(api) == set()


@pytest.mark.parametrize(
    ("metadata", "match"),
    [("no metadata at all", "metadata cannot be read"), ("license: mine", "license: 'mine' is not on the Hub's list")],
)
def test_bad_metadata_is_refused_before_the_hub_hears_of_it(hub, push, folder, metadata, match):
    (folder / "README.md").write_text(f"---\n{metadata}\n---\nMine.\n")
    with pytest.raises(ModelError, match=match):
        push()
    assert not hub.log


def test_metadata_that_only_the_hub_refuses_is_told(hub, push, no_pauses):
    errors = {"errors": [{"message": "no such language"}], "warnings": []}
    hub.faults.inject(Refusal(400, "Invalid", **errors), "POST", "/validate-yaml")
    with pytest.raises(HubError, match=r"Invalid metadata in README\.md. - no such language"):
        push()


def test_the_command_publishes(hub, run_command, api, folder):
    code, output, _ = run_command("push", folder, NAME, "--private", token=hub.write_token)
    assert code == 0
    assert re.fullmatch(rf"{hub.endpoint}/{NAME}/commit/\w+\n", output)
    assert files_of(api) == COMPLETE
    code, _, error = run_command("push", folder, NAME)
    assert code == 2
    assert error.count("\n") == 1
    assert "hf auth login" in error


def test_variants_in_subfolders_stay(api, push):
    api.create_repo(NAME)
    variant = {"int8/model.safetensors", "int8/modeling_elmo.py", "int8/config.json"}
    for name in variant:
        api.upload_file(path_or_fileobj=b"other", path_in_repo=name, repo_id=NAME)
    push()
    assert files_of(api) == COMPLETE | variant


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_proposal_that_may_exist_is_not_made_again(hub, push, no_pauses, folder, status):
    push()
    change(folder)
    hub.faults.inject(Refusal(status, "Gateway"), "POST", "/commit/")
    with pytest.raises(HubError):
        push(create_pr=True)
    assert no_pauses == []
