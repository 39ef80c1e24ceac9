"""Repositories whose maker means harm, through the real client: refused with a reason, and nothing of theirs runs."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer
from transformers.utils import hub as transformers_hub

from elmo_hf import ElmoModel, ElmoTokenizer
from tests.models import edit_config
from tests.untrusted import evil_pickle, header_of, save_tiny_folder, with_header

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # between the client and its library

NAME = "ada/model"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder that is left as it is."""
    return save_tiny_folder(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def folder(saved, tmp_path):
    """A folder to be made bad."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.fixture
def publish(api, folder, monkeypatch):
    """Makes a repository of the folder."""
    monkeypatch.setattr(
        transformers_hub, "_hf_api", None, raising=False
    )  # which keeps the address of the last test's Hub

    def upload():
        api.create_repo(NAME)
        api.upload_folder(folder_path=folder, repo_id=NAME)

    return upload


def cached_names() -> set[str]:
    """The names of all files in the cache."""
    return {path.name for path in Path(constants.HF_HUB_CACHE).glob("*/snapshots/*/*")}


@pytest.mark.parametrize("sizes", [{}, {"max_shard_size": "4KB"}])
def test_a_repository_that_is_fine_loads(hub, publish, folder, sizes):
    expected = ElmoModel.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    expected.save_pretrained(folder, **sizes)
    publish()
    for load in (AutoModel.from_pretrained, ElmoModel.from_pretrained):
        torch.testing.assert_close(load(NAME).state_dict(), expected.state_dict(), rtol=0, atol=0)
    assert AutoTokenizer.from_pretrained(NAME).get_vocab() == ElmoTokenizer.from_pretrained(folder).get_vocab()


def test_a_header_that_lies_is_refused(publish, folder):
    header, data = header_of((folder / WEIGHTS).read_bytes())
    header["layers.0.bias"]["shape"] = [10**6, 10**6]
    (folder / WEIGHTS).write_bytes(with_header(header, data))
    publish()
    with pytest.raises(OSError, match=r"damaged.*download or save it again"):
        AutoModel.from_pretrained(NAME)


def test_a_config_that_asks_for_terabytes_is_refused(publish, folder):
    edit_config(folder, cell_size=10**6, projection_size=10**6)
    publish()
    with pytest.raises(ValueError, match=r"layers\.0\..* by the config"):
        AutoModel.from_pretrained(NAME)
    with pytest.raises(ValueError, match=r"asks for weights of [\d,]+ GiB that the file does not hold"):
        AutoModelForTokenClassification.from_pretrained(NAME, ignore_mismatched_sizes=True)


def test_a_malformed_tokenizer_is_refused(publish, folder):
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:-100])
    publish()
    for load in (AutoTokenizer.from_pretrained, ElmoTokenizer.from_pretrained):
        with pytest.raises(OSError, match=r"tokenizer\.json is not a valid JSON file.*download or save it again"):
            load(NAME)


@pytest.mark.parametrize("name", ["../../../../secret.safetensors", "/tmp/secret.safetensors"])
def test_weights_outside_of_the_repository_are_refused(publish, folder, name):
    (folder / WEIGHTS).unlink()
    index = {"metadata": {}, "weight_map": {"mixer.gamma": name}}
    (folder / INDEX).write_text(json.dumps(index))
    publish()
    for load in (AutoModel.from_pretrained, ElmoModel.from_pretrained):
        with pytest.raises(ValueError, match=r"places mixer\.gamma in .*secret.* files of the same folder"):
            load(NAME)


def test_a_tokenizers_file_outside_of_the_repository_is_refused(publish, folder, tmp_path):
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nsecret\n")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab_file": str(tmp_path / "vocab.txt")}))
    publish()
    with pytest.raises(ValueError, match=r"`vocab_file` names .*vocab\.txt', which is outside of its folder"):
        AutoTokenizer.from_pretrained(NAME)


def test_a_pickle_is_not_even_downloaded(publish, folder, tmp_path):
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(evil_pickle(tmp_path / "marker"))
    publish()
    for load in (AutoModel.from_pretrained, ElmoModel.from_pretrained):
        with pytest.raises(OSError, match=r"ada/model holds no model\.safetensors, but a pickle.*elmo-hf convert"):
            load(NAME)
    assert "config.json" in cached_names()
    assert "pytorch_model.bin" not in cached_names()
    assert not (tmp_path / "marker").exists()


def test_an_index_of_pickles_is_refused_before_they_are_downloaded(publish, folder, tmp_path):
    (folder / WEIGHTS).unlink()
    edit_config(folder, dtype=None)
    (folder / "a.bin").write_bytes(evil_pickle(tmp_path / "marker"))
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"mixer.gamma": "a.bin"}}))
    publish()
    with pytest.raises(ValueError, match=r"places mixer\.gamma in 'a\.bin'"):
        AutoModel.from_pretrained(NAME)
    assert "a.bin" not in cached_names()
    assert not (tmp_path / "marker").exists()


# Code

# Three processes that pay once for the imports: a fork for each stage.
LOADING = """
import json, os, sys
os.close(0)
os.open(os.devnull, os.O_RDONLY)  # nobody is there to say yes
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification, AutoTokenizer, PreTrainedModel

def load(stage):
    if stage == "registered":
        import elmo_hf
    options = {"trust_remote_code": True} if stage == "trusted" else {}
    for auto in (AutoConfig, AutoModel, AutoModelForTokenClassification, AutoTokenizer):
        try:
            yield auto.from_pretrained("ada/model", **options).__class__.__module__
        except (OSError, ValueError) as error:
            yield "refused" if "trust_remote_code" in str(error) else str(error)

for stage in ("bare", "registered", "trusted"):
    if not os.fork():
        answers = list(load(stage))
        print("\\nfound:" + json.dumps([answers, os.listdir(sys.argv[1])]), flush=True)  # behind a question
        os._exit(0)
    os.wait()
"""


@pytest.fixture
def evil_code(publish, folder, tmp_path) -> Path:
    """A repository each file of whose code leaves a file here when it runs."""
    (marks := tmp_path / "marks").mkdir()
    for path in folder.glob("*.py"):
        path.write_text(f"open({str(marks / path.stem)!r}, 'w')\n{path.read_text()}")
    for name in ("setup.py", "conftest.py", "__init__.py", "sitecustomize.py", "handler.py"):
        (folder / name).write_text(f"open({str(marks / name)!r}, 'w')\n")
    publish()
    return marks


def test_code_of_a_repository_runs_only_where_it_is_trusted(evil_code, run_python):
    output = run_python(LOADING, str(evil_code)).stdout
    bare, registered, trusted = map(json.loads, re.findall("^found:(.*)", output, flags=re.MULTILINE))
    assert bare == [["refused"] * 4, []]
    modules, marks = registered
    assert all(module.startswith("elmo_hf.") for module in modules)
    assert not marks
    modules, marks = trusted  # without this, the lines above could not fail
    assert all(module.startswith("transformers_modules.") for module in modules)
    assert {"configuration_elmo", "modeling_elmo", "checks_elmo"} <= set(marks)
