"""A model by its name: a folder, the shipped one, or one on the Hub, for which one request is made."""

import pytest
from huggingface_hub import HfApi, constants

from elmo_hf import ElmoTokenizer, default_model
from elmo_hf.errors import ModelError
from elmo_hf.runtime.named_models import find_named_model
from tests.cli.conftest import folder  # noqa: F401 (a fixture)
from tests.hub.conftest import hub, online, session  # noqa: F401 (fixtures)
from tests.models import tiny_model


@pytest.fixture
def published(hub, online, folder):  # noqa: F811
    """`me/elmo` on a Hub, with the tests' token."""
    api = HfApi(endpoint=hub.endpoint, token=hub.write_token)
    name = f"{api.whoami()['name']}/elmo"
    api.create_repo(name)
    api.upload_folder(repo_id=name, folder_path=folder)
    return name


def test_no_name_is_the_shipped_model_which_has_a_name_too():
    assert find_named_model(None) == find_named_model("elmo-english-compact") == default_model()


def test_a_folder_is_itself_and_must_hold_a_model(folder, tmp_path):  # noqa: F811
    assert find_named_model(str(folder)) == str(folder)
    with pytest.raises(ModelError, match=r"holds no model: config\.json is missing"):
        find_named_model(str(tmp_path))
    with pytest.raises(ModelError, match=r"config\.json is a file: name the folder of a model"):
        find_named_model(str(folder / "config.json"))


@pytest.mark.parametrize("name", ["./nosuch", "no/such/folder", "/no/such", "a b"])
def test_what_can_be_no_name_on_the_hub_is_a_folder_that_is_not_there(name):
    with pytest.raises(ModelError, match=f"There is no folder {name}"):
        find_named_model(name)


@pytest.mark.parametrize("name", ["nosuch", "nobody/nosuch"])
def test_a_name_that_the_hub_does_not_know_is_asked_for_once(hub, online, name):  # noqa: F811
    with pytest.raises(ModelError, match=f"There is no folder {name} here, and no model {name} on the Hub"):
        find_named_model(name)
    assert len(hub.log) == 1


def test_a_name_on_the_hub_is_itself(published):
    assert find_named_model(published) == published


def test_without_the_hub_a_model_that_was_loaded_before_is_taken(published, hub, monkeypatch):  # noqa: F811
    ElmoTokenizer.from_pretrained(published)
    type(tiny_model()).from_pretrained(published)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
    assert find_named_model(published) == published
    assert constants.HF_HUB_OFFLINE
    type(tiny_model()).from_pretrained(published)
    with pytest.raises(ModelError, match=r"There is no folder me/other here, and the Hub cannot be reached \("):
        find_named_model("me/other")
