"""Pipelines are stored with the model's name or its weights, and run in several processes."""

import importlib
import multiprocessing
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import spacy
import srsly
from spacy.lang.en import English
from spacy.language import Language

from elmo_hf import ElmoEmbedder
from elmo_hf.errors import ModelError
from elmo_hf.integrations import ElmoVectors
from tests.conftest import ROOT
from tests.integrations.folders import BIO, write_encoder, write_tagger
from tests.integrations.pipelines import TEXT, blank

SPAWNED = """
import sys
import multiprocessing
import spacy

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": sys.argv[1], "layers": 0, "save_weights": sys.argv[2] == "weights"})
    docs = list(nlp.pipe(["the bank", "", "river"], n_process=1 + len(sys.argv[2:]), batch_size=1))
    print([doc.tensor.shape for doc in docs])
"""


def restored(nlp: Language, way: str, folder) -> Language:
    """The pipeline after it was stored."""
    if way == "disk":
        nlp.to_disk(folder)
        return spacy.load(folder)
    return English.from_config(nlp.config).from_bytes(nlp.to_bytes())


@pytest.mark.parametrize("way", ["disk", "bytes"])
def test_a_pipeline_is_stored_with_the_name_of_the_model(encoder, tmp_path, way):
    nlp = blank("elmo", model=encoder, layers="top")
    back = restored(nlp, way, tmp_path / "pipeline")
    np.testing.assert_array_equal(back(TEXT).tensor, nlp(TEXT).tensor)
    assert not list((tmp_path / "pipeline").rglob("*.safetensors"))
    assert nlp.get_pipe("elmo").to_bytes() == b""


@pytest.mark.parametrize("way", ["disk", "bytes"])
def test_a_pipeline_stored_with_its_weights_does_without_the_model_s_folder(tmp_path, way):
    folder = write_encoder(tmp_path / "model")
    nlp = blank("elmo", model=folder, layers="top", save_weights=True)
    expected = nlp(TEXT).tensor
    stored = nlp.to_bytes()
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(folder)
    back = spacy.load(tmp_path / "pipeline") if way == "disk" else English.from_config(nlp.config).from_bytes(stored)
    np.testing.assert_array_equal(back(TEXT).tensor, expected)
    again = restored(back, way, tmp_path / "again")  # and what was loaded is stored again
    np.testing.assert_array_equal(again(TEXT).tensor, expected)


def test_stored_weights_are_a_folder_of_the_model(encoder, tmp_path):
    blank("elmo", model=encoder, save_weights=True).to_disk(tmp_path / "pipeline")
    embedder = ElmoEmbedder.from_pretrained(tmp_path / "pipeline" / "elmo")
    expected = ElmoEmbedder.from_pretrained(encoder).embed(["the bank"])[0]
    np.testing.assert_array_equal(embedder.embed(["the bank"])[0], expected)


def test_a_stored_pipeline_can_be_stored_in_its_place_again(tmp_path):
    one, two = (write_encoder(tmp_path / str(seed), seed=seed) for seed in (1, 2))
    blank("elmo", model=one, save_weights=True).to_disk(tmp_path / "pipeline")
    nlp = blank("elmo", model=two, save_weights=True)
    nlp.to_disk(tmp_path / "pipeline")
    np.testing.assert_array_equal(spacy.load(tmp_path / "pipeline")(TEXT).tensor, nlp(TEXT).tensor)
    assert [path.name for path in (tmp_path / "pipeline").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("component", ["elmo_ner", "elmo_tagger"])
def test_taggers_are_stored_with_their_weights(tmp_path, component):
    labels = BIO if component == "elmo_ner" else ["NN", "VB", "DT"]
    nlp = blank(component, model=write_tagger(tmp_path / "model", labels), save_weights=True)
    doc = nlp(TEXT)
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model")
    back = spacy.load(tmp_path / "pipeline")(TEXT)
    assert back.to_json() == doc.to_json()
    assert back.ents or back[0].tag_


def test_missing_weights_are_named(encoder, tmp_path):
    nlp = blank("elmo", model=str(tmp_path / "nowhere"), save_weights=True)
    with pytest.raises(ModelError, match=r"There is no folder .*nowhere"):
        nlp(TEXT)
    nlp = blank("elmo", model=encoder, save_weights=True)
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "pipeline" / "elmo" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="pipeline/elmo cannot be loaded"):
        spacy.load(tmp_path / "pipeline")


@pytest.mark.parametrize("name", ["../config.json", "/tmp/config.json", "a/b", "..", ""])
def test_stored_bytes_write_no_file_elsewhere(encoder, name):
    component = ElmoVectors(model=encoder, save_weights=True)
    with pytest.raises(ModelError, match="outside its folder"):
        component.from_bytes(srsly.msgpack_dumps({name: b"{}"}))


@pytest.mark.parametrize("save_weights", [False, True])
def test_a_component_is_pickled_for_other_processes(encoder, save_weights):
    nlp = blank("elmo", model=encoder, layers=[0, 1], save_weights=save_weights)
    back = pickle.loads(pickle.dumps(nlp.get_pipe("elmo")))
    np.testing.assert_array_equal(back(nlp.make_doc("the bank")).tensor, nlp("the bank").tensor)


@pytest.mark.medium
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_several_processes_give_the_same_in_order(encoder, ner, monkeypatch):
    monkeypatch.setattr(multiprocessing, "Process", multiprocessing.get_context("fork").Process)
    nlp = blank("elmo", model=encoder)
    nlp.add_pipe("elmo_ner", config={"model": ner})
    texts = [TEXT, "", "the bank", TEXT * 3, "river"] * 2
    expected = list(nlp.pipe(texts))
    docs = list(nlp.pipe(texts, n_process=2, batch_size=2))
    for doc, expected_doc in zip(docs, expected, strict=True):
        assert doc.to_json() == expected_doc.to_json()
        np.testing.assert_allclose(doc.tensor, expected_doc.tensor, atol=1e-6)


@pytest.mark.slow
def test_forked_processes_do_not_wait_for_the_threads_of_their_parent():
    code = """
import spacy, torch
torch.set_num_threads(2)
nlp = spacy.blank("en")
nlp.add_pipe("elmo")
text = "The bank was closed . He sat on the bank of the river ."
nlp(text * 10)
print(len(list(nlp.pipe([text] * 4, n_process=2, batch_size=2))))
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "4\n", done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["name", "weights"])
def test_spawned_processes_load_the_model(encoder, tmp_path, way):
    (tmp_path / "script.py").write_text(SPAWNED)
    command = [sys.executable, "-W", "ignore", tmp_path / "script.py", encoder, way]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "[(2, 8), (0, 8), (1, 8)]\n", done.stderr[-2000:]


def test_without_spacy_the_import_says_what_to_install(monkeypatch, without):
    without("spacy")
    for name in [name for name in sys.modules if name.startswith("elmo_hf.integrations")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r'A component for spaCy needs spacy: pip install "elmo-hf\[spacy\]"'):
        importlib.import_module("elmo_hf.integrations")
