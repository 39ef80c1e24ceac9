"""The mixing weights of stored models."""

import json

import pytest
import torch

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.analysis.learned_mixes import mixing_weights
from elmo_hf.errors import ModelError
from tests.models import TINY, tiny_model


def write_head(folder, weights, **fields):
    head = ElmoForTokenClassification(ElmoConfig(**(TINY | {"num_labels": 3, "task_layer_size": 4} | fields)))
    with torch.no_grad():
        for mixer in (head.input_mixer, head.output_mixer):
            if mixer is not None:
                mixer.weights.copy_(torch.tensor(weights))
                mixer.gamma.fill_(2.0)
    head.save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return folder


def test_the_shares_are_the_softmax_of_the_stored_weights(tmp_path):
    write_head(tmp_path / "tagger", [0.0, 1.0, 2.0], elmo_places="both")
    tiny_model(num_hidden_layers=1).save_pretrained(tmp_path / "encoder")
    weights = mixing_weights([tmp_path / "tagger", str(tmp_path / "encoder")])
    assert [(mix.model, mix.place) for mix in weights.mixes] == [
        ("tagger", "input"),
        ("tagger", "output"),
        ("encoder", "model"),
    ]
    shares = torch.tensor([0.0, 1.0, 2.0]).softmax(dim=0).tolist()
    assert weights.mixes[0].weights == pytest.approx(shares)
    assert weights.mixes[0].gamma == 2.0
    assert weights.mixes[2].weights == [0.5, 0.5]
    lines = weights.table().splitlines()
    assert lines[1].split() == ["tagger,", "input", "0.090", "0.245", "0.665", "2.000"]
    assert lines[3].split() == ["encoder,", "model", "0.500", "0.500", "1.000"]


def test_the_range_is_over_the_seeds_of_the_run(tmp_path):
    folder = write_head(tmp_path / "tagger", [0.0, 0.0, 0.0])
    seeds = [{"mix": {"input": [0.2, 0.3, 0.5]}}, {"mix": {"input": [0.3, 0.3, 0.4]}}]
    (folder / "results.json").write_text(json.dumps({"seeds": seeds}))
    weights = mixing_weights([folder])
    assert weights.mixes[0].ranges == [(0.2, 0.3), (0.3, 0.3), (0.4, 0.5)]
    assert "0.333 (0.200–0.300)" in weights.table()


def test_models_without_a_mix_and_folders_without_a_model_are_named(tmp_path):
    write_head(tmp_path / "plain", [0.0, 0.0, 0.0], elmo_places="none", word_vector_size=4, num_word_vectors=5)
    with pytest.raises(ModelError, match="plain has no mix"):
        mixing_weights([tmp_path / "plain"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"empty holds no model: config\.json is missing"):
        mixing_weights([tmp_path / "empty"])
    with pytest.raises(ModelError, match="There is no folder no/such here"):
        mixing_weights(["no/such"])
    with pytest.raises(ValueError, match="at least one"):
        mixing_weights([])
