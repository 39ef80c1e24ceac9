"""From a run to a folder that ships."""

import json
import random

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.embedding import SENTENCE_FILES, ElmoEmbedder
from elmo_hf.model_cards.ship import ship
from tests.models import TINY

HISTORY = [
    {"step": 10, "loss": 6.0, "hours": 0.1},
    {"step": 10, "forward_perplexity": 400.0, "backward_perplexity": 380.0},
    {"step": 20, "loss": 5.0, "hours": 0.2},
    {"step": 20, "forward_perplexity": 150.0, "backward_perplexity": 140.0},
]


@pytest.fixture
def run(tmp_path):
    """The folder of a run that has ended."""
    folder = tmp_path / "run"
    tokenizer = ElmoTokenizer().train_new_from_iterator(["the cat sat on the mat ."], vocab_size=20)
    torch.manual_seed(0)
    ElmoForPreTraining(ElmoConfig(**(TINY | {"vocab_size": tokenizer.vocab_size}))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in HISTORY))
    return folder


def test_a_shipped_folder_is_half_the_size_and_loads_as_fp32_without_code(run, tmp_path):
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "README.md").write_text("the card")
    ship(run, folder)
    assert {path.name for path in folder.iterdir()} == {
        "README.md", "config.json", "curve.svg", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        *SENTENCE_FILES,
    }  # fmt: skip
    assert (folder / "README.md").read_text() == "the card"
    model, original = AutoModel.from_pretrained(folder), AutoModel.from_pretrained(run)
    for actual, expected in zip(model.parameters(), original.parameters(), strict=True):
        assert actual.dtype == torch.float32
        assert torch.equal(actual, expected.half().float())
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == AutoTokenizer.from_pretrained(run).get_vocab()


def test_a_shipped_folder_has_a_sentence_pooling_if_text_is_given(run, tmp_path):
    lines = [
        " ".join(random.Random(line).choices(["the", "cat", "sat", "on", "a", "mat", "."], k=5)) for line in range(300)
    ]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    ship(run, tmp_path / "shipped", [str(tmp_path / "text.txt")])
    embedder = ElmoEmbedder.from_pretrained(tmp_path / "shipped")
    vectors = embedder.embed(lines, pooling="sentence")
    assert vectors.shape == (300, embedder.model.config.sentence_size)
    assert np.abs(vectors.mean(axis=0)).max() < 0.5
    assert "sentence_vectors" in (tmp_path / "shipped" / "sentence_bert_config.json").read_text()


def test_weights_beyond_half_precision_are_refused_and_nothing_is_written(run, tmp_path):
    model = ElmoForPreTraining.from_pretrained(run)
    with torch.no_grad():
        model.softmax.bias[0] = 1e6
    model.save_pretrained(run)
    with pytest.raises(ValueError, match=r"softmax\.bias holds values too large"):
        ship(run, tmp_path / "shipped")
    assert not (tmp_path / "shipped").exists()
