"""The card of a head without Auto class shows code that runs."""

import json
import re

import pytest

from elmo_hf import ElmoConfig, ElmoTokenizer
from elmo_hf.modeling.configuration_elmo import HEADS
from elmo_hf.publishing import write_card
from elmo_hf.publishing.repository import complete_repository
from tests.models import TINY

HEADS_WITHOUT_AUTO_CLASS = [head for head in HEADS if head.auto_class is None]
each_head = pytest.mark.parametrize("head", HEADS_WITHOUT_AUTO_CLASS, ids=lambda head: head.name)


@each_head
def test_the_code_of_the_card_runs_without_the_package(head, tmp_path):
    head.model_class(ElmoConfig(**(TINY | {"num_labels": 3}))).save_pretrained(tmp_path)
    ElmoTokenizer().save_pretrained(tmp_path)
    text = write_card(tmp_path, name=str(tmp_path)).read_text("utf-8")
    assert f"`elmo_hf.{head.name}`" in text
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if head.name in block)
    assert "elmo_hf" not in code
    names: dict = {}
    exec(code, names)
    assert type(names["model"]).__module__.startswith("transformers_modules")
    if head.name == "ElmoForSemanticRoles":
        assert len(names["roles"]) == 6
        assert set(names["roles"]) <= {"LABEL_0", "LABEL_1", "LABEL_2"}
    else:
        assert names["clusters"].shape[1] == 3


@each_head
def test_a_repository_has_the_code_and_the_card_of_the_head(head, tmp_path):
    saved, stage = tmp_path / "saved", tmp_path / "stage"
    head.model_class(ElmoConfig(**TINY)).save_pretrained(saved)
    ElmoTokenizer().save_pretrained(saved)
    stage.mkdir()
    files = complete_repository(saved, stage, "me/head")
    assert f"{head.module}.py" in files
    assert f'get_class_from_dynamic_module("{head.module}.{head.name}", name)' in files["README.md"].read_text("utf-8")
    assert head.name not in str(json.loads(files["config.json"].read_text("utf-8"))["auto_map"])
