"""Taggers without their biLM: small, and the same as the whole model."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoModel, ElmoTokenizer, default_model
from elmo_hf.errors import ModelError
from elmo_hf.space.make_heads import RECIPES, card_of, make_head
from elmo_hf.space.stored_heads import (
    FOLDER,
    StoredHead,
    load_stored_head,
    read_head,
    save_head,
    sha256,
    stored_heads_of,
)
from tests.conftest import ROOT
from tests.models import TINY

FIELDS = {"num_task_layers": 1, "task_layer_size": 3, "tag_decoder": "crf"}
LABELS = ["O", "B-x", "I-x"]


@pytest.fixture
def head() -> StoredHead:
    return StoredHead("Things", "tiny", "0" * 64, LABELS, FIELDS, "a corpus", "CC BY 4.0", {"f1": 0.5})


@pytest.fixture
def tagger() -> ElmoForTokenClassification:
    torch.manual_seed(0)
    config = ElmoConfig(**(TINY | FIELDS | {"id2label": dict(enumerate(LABELS))}))
    return ElmoForTokenClassification(config).eval()


def test_a_stored_head_on_its_bilm_gives_what_the_whole_tagger_gives(head, tagger, tmp_path):
    with torch.no_grad():
        for name, parameter in tagger.named_parameters():
            if not name.startswith("elmo."):
                parameter.copy_(parameter.half())
    save_head(tmp_path, head, tagger)
    assert read_head(tmp_path) == head
    with safe_open(tmp_path / "head.safetensors", "pt") as file:
        assert not [name for name in file.keys() if name.startswith("elmo.")]  # noqa: SIM118
    loaded = load_stored_head(tmp_path, tagger.elmo)
    assert loaded.elmo is tagger.elmo
    batch = ElmoTokenizer()(["The cat sat.", "Hello"], padding=True, return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(loaded(**batch).logits, tagger(**batch).logits, rtol=0, atol=0)


def test_weights_that_do_not_fit_the_description_or_half_precision_are_refused(head, tagger, tmp_path):
    save_head(tmp_path, head, tagger)
    (tmp_path / "head.json").write_text(json.dumps(vars(head) | {"fields": FIELDS | {"tag_decoder": "softmax"}}))
    with pytest.raises(ModelError, match="damaged: crf"):
        load_stored_head(tmp_path, tagger.elmo)
    with torch.no_grad():
        tagger.classifier.bias.fill_(1e6)
    with pytest.raises(ModelError, match="too large for half precision"):
        save_head(tmp_path, head, tagger)


def test_the_heads_of_the_page_are_small_and_belong_to_the_model_that_comes_with_the_package():
    """If this fails after the model has changed: `python -m elmo_hf.space.make_heads CORPORA`."""
    folders = stored_heads_of(Path(default_model()))
    assert {folder.name for folder in folders} == RECIPES.keys()
    for folder in folders:
        assert sum(path.stat().st_size for path in folder.iterdir()) < 3_000_000
        assert (folder / "README.md").read_text("utf-8") == card_of(read_head(folder))
        metrics = ", ".join(f"{name} {value:.4f}" for name, value in read_head(folder).results.items())
        head = read_head(folder)
        assert f"| {head.title} | {head.data} | {head.license} | {metrics} |" in (ROOT / "docs/space.md").read_text(
            "utf-8"
        )
        assert read_head(folder).license in (folder / "README.md").read_text("utf-8")
    assert {path.name for path in FOLDER.iterdir()} == RECIPES.keys()


def test_a_folder_without_weights_has_no_heads(tmp_path):
    assert stored_heads_of(tmp_path) == []


@pytest.mark.medium
def test_a_head_is_made_with_one_call(tmp_path):
    torch.manual_seed(0)
    ElmoModel(ElmoConfig(**TINY)).save_pretrained(tmp_path / "bilm")
    ElmoTokenizer().save_pretrained(tmp_path / "bilm")
    (tmp_path / "toy").mkdir()
    for name in ("train.conll", "dev.conll", "test.conll"):
        (tmp_path / "toy" / name).write_text("Anna\tB-person\nsat\tO\n\nPaul\tB-person\nran\tO\n")
    recipe = RECIPES["entities"]._replace(folder="toy", files=("train.conll", "dev.conll", "test.conll"), epochs=1)
    make_head(recipe, tmp_path, str(tmp_path / "bilm"), tmp_path / "head")
    head = read_head(tmp_path / "head")
    assert (head.bilm, head.labels) == ("bilm", ["O", "B-person"])
    assert head.bilm_sha256 == sha256(tmp_path / "bilm" / "model.safetensors")
    assert head.results.keys() == {"precision", "recall", "f1"}
    load_stored_head(tmp_path / "head", ElmoModel.from_pretrained(tmp_path / "bilm"))
