"""Folders for sentence-transformers: the real library gives the embedder's vectors, saves, loads and trains them."""

import json
import os
import subprocess

import numpy as np
import pytest
import torch

from elmo_hf import ElmoModel, ElmoTokenizer, default_model
from elmo_hf.embedding import SENTENCE_FILES, ElmoEmbedder, write_sentence_files
from elmo_hf.errors import FolderError
from tests.bare_python import BARE, PRELUDE
from tests.embedding.toy import toy_embedder
from tests.models import tiny_model

sentence_transformers = pytest.importorskip("sentence_transformers")
losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")

TEXT = ["the bank of the river", "", "a bank", "Zürich, don't!", "the bank of the river , and a river and a bank"]


def assert_same(library, embedder: ElmoEmbedder, pooling: str):
    expected = embedder.embed(TEXT, pooling=pooling)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(library.encode(TEXT), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(library.encode(TEXT, batch_size=2), expected, rtol=1e-5, atol=1e-5)
    for text, vector in zip(TEXT, expected, strict=True):
        np.testing.assert_allclose(library.encode(text), vector, rtol=1e-5, atol=1e-5)


@pytest.mark.medium
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_the_library_gives_the_vectors_of_the_embedder_and_keeps_them_when_it_saves(pooling, tmp_path):
    embedder = toy_embedder()
    embedder.save_pretrained(tmp_path / "saved", pooling)
    library = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"))
    assert library.get_embedding_dimension() == embedder.hidden_size
    assert_same(library, embedder, pooling)
    library.save(str(tmp_path / "again"))
    assert_same(sentence_transformers.SentenceTransformer(str(tmp_path / "again")), embedder, pooling)
    assert_same(library, ElmoEmbedder.from_pretrained(tmp_path / "again"), pooling)


@pytest.mark.medium
def test_the_shipped_model_is_one_of_the_library_too():
    embedder = ElmoEmbedder.from_pretrained()
    assert_same(sentence_transformers.SentenceTransformer(default_model()), embedder, "mean")


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_words_that_look_like_boundaries_change_nothing(side, tmp_path):
    model, tokenizer = tiny_model(), ElmoTokenizer(padding_side=side)
    embedder = ElmoEmbedder(model, tokenizer)
    embedder.save_pretrained(tmp_path / "saved")
    library = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"))
    text = ["<S> is a word here </S>", "a", "", "the bank " * 20]
    np.testing.assert_allclose(library.encode(text), embedder.embed(text, pooling="mean"), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("token_inputs", ["words", "both"])
def test_a_model_with_a_table_of_words_leaves_its_boundaries_out(token_inputs):
    tokenizer = ElmoTokenizer(["<S>", "</S>", "<UNK>", "the", "bank"])
    model = tiny_model(vocab_size=5, token_inputs=token_inputs, word_embedding_size=6)
    batch = tokenizer(["the bank", "", "bank"], padding=True, return_tensors="pt")
    with torch.no_grad():
        words = model(**batch).last_hidden_state
        mean, largest = model.mean_of_words(**batch), model.max_of_words(**batch)
    expected = [words[0, 1:3].mean(dim=0), torch.zeros(8), words[2, 1]]
    torch.testing.assert_close(mean, torch.stack(expected))
    torch.testing.assert_close(largest[0], words[0, 1:3].amax(dim=0))
    assert not largest[1].any()


def test_the_library_trains_the_mixer_and_the_bilm(tmp_path):
    toy_embedder().save_pretrained(tmp_path / "saved")
    library = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"))
    library.train()
    loss = losses.CosineSimilarityLoss(library)
    sides = [library.preprocess(texts) for texts in (["the bank", "a river"], ["a bank", "the"])]
    loss([dict(side) for side in sides], torch.tensor([0.0, 1.0])).backward()
    model = library[0].auto_model
    assert isinstance(model, ElmoModel)
    for parameter in (model.mixer.weights, model.layers[0].input_weight, model.token_encoder.projection.weight):
        assert parameter.grad.abs().sum() > 0


@pytest.mark.slow
def test_a_folder_works_where_only_the_library_is_installed(tmp_path):
    embedder = toy_embedder()
    embedder.save_pretrained(tmp_path / "saved")
    code = f"""{PRELUDE}
import numpy
from sentence_transformers import SentenceTransformer
library = SentenceTransformer({str(tmp_path / "saved")!r}, trust_remote_code=True)
library.save({str(tmp_path / "again")!r})
library = SentenceTransformer({str(tmp_path / "again")!r}, trust_remote_code=True)
numpy.save({str(tmp_path / "vectors.npy")!r}, library.encode({TEXT!r}))
"""
    environment = os.environ | {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    run = subprocess.run([*BARE, code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr[-2000:]
    expected = embedder.embed(TEXT, pooling="mean")
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, rtol=1e-5, atol=1e-5)


def test_no_class_of_ours_has_to_be_trusted(tmp_path):
    toy_embedder().save_pretrained(tmp_path / "saved")
    (module,) = json.loads((tmp_path / "saved" / "modules.json").read_text())
    assert module["type"].startswith("sentence_transformers.")
    assert {*SENTENCE_FILES} <= set(os.listdir(tmp_path / "saved"))


def test_a_folder_in_use_or_without_a_model_is_refused(tmp_path):
    with pytest.raises(FolderError, match=r"no config\.json"):
        write_sentence_files(tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="not an empty folder"):
        toy_embedder().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="`pooling`"):
        toy_embedder().save_pretrained(tmp_path / "new", pooling="sum")
    assert os.listdir(tmp_path) == ["file"]
