"""Large files of the Hub are compared with their checksum when they are first loaded, whoever loads them."""

import hashlib
import os
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from transformers import AutoModel
from transformers.utils import hub as transformers_hub

from elmo_hf import (
    ElmoEmbedder,
    ElmoForPreTraining,
    ElmoForTokenClassification,
    ElmoLanguageModel,
    ElmoModel,
    ElmoTokenizer,
)
from elmo_hf.conversion import export_bilm_hdf5
from elmo_hf.finetuning import load_head
from tests.hub import api as hub_api
from tests.hub.faults import CorruptDownload
from tests.hub.models import save_tagger, save_tiny

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

NAME = "ada/model"
DAMAGED = r"model\.safetensors is damaged, its SHA-256 is not .*\. It was removed from the cache: load the model again"


@pytest.fixture
def publish(api, tmp_path, monkeypatch):
    """Makes a repository of a model, or of a folder of it."""
    monkeypatch.setattr(
        transformers_hub, "_hf_api", None, raising=False
    )  # which keeps the address of the last test's Hub

    def upload(save=save_tiny, *arguments, **options) -> Path:
        folder = save(tmp_path / "model", *arguments, **options)
        api.create_repo(NAME)
        api.upload_folder(folder_path=folder, repo_id=NAME)
        return folder

    return upload


@pytest.fixture
def hashed(monkeypatch) -> list[str]:
    """The files whose checksum was computed by us, in order."""
    names = []
    digest = hashlib.file_digest

    def file_digest(file, *arguments):
        names.append(file.name)
        return digest(file, *arguments)

    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    return names


def blobs() -> list[Path]:
    """The large files in the cache."""
    return [path for path in Path(constants.HF_HUB_CACHE).glob("*/blobs/*") if len(path.name) == 64]


@pytest.mark.parametrize(
    ("save", "arguments", "load"),
    [
        (save_tiny, [], AutoModel.from_pretrained),
        (save_tiny, [], ElmoEmbedder.from_pretrained),
        (save_tiny, [ElmoForPreTraining], ElmoLanguageModel.from_pretrained),
        (save_tagger, [], load_head),
        (save_tagger, [], ElmoForTokenClassification.from_pretrained),
        (save_tiny, [], lambda name: export_bilm_hdf5(name, Path(constants.HF_HOME) / "out")),
    ],
)
def test_a_byte_that_changes_on_the_way_is_refused_and_fetched_again(hub, publish, save, arguments, load):
    publish(save, *arguments)
    hub.faults.inject(CorruptDownload(), "GET", "model.safetensors")
    with pytest.raises((OSError, ValueError), match=DAMAGED):
        load(NAME)
    assert blobs() == []
    load(NAME)


def test_the_checksum_is_computed_once(publish, hashed):
    folder = publish()
    for _ in range(3):
        model = ElmoModel.from_pretrained(NAME)
    assert len(hashed) == 1
    torch.testing.assert_close(model.state_dict(), ElmoModel.from_pretrained(folder).state_dict(), rtol=0, atol=0)
    assert len(hashed) == 1  # not of a folder


def test_every_part_of_large_weights_is_compared(hub, publish, hashed):
    def save(folder: Path) -> Path:
        ElmoModel.from_pretrained(save_tiny(folder)).save_pretrained(folder, max_shard_size="4KB")
        (folder / "model.safetensors").unlink()
        return folder

    folder = publish(save)
    parts = sorted(path.name for path in folder.glob("*.safetensors"))
    assert len(parts) > 1
    hub.faults.inject(CorruptDownload(), "GET", parts[-1])
    with pytest.raises(OSError, match=rf"{parts[-1]} is damaged"):
        ElmoModel.from_pretrained(NAME)
    ElmoModel.from_pretrained(NAME)
    assert len(hashed) == len(parts) + 1


def test_a_file_that_has_changed_since_is_compared_again(publish):
    publish()
    ElmoModel.from_pretrained(NAME)
    (blob,) = blobs()
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    os.utime(blob, ns=(0, 0))
    with pytest.raises(OSError, match=DAMAGED):
        ElmoModel.from_pretrained(NAME)


def test_a_cache_where_nothing_can_be_noted_is_used_all_the_same(publish, hashed):
    publish()
    ElmoModel.from_pretrained(NAME)
    (note,) = Path(constants.HF_HUB_CACHE).glob("*/.elmo-hf/*")
    note.unlink()
    note.parent.rmdir()
    note.parent.write_text("in the way")
    for _ in range(2):
        ElmoModel.from_pretrained(NAME)
    assert len(hashed) == 3


def test_a_large_tokenizer_is_compared_too(hub, publish, monkeypatch):
    monkeypatch.setattr(hub_api, "LARGE_SIZE", 2000)
    publish()
    hub.faults.inject(CorruptDownload(), "GET", "filename=tokenizer.json")
    with pytest.raises(OSError, match=r"tokenizer\.json is damaged, its SHA-256 is not"):
        ElmoTokenizer.from_pretrained(NAME)
    ElmoTokenizer.from_pretrained(NAME)


def test_the_command_says_so_in_one_line(hub, publish, run_command, tmp_path):
    publish()
    (tmp_path / "text.txt").write_text("the cat\n")
    hub.faults.inject(CorruptDownload(), "GET", "model.safetensors")
    command = ["embed", NAME, tmp_path / "text.txt", "--out", tmp_path / "vectors.npz"]
    code, _, error = run_command(*command)
    assert code == 2
    assert error.startswith("elmo-hf: ada/model cannot be loaded: ")
    assert "model.safetensors is damaged, its SHA-256 is not" in error
    assert error.count("\n") == 1
    assert run_command(*command)[0] == 0
