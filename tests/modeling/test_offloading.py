"""Models whose weights are on the CPU or the disk until a layer runs (accelerate) give the same outputs."""

import accelerate
import pytest
import torch
from packaging.version import Version
from torch.testing import assert_close

from elmo_hf import (
    ElmoConfig,
    ElmoForCoreference,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoles,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoInt8Config,
    ElmoModel,
    ElmoTokenizer,
)
from elmo_hf.modeling.products_elmo import packed_weights
from tests.models import TINY

WORDS = {"word_vector_size": 3, "elmo_places": "both", "task_layer_size": 3}
ROLES = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "predicate_size": 2}
SPANS = {"span_size": 5, "max_span_width": 3, "span_ratio": 1.0}
PAIRS = {"text_pairs": True, "pair_attention": True, "pooling": "biattentive", "num_labels": 2}
MODELS = {
    "encoder": (ElmoModel, {}),
    "tagger": (ElmoForTokenClassification, WORDS | {"num_labels": 3}),
    "crf": (ElmoForTokenClassification, WORDS | {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "tag_decoder": "crf"}),
    "classifier": (ElmoForSequenceClassification, WORDS | {"num_labels": 3, "pooling": "attention"}),
    "pairs": (ElmoForSequenceClassification, WORDS | PAIRS),
    "esim": (ElmoForSequenceClassification, WORDS | {"text_pairs": True, "pair_attention": "esim", "num_labels": 2}),
    "roles": (ElmoForSemanticRoles, WORDS | ROLES),
    "coreference": (ElmoForCoreference, WORDS | SPANS),
    "questions": (ElmoForQuestionAnswering, WORDS | {"allow_no_answer": True}),
    "pretraining": (ElmoForPreTraining, {"softmax_type": "full"}),
    "sampled": (ElmoForPreTraining, {"softmax_type": "sampled", "softmax_samples": 4}),
    "adaptive": (ElmoForPreTraining, {"softmax_type": "adaptive", "softmax_cutoffs": [5]}),
}


needs_disk_offloading = pytest.mark.skipif(
    Version(accelerate.__version__) < Version("1.15"), reason="older ones refuse to offload a whole model to the disk"
)


def new_model(name: str, **fields):
    torch.manual_seed(0)
    kind, own = MODELS[name]
    return kind(ElmoConfig(**(TINY | own | fields))).eval()


def batch_for(name: str) -> dict[str, torch.Tensor]:
    """Two sentences, with the labels if there is a loss that reads weights too."""
    pairs = ["a dog", "it was a cat"] if name in ("pairs", "esim", "questions") else None
    batch = dict(ElmoTokenizer()(["the cat sat on a mat", "a dog"], pairs, padding=True, return_tensors="pt"))
    is_word = batch["attention_mask"] == 1
    if name == "crf":
        batch["labels"] = torch.where(batch["input_ids"] == 2, 1, -100)
    if name == "roles":
        batch["predicate_mask"] = torch.zeros_like(batch["input_ids"])
        batch["predicate_mask"][:, 2] = 1
        batch["labels"] = torch.where(batch["input_ids"] == 2, 1, -100)
    if name == "coreference":
        batch["labels"] = torch.tensor([[[0, 1, 0], [4, 5, 0], [6, 7, 0]]])
    if name == "questions":
        batch["start_positions"] = batch["end_positions"] = torch.tensor([9, 5])  # the first words of the contexts
    if MODELS[name][0] is ElmoForPreTraining:
        batch["labels"] = batch["backward_labels"] = torch.where(is_word, 3, -100)
    return batch


def outputs_of(model, name: str) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        output = model(**batch_for(name))
    return {key: value for key, value in output.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("name", MODELS)
def test_weights_on_the_cpu_are_loaded_when_a_layer_runs(name):
    expected = outputs_of(new_model(name), name)
    model = accelerate.cpu_offload(new_model(name), execution_device=torch.device("cpu"))
    assert all(parameter.is_meta for parameter in model.parameters())
    for _ in range(2):
        assert_close(outputs_of(model, name), expected)
    assert not any(packed._packed for packed in packed_weights(model))  # copies would stay in memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
@needs_disk_offloading
def test_weights_on_the_disk_are_loaded_when_a_layer_runs(tmp_path, name, dtype):
    saved = new_model(name).to(dtype)
    saved.save_pretrained(tmp_path / "model")
    expected = outputs_of(saved, name)
    model = type(saved).from_pretrained(
        tmp_path / "model", device_map={"": "disk"}, offload_folder=str(tmp_path / "offload")
    )
    assert any(parameter.is_meta for parameter in model.parameters())
    tolerance = {} if dtype == torch.float32 else {"rtol": 0.01, "atol": 1e-3}
    assert_close(outputs_of(model, name), expected, **tolerance)


@needs_disk_offloading
@pytest.mark.parametrize("name", MODELS)
def test_an_int8_model_runs_where_its_other_weights_are_offloaded(tmp_path, name):
    model = new_model(name).quantize()
    expected = outputs_of(model, name)
    model.save_pretrained(tmp_path / "model")
    offloaded = accelerate.cpu_offload(new_model(name).quantize(), execution_device=torch.device("cpu"))
    on_disk = type(model).from_pretrained(
        tmp_path / "model", device_map={"": "disk"}, offload_folder=str(tmp_path / "offload")
    )
    for loaded in (offloaded, on_disk):
        assert loaded.base_model.layers[0].is_quantized
        assert all(parameter.is_meta for parameter in loaded.parameters())
        for _ in range(2):
            assert_close(outputs_of(loaded, name), expected)


@needs_disk_offloading
def test_int8_weights_that_would_be_offloaded_are_refused(tmp_path):
    new_model("tagger").save_pretrained(tmp_path / "fp32")
    new_model("tagger").quantize().save_pretrained(tmp_path / "int8")
    options = {"device_map": {"": "disk"}, "offload_folder": str(tmp_path / "offload")}
    with pytest.raises(ValueError, match="offloads cannot be turned into int8: load the model without `device_map`"):
        ElmoForTokenClassification.from_pretrained(tmp_path / "fp32", quantization_config=ElmoInt8Config(), **options)
    with pytest.raises(ValueError, match="int8 weights themselves cannot be offloaded"):
        ElmoForTokenClassification.from_pretrained(tmp_path / "int8", offload_buffers=True, **options)
    model = accelerate.cpu_offload(new_model("tagger").quantize(), torch.device("cpu"), offload_buffers=True)
    with pytest.raises(ValueError, match="int8 weights themselves cannot be offloaded"):
        outputs_of(model, "tagger")
