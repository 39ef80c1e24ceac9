"""A new head is one class and one entry in the registry: nothing else lists heads."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

MODULE = "modeling_spans_elmo"
CLASS = '''
import torch
from transformers.modeling_outputs import QuestionAnsweringModelOutput

from .modeling_heads_elmo import ElmoTaskModel
from .task_layers_elmo import ElmoTaskLinear


class ElmoForSpans(ElmoTaskModel):
    """The first and the last word of an answer."""

    def __init__(self, config):
        super().__init__(config)
        self.span_scores = ElmoTaskLinear(config.hidden_size, 2)
        self.post_init()

    def forward(self, input_ids=None, char_ids=None, attention_mask=None, return_dict=None):
        mask = self._mask(input_ids, char_ids, attention_mask, None)
        layers = self._bilm_layers(input_ids, char_ids, mask, None)
        start, end = self.span_scores(self.input_mixer(layers, mask)).unbind(dim=-1)
        return QuestionAnsweringModelOutput(start_logits=start, end_logits=end)
'''
ENTRY = f"""
    ModelClass(
        name="ElmoForSpans",
        module="{MODULE}",
        auto_class="AutoModelForMultipleChoice",
        parts=("span_scores",),
        pipeline="zero-shot-classification",
    ),
)
MODELS = ("""
PROGRAM = """
import json, sys
from pathlib import Path
import elmo_hf
assert elmo_hf.__file__.startswith(sys.argv[1])
from elmo_hf import ElmoConfig, ElmoForSpans, ElmoModel, ElmoTokenizer
from elmo_hf.finetuning import load_head
from elmo_hf.publishing.repository import complete_repository
from transformers import AutoModel, AutoModelForMultipleChoice, AutoTokenizer

saved, stage = (Path(sys.argv[1]) / name for name in ("saved", "stage"))
sizes = json.loads(sys.argv[2])
model = ElmoForSpans(ElmoConfig(**sizes, vocab_size=3))
model.save_pretrained(saved)
ElmoTokenizer().save_pretrained(saved)
assert json.loads((saved / "config.json").read_text())["auto_map"]["AutoModelForMultipleChoice"]
assert (saved / "modeling_spans_elmo.py").exists()
assert type(AutoModelForMultipleChoice.from_pretrained(saved)) is ElmoForSpans
assert type(load_head(str(saved))[0]) is ElmoForSpans
_, loading = ElmoModel.from_pretrained(saved, output_loading_info=True)
assert not any(loading.values()), loading
batch = AutoTokenizer.from_pretrained(saved)(["He sat on the bank ."], return_tensors="pt")
assert model(**{name: batch[name] for name in ("char_ids", "attention_mask")}).start_logits.shape == (1, 8)
stage.mkdir()
files = complete_repository(saved, stage, "me/spans")
assert "modeling_spans_elmo.py" in files
assert "pipeline_tag: zero-shot-classification" in (stage / "README.md").read_text()
assert 'pipeline("zero-shot-classification"' in (stage / "README.md").read_text()
"""
SIZES = """{"char_embedding_size": 3, "char_filters": [[1, 4]], "cell_size": 7, "projection_size": 4}"""


@pytest.mark.medium
def test_a_class_and_an_entry_make_a_head_that_is_saved_loaded_and_published(tmp_path):
    package = tmp_path / "elmo_hf"
    shutil.copytree(ROOT / "elmo_hf", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "modeling" / f"{MODULE}.py").write_text(CLASS)
    registry = package / "modeling" / "configuration_elmo.py"
    before = registry.read_text("utf-8")
    assert before.count("\n)\nMODELS = (") == 1
    registry.write_text(before.replace("\n)\nMODELS = (", ENTRY), "utf-8")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), SIZES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
