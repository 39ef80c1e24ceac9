"""The Auto classes, with this package and, by remote code, without it."""

import json
import os
import subprocess

import numpy as np
import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

import elmo_hf
from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from tests.bare_python import BARE, PRELUDE
from tests.models import TINY, tiny_model

SENTENCES = ["The cat sat on the mat, didn't it?", "我在IBM工作 ."]


@pytest.fixture
def folder(tmp_path):
    """A saved model and tokenizer, and what they give for two sentences."""
    tokenizer = ElmoTokenizer().train_new_from_iterator(["the cat sat on the mat ."], vocab_size=20)
    tiny_model(vocab_size=tokenizer.vocab_size).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def pretraining_folder(folder):
    """The same tokenizer beside a language model with its softmax."""
    torch.manual_seed(0)
    vocab_size = AutoTokenizer.from_pretrained(folder).vocab_size
    ElmoForPreTraining(ElmoConfig(**(TINY | {"vocab_size": vocab_size}))).save_pretrained(folder)
    return folder


def vectors_of(folder) -> np.ndarray:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    with torch.no_grad():
        return model(**tokenizer(SENTENCES, padding=True, return_tensors="pt")).last_hidden_state.numpy()


def test_importing_the_package_registers_the_auto_classes(folder):
    assert type(AutoConfig.from_pretrained(folder)) is ElmoConfig
    assert type(AutoModel.from_pretrained(folder)) is ElmoModel
    assert type(AutoTokenizer.from_pretrained(folder)) is ElmoTokenizer
    assert type(AutoModel.from_config(ElmoConfig.from_pretrained(folder))) is ElmoModel
    assert vectors_of(folder).shape == (2, 13, 8)


def test_a_language_models_folder_gives_it_with_its_softmax_and_the_encoder_alone(pretraining_folder):
    model, encoder = (auto.from_pretrained(pretraining_folder) for auto in (AutoModelForPreTraining, AutoModel))
    assert type(model) is ElmoForPreTraining
    assert type(encoder) is ElmoModel
    assert type(AutoModelForPreTraining.from_config(model.config)) is ElmoForPreTraining
    assert torch.equal(encoder.layers[1].input_weight, model.elmo.layers[1].input_weight)
    assert vectors_of(pretraining_folder).shape == (2, 13, 8)


def test_the_saved_config_names_all_classes_for_remote_code_whatever_was_saved(folder, pretraining_folder):
    assert json.loads((pretraining_folder / "config.json").read_text())["auto_map"] == {
        "AutoConfig": "configuration_elmo.ElmoConfig",
        "AutoModel": "modeling_elmo.ElmoModel",
        "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
        "AutoModelForSequenceClassification": "modeling_heads_elmo.ElmoForSequenceClassification",
        "AutoModelForTokenClassification": "modeling_heads_elmo.ElmoForTokenClassification",
        "AutoModelForQuestionAnswering": "modeling_question_answering_elmo.ElmoForQuestionAnswering",
    }


@pytest.mark.medium
def test_a_folder_works_gets_a_head_and_is_saved_again_where_the_package_is_not_installed(pretraining_folder, tmp_path):
    run_without_the_package(
        pretraining_folder,
        tmp_path,
        f"""
from transformers import AutoModelForPreTraining, AutoModelForTokenClassification, pipeline
bilm = AutoModelForPreTraining.from_pretrained({str(pretraining_folder)!r}, trust_remote_code=True)
words = tokenizer("the cat sat", return_tensors="pt")
assert bilm(char_ids=words["char_ids"], labels=words["input_ids"]).loss > 0
tagger = AutoModelForTokenClassification.from_pretrained(
    {str(pretraining_folder)!r}, trust_remote_code=True, id2label={{0: "O", 1: "B-X", 2: "I-X"}}, tag_decoder="crf"
)
for model, name in ((model, "encoder"), (tagger, "tagger")):
    model.save_pretrained({str(tmp_path)!r} + "/" + name)
tokenizer.save_pretrained({str(tmp_path / "tagger")!r})
tag = pipeline("token-classification", {str(tmp_path / "tagger")!r}, trust_remote_code=True)
assert len(tag("Anna saw Paris.", ignore_labels=[])) == 4
""",
    )
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), vectors_of(pretraining_folder))
    for name in ("encoder", "tagger"):
        code = {path.stem for path in (tmp_path / name).glob("*.py")}
        named = json.loads((tmp_path / name / "config.json").read_text())["auto_map"].values()
        assert {one.split(".")[0] for one in named} <= code
    tagger = AutoModelForTokenClassification.from_pretrained(tmp_path / "tagger")
    assert type(tagger) is ElmoForTokenClassification
    assert tagger.crf is not None


def run_without_the_package(folder, tmp_path, more: str = ""):
    """In a fresh process that sees the dependencies only."""
    code = f"""{PRELUDE}
import numpy, torch
from transformers import AutoModel, AutoTokenizer
model = AutoModel.from_pretrained({str(folder)!r}, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained({str(folder)!r}, trust_remote_code=True)
assert "transformers_modules" in type(model).__module__ and "transformers_modules" in type(tokenizer).__module__
with torch.no_grad():
    output = model(**tokenizer({SENTENCES!r}, padding=True, return_tensors="pt")).last_hidden_state
numpy.save({str(tmp_path / "vectors.npy")!r}, output.numpy())
{more}"""
    environment = os.environ | {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    run = subprocess.run([*BARE, code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr[-2000:]


def test_no_code_of_a_folder_runs_unless_it_is_trusted(folder, tmp_path):
    """With the package registered, the folder's own code stays unread."""
    (folder / "modeling_elmo.py").write_text("raise SystemExit('the folder\\'s code ran')\n")
    assert vectors_of(folder).shape == (2, 13, 8)


def test_every_file_that_travels_is_in_the_folder(folder):
    code = {path.name for path in folder.glob("*.py")}
    package = os.path.join(os.path.dirname(elmo_hf.__file__), "modeling")
    assert code == {name for name in os.listdir(package) if name.endswith("_elmo.py")}
    assert "auto_map" in json.loads((folder / "tokenizer_config.json").read_text())


def test_the_public_names_are_these():
    """A name added or lost here is a decision, not an accident."""
    assert sorted(elmo_hf.__all__) == [
        "ElmoConfig",
        "ElmoCoreferenceOutput",
        "ElmoEmbedder",
        "ElmoForCoreference",
        "ElmoForPreTraining",
        "ElmoForPreTrainingOutput",
        "ElmoForQuestionAnswering",
        "ElmoForSemanticRoles",
        "ElmoForSequenceClassification",
        "ElmoForTokenClassification",
        "ElmoIndex",
        "ElmoInt8Config",
        "ElmoLanguageModel",
        "ElmoLayerCache",
        "ElmoMixer",
        "ElmoModel",
        "ElmoModelOutput",
        "ElmoPreTrainedModel",
        "ElmoStates",
        "ElmoTaskModel",
        "ElmoTokenClassifierOutput",
        "ElmoTokenizer",
        "Neighbour",
        "Occurrence",
        "__version__",
        "default_model",
        "embed_corpus",
        "score",
    ]
