"""`to_onnx` writes a complete folder or none, and refuses what it cannot export before it begins."""

import json
import logging

import numpy as np
import onnx
import pytest
import torch

from elmo_hf import (
    ElmoConfig,
    ElmoForCoreference,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoles,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from elmo_hf.errors import FolderError, ModelError
from elmo_hf.export import onnx_folder, to_onnx
from elmo_hf.export.onnx_folder import run_onnx
from elmo_hf.runtime import extras
from tests.export.batches import random_batch, tiny_head
from tests.models import TINY, edit_config, tiny_model

FILES = ["config.json", "example.py", "model.onnx", "tokenizer.json", "tokenizer_config.json"]


def saved(model, folder, tokenizer=None):
    model.save_pretrained(folder)
    (tokenizer or ElmoTokenizer(["<S>", "</S>", "<UNK>", "a", "word"])).save_pretrained(folder)
    return folder


def files(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.medium
@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
def test_the_folder_of_an_encoder_is_complete(tmp_path, int8):
    model = saved(tiny_model(), tmp_path / "model")
    exported = to_onnx(model, tmp_path / "out", int8=int8)
    assert exported.folder == tmp_path / "out"
    assert files(tmp_path) == ["model", "out"]
    assert files(exported.folder) == FILES
    assert 0 < exported.difference < (0.2 if int8 else 1e-5)
    config = json.loads((exported.folder / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("elmo", ["ElmoModel"])
    assert (
        ElmoTokenizer.from_pretrained(exported.folder).get_vocab() == ElmoTokenizer.from_pretrained(model).get_vocab()
    )
    properties = {entry.key: entry.value for entry in onnx.load(exported.folder / "model.onnx").metadata_props}
    assert properties["model_class"] == "ElmoModel"


def test_the_model_of_pretraining_is_exported_as_its_encoder(tmp_path):
    torch.manual_seed(0)
    pretrained = ElmoForPreTraining(ElmoConfig(**TINY)).eval()
    model = saved(pretrained, tmp_path / "model")
    to_onnx(model, tmp_path / "out")
    batch = random_batch(np.random.default_rng(0), pretrained.config, [5, 3])
    outputs = run_onnx(tmp_path / "out" / "model.onnx", {n: batch[n].numpy() for n in ("char_ids", "attention_mask")})
    with torch.no_grad():
        expected = pretrained(**batch).last_hidden_state
    np.testing.assert_allclose(outputs["hidden_states"][-1], expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("head", [ElmoForTokenClassification, ElmoForSequenceClassification])
def test_the_config_of_a_head_names_its_labels(tmp_path, head):
    model = saved(tiny_head(head, id2label={0: "no", 1: "yes"}), tmp_path / "model")
    to_onnx(model, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["id2label"] == {"0": "no", "1": "yes"}


def test_half_precision_weights_are_exported_in_fp32(tmp_path):
    model = saved(tiny_model().to(torch.bfloat16), tmp_path / "model")
    assert to_onnx(model, tmp_path / "out").difference < 1e-5
    types = {entry.data_type for entry in onnx.load(tmp_path / "out" / "model.onnx").graph.initializer}
    assert types == {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64}


@pytest.mark.medium
def test_int8_is_a_quarter_as_large_and_near(tmp_path):
    fields = {"cell_size": 128, "projection_size": 32, "num_highway_layers": 0}
    model = tiny_model(**fields)
    folder = saved(model, tmp_path / "model", ElmoTokenizer())
    sizes, vectors = {}, {}
    batch = random_batch(np.random.default_rng(0), model.config, [20, 9])
    for name in ("fp32", "int8"):
        path = to_onnx(folder, tmp_path / name, int8=name == "int8").folder / "model.onnx"
        sizes[name] = path.stat().st_size
        inputs = {key: batch[key].numpy() for key in ("char_ids", "attention_mask")}
        vectors[name] = run_onnx(path, inputs)["hidden_states"][:, batch["attention_mask"].numpy() == 1]
    assert sizes["int8"] < 0.4 * sizes["fp32"]
    one, other = vectors["fp32"], vectors["int8"]
    cosines = (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)
    assert 0.98 < cosines.min() < 1 - 1e-6
    weights = [node for node in _nodes(onnx.load(tmp_path / "int8" / "model.onnx").graph) if node.op_type == "MatMul"]
    assert weights == []  # in the loops too


def _nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
def test_a_model_beyond_the_limit_of_one_file_has_its_weights_beside_it(tmp_path, monkeypatch, int8):
    monkeypatch.setattr("elmo_hf.export.graph.MOST_BYTES", 0)
    model = saved(tiny_model(), tmp_path / "model")
    to_onnx(model, tmp_path / "out", int8=int8)
    assert files(tmp_path / "out") == sorted([*FILES, "model.onnx.data"])


def test_no_warning_and_the_same_logging_afterwards(tmp_path, caplog):
    model = saved(tiny_model(), tmp_path / "model")
    to_onnx(model, tmp_path / "out", int8=True)
    assert caplog.records == []
    logging.getLogger("elmo_hf").warning("heard")
    assert [record.message for record in caplog.records] == ["heard"]


def test_a_tokenizer_with_a_python_segmenter_becomes_one_that_splits_at_white_space(tmp_path):
    """tokenizer.json cannot hold the segmenter: the text has to be segmented before."""
    model = saved(tiny_model(), tmp_path / "model", ElmoTokenizer(segmenter=list))
    to_onnx(model, tmp_path / "out")
    assert ElmoTokenizer.from_pretrained(tmp_path / "out").tokenize("我在 IBM") == ["我在", "IBM"]


# ---- What is refused


@pytest.mark.parametrize("head", [ElmoForCoreference, ElmoForSemanticRoles, ElmoForQuestionAnswering])
def test_other_heads_are_refused_by_name(tmp_path, head):
    model = saved(head(ElmoConfig(**TINY, num_labels=3)), tmp_path / "model")
    with pytest.raises(
        ModelError, match=rf"model is an {head.__name__}, which has no export to ONNX: encoders, taggers"
    ):
        to_onnx(model, tmp_path / "out")
    assert files(tmp_path) == ["model"]


def test_a_model_saved_as_int8_is_refused(tmp_path):
    model = saved(tiny_model().quantize(), tmp_path / "model")
    with pytest.raises(ModelError, match="was saved as int8: export the model that it was made from, with --int8"):
        to_onnx(model, tmp_path / "out")


def test_another_kind_of_model_is_refused(tmp_path):
    model = saved(tiny_model(), tmp_path / "model")
    edit_config(model, model_type="bert")
    with pytest.raises(ModelError, match="should hold a model of type elmo, found bert"):
        to_onnx(model, tmp_path / "out")


def test_a_tokenizer_of_other_words_is_refused(tmp_path):
    model = saved(tiny_model(), tmp_path / "model", ElmoTokenizer(max_characters_per_token=20))
    with pytest.raises(ModelError, match="reads 50 characters per word, and its tokenizer makes 20"):
        to_onnx(model, tmp_path / "out")
    assert files(tmp_path) == ["model"]


def test_a_used_folder_is_refused_before_the_model_is_loaded(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(FolderError, match="exists and is not an empty folder"):
        to_onnx(tmp_path / "no-model", tmp_path / "out")
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("module", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_before_the_model_is_looked_at(tmp_path, monkeypatch, module):
    monkeypatch.setattr(extras, "_is_installed", lambda name: name != module)
    with pytest.raises(ImportError, match=rf'Export to ONNX needs {module}: pip install "elmo-hf\[onnx\]"'):
        to_onnx(tmp_path / "no-model", tmp_path / "out")


def test_a_graph_that_differs_from_pytorch_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_folder, "difference_from_pytorch", lambda *arguments: float("nan"))
    model = saved(ElmoModel(ElmoConfig(**TINY)), tmp_path / "model")
    with pytest.raises(ModelError, match="differs by nan from PyTorch"):
        to_onnx(model, tmp_path / "out")
    assert files(tmp_path) == ["model"]
