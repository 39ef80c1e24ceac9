"""The registry of model classes: every place that lists classes reads it, and what it says is true of the classes."""

import re

import pytest
import torch
import transformers
from transformers.dynamic_module_utils import get_class_from_dynamic_module

import elmo_hf
from elmo_hf import ElmoConfig, ElmoModel
from elmo_hf.finetuning.tasks import TASKS, ClassificationTask, TaggingTask
from elmo_hf.modeling.configuration_elmo import AUTO_MAP, HEAD_PARTS, HEADS, MODELS, NON_ENCODER_KEYS
from elmo_hf.modeling.modeling_heads_elmo import ElmoTaskModel
from elmo_hf.publishing.content import task_of
from tests.models import TINY

# All options that give a head further modules.
OPTIONS = [
    {"elmo_places": "both", "word_vector_size": 3, "tag_decoder": "crf", "pooling": "biattentive"},
    {"text_pairs": True, "pair_attention": True, "pooling": "attention", "softmax_type": "adaptive"},
    {"text_pairs": True, "pair_attention": "esim", "allow_no_answer": True},
]
AUTO = [entry for entry in MODELS if entry.auto_class is not None]
each_model = pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry.name)
each_head = pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)


def own_modules(model: torch.nn.Module) -> set[str]:
    """The first parts of the names in a state dict, the encoder's excepted."""
    return {name.split(".")[0] for name in model.state_dict()} - {"elmo", "token_encoder", "layers", "mixer"}


@pytest.mark.parametrize("entry", AUTO, ids=lambda entry: entry.name)
def test_a_class_is_loaded_by_its_auto_class_here_and_by_remote_code(entry):
    auto = getattr(transformers, entry.auto_class)
    assert type(auto.from_config(ElmoConfig(**TINY))) is entry.model_class
    assert entry.model_class is getattr(elmo_hf, entry.name)
    assert entry.model_class._auto_class == entry.auto_class
    assert elmo_hf.modeling.configuration_elmo.AUTO_MAP[entry.auto_class] == f"{entry.module}.{entry.name}"


def test_the_auto_map_has_the_classes_of_the_registry_and_no_others():
    assert elmo_hf.modeling.configuration_elmo.AUTO_MAP == AUTO_MAP
    assert len(AUTO_MAP) == len(AUTO)


@pytest.mark.parametrize("entry", [entry for entry in MODELS if entry.auto_class is None], ids=lambda entry: entry.name)
def test_a_class_without_auto_class_is_saved_with_its_code_and_loaded_from_there(entry, tmp_path):
    model = entry.model_class(ElmoConfig(**TINY))
    model.save_pretrained(tmp_path)
    assert (tmp_path / f"{entry.module}.py").exists()
    assert entry.model_class is getattr(elmo_hf, entry.name)
    assert entry.name not in str(ElmoConfig.from_pretrained(tmp_path).auto_map)
    remote = get_class_from_dynamic_module(f"{entry.module}.{entry.name}", str(tmp_path))
    assert remote is not entry.model_class
    weights = remote.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in model.state_dict().items())


@each_model
def test_the_modules_of_a_class_are_those_that_the_registry_names(entry):
    modules = set().union(*(own_modules(entry.model_class(ElmoConfig(**(TINY | fields)))) for fields in OPTIONS))
    assert modules == {*entry.parts, *(HEAD_PARTS if entry in HEADS else ())}


@each_model
def test_an_encoder_is_loaded_from_the_weights_of_every_class_without_a_complaint(entry, tmp_path):
    for fields in OPTIONS:
        model = entry.model_class(ElmoConfig(**(TINY | fields)))
        unused = [name for name in model.state_dict() if name.split(".")[0] in own_modules(model)]
        assert all(re.match(NON_ENCODER_KEYS, name) for name in unused)
        model.save_pretrained(tmp_path)
        info = ElmoModel.from_pretrained(tmp_path, output_loading_info=True)[1]
        assert not any(info.values())


@each_head
def test_a_head_has_a_task_a_pipeline_and_fields_of_the_config(head):
    assert issubclass(head.model_class, ElmoTaskModel)
    assert head.task is None or head.task in TASKS
    assert task_of(ElmoConfig(**TINY, architectures=[head.name])) == head.pipeline
    # transformers 5 has no pipeline for question answering; the Hub still has the tag.
    assert head.pipeline in {*transformers.pipelines.SUPPORTED_TASKS, "question-answering"}
    assert all(hasattr(ElmoConfig(), field) for field in head.fields)


def test_every_task_has_a_head():
    assert TASKS.keys() == {head.task for head in HEADS if head.task is not None}


def test_a_task_trains_the_head_that_the_registry_names():
    assert TaggingTask(["O"]).model_class is elmo_hf.ElmoForTokenClassification
    task = ClassificationTask(["a", "b"], "single_label_classification", pairs=False)
    assert task.model_class is elmo_hf.ElmoForSequenceClassification
