"""A model by its name: a folder, the shipped one, or one on the Hub, for which one request is made."""

import pytest
from huggingface_hub import HfApi, constants

from elmo_hf import ElmoEmbedder, ElmoLanguageModel, ElmoTokenizer, default_model
from elmo_hf.data.text_sources import load_named_dataset
from elmo_hf.errors import ModelError, TextError
from elmo_hf.runtime.named_models import find_named_model, locate_model
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


@pytest.mark.parametrize("name", ["./nosuch", "no/such/folder", "/no/such", "a b", "my--model", "model-"])
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


def test_an_export_to_onnx_is_refused_with_the_program_that_runs_it(folder):  # noqa: F811
    (folder / "model.onnx").touch()
    assert find_named_model(str(folder)) == str(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"is an export to ONNX, which cannot be loaded: run it with its example\.py"):
        find_named_model(str(folder))


@pytest.mark.parametrize("load", [ElmoEmbedder.from_pretrained, ElmoLanguageModel.from_pretrained])
def test_python_asks_the_hub_once_for_a_name_that_it_does_not_know(load, hub, online, monkeypatch):  # noqa: F811
    with pytest.raises(ModelError, match="There is no folder nosuch here, and no model nosuch on the Hub"):
        load("nosuch")
    assert len(hub.log) == 1
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
    with pytest.raises(ModelError, match=r"There is no folder nosuch here, and the Hub cannot be reached \("):
        load("nosuch")


def test_python_loads_an_earlier_download_and_stays_online(published, hub, monkeypatch):  # noqa: F811
    assert locate_model(published) == (published, {})
    expected = ElmoEmbedder.from_pretrained(published).embed(["the bank"])[0]
    requests = len(hub.log)
    assert locate_model(published, local_files_only=True) == (published, {})
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert locate_model(published) == (published, {"local_files_only": True})
    assert ElmoEmbedder.from_pretrained(published).embed(["the bank"])[0] == pytest.approx(expected)
    assert len(hub.log) == requests
    assert not constants.HF_HUB_OFFLINE


def test_a_token_is_taken_along(published, hub):  # noqa: F811
    HfApi(endpoint=hub.endpoint, token=hub.write_token).update_repo_settings(published, private=True)
    with pytest.raises(ModelError, match="that your token may see"):
        locate_model(published, token=False)
    assert locate_model(published, token=hub.write_token) == (published, {})


@pytest.mark.parametrize("name", ["nosuch", "nobody/nosuch", "nosuch:cola"])
def test_a_dataset_that_the_hub_does_not_know_is_asked_for_once(hub, online, name):  # noqa: F811
    dataset = name.partition(":")[0]
    with pytest.raises(TextError, match=f"No such file or folder: {name}, and no dataset {dataset} on the Hub that"):
        load_named_dataset(name, "train", streaming=True)
    assert len(hub.log) == 1


def test_without_the_hub_a_dataset_is_not_asked_for_again(online, monkeypatch, caplog, capfd):  # noqa: F811
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
    with pytest.raises(TextError, match=r"No such file or folder: nosuch, and the Hub cannot be reached for a dataset"):
        load_named_dataset("nosuch", "train", streaming=True)
    assert "Retrying" not in caplog.text + "".join(capfd.readouterr())
    assert not constants.HF_HUB_OFFLINE
