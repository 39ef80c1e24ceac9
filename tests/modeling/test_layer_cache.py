"""Cached layers equal computed ones, in memory and on disk, and never those of other weights."""

import json
from unittest import mock

import pytest
import torch
from torch.testing import assert_close

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
from tests.models import TINY

SENTENCES = ["the cat sat on a mat", "a dog", "the cat", "a dog"]


def tagger(seed: int = 0, **fields) -> ElmoForTokenClassification:
    torch.manual_seed(seed)
    return ElmoForTokenClassification(ElmoConfig(**(TINY | {"num_labels": 3, "task_layer_size": 3} | fields))).eval()


def batch_of(sentences, side: str = "right"):
    return ElmoTokenizer()(sentences, padding=True, padding_side=side, return_tensors="pt")


@pytest.fixture(params=["memory", "disk"])
def folder(request, tmp_path):
    return str(tmp_path / "layers") if request.param == "disk" else None


def test_kept_layers_equal_computed_ones_whatever_the_batch(folder):
    model, plain = tagger(output_hidden_states=True), tagger(output_hidden_states=True)
    cache = model.cache_layers(folder)
    with torch.no_grad():
        for sentences, side in [
            (SENTENCES, "right"),
            (SENTENCES[::-1], "left"),
            (["a new one", *SENTENCES[:2]], "right"),
        ]:
            output, expected = model(**batch_of(sentences, side)), plain(**batch_of(sentences, side))
            for layer, wanted in zip(output.hidden_states, expected.hidden_states, strict=True):
                assert_close(layer, wanted, atol=1e-6, rtol=0)
            assert_close(output.logits, expected.logits, atol=1e-6, rtol=0)
    assert len(cache) == 4  # each distinct sentence once


def test_a_sentence_is_read_by_the_bilm_once(folder):
    model = tagger()
    model.cache_layers(folder)
    with mock.patch.object(type(model.elmo), "forward", autospec=True, side_effect=type(model.elmo).forward) as forward:
        for _ in range(3):
            model(**batch_of(SENTENCES))
        model(**batch_of(["a dog", "a new one"]))
    assert [len(call.args[2]) for call in forward.call_args_list] == [3, 1]  # rows


def test_pairs_are_kept_apart_from_single_sentences():
    model, plain = tagger(), tagger()
    model.cache_layers()
    for texts in (("a cat", "a mat"), ("a cat a mat",), ("a cat", "a mat")):
        batch = ElmoTokenizer()(*texts, return_tensors="pt")
        with torch.no_grad():
            assert_close(model(**batch).logits, plain(**batch).logits, atol=1e-6, rtol=0)


def test_training_with_and_without_it_has_the_same_losses(folder):
    losses = []
    for is_kept in (False, True):
        model = tagger(elmo_dropout=0.3, tag_decoder="crf").train()
        if is_kept:
            model.cache_layers(folder)
        optimizer = torch.optim.SGD(model.param_groups(0.5))
        torch.manual_seed(1)
        losses.append([])
        for step in range(6):
            batch = batch_of(SENTENCES[step % 2 :])
            special = (batch["input_ids"] == 0) | (batch["input_ids"] == 1) | (batch["attention_mask"] == 0)
            optimizer.zero_grad()
            loss = model(**batch, labels=(batch["char_ids"][..., 1] % 3).masked_fill(special, -100)).loss
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert losses[0][-1] < losses[0][0]


def test_a_limit_stops_it_from_growing_and_changes_no_answer():
    model, plain = tagger(), tagger()
    cache = model.cache_layers(max_bytes=1000)
    with torch.no_grad():
        for _ in range(2):
            assert_close(model(**batch_of(SENTENCES)).logits, plain(**batch_of(SENTENCES)).logits, atol=1e-6, rtol=0)
    assert 0 < cache.num_bytes <= 1000
    assert len(cache) < 3


def test_a_changed_bilm_is_noticed_and_one_loaded_again_is_not_mistaken(folder):
    model = tagger()
    model.cache_layers(folder)
    model(**batch_of(SENTENCES))
    model.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()})
    model(**batch_of(SENTENCES))  # the same weights
    with torch.no_grad():
        next(model.elmo.parameters()).add_(1)
    with pytest.raises(ValueError, match="has changed"):
        model(**batch_of(SENTENCES))


def test_a_tuned_bilm_has_nothing_to_keep():
    with pytest.raises(ValueError, match="freeze_bilm"):
        tagger(freeze_bilm=False).cache_layers()


# ---- on disk


def test_another_run_finds_what_was_kept(tmp_path):
    first, second = tagger(), tagger()
    first.cache_layers(tmp_path / "layers")
    first(**batch_of(SENTENCES))
    cache = second.cache_layers(tmp_path / "layers")
    assert len(cache) == 3
    with mock.patch.object(type(second.elmo), "forward", side_effect=AssertionError):
        second(**batch_of(SENTENCES))


def test_a_run_that_stores_nothing_leaves_no_file_and_counts_what_others_stored(tmp_path):
    first = tagger()
    cache = first.cache_layers(tmp_path / "layers")
    first(**batch_of(SENTENCES))
    files = sorted(tmp_path.rglob("*"))
    for _ in range(3):
        other = tagger()
        assert other.cache_layers(tmp_path / "layers", max_bytes=cache.num_bytes).num_bytes == cache.num_bytes
        other(**batch_of([*SENTENCES, "one more"]))  # there is no room for it
    assert sorted(tmp_path.rglob("*")) == files


def test_layers_of_another_bilm_and_other_files_are_refused(tmp_path):
    tagger().cache_layers(tmp_path / "layers")
    with pytest.raises(ValueError, match="another biLM"):
        tagger(seed=1).cache_layers(tmp_path / "layers")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        tagger().cache_layers(tmp_path / "other")


def test_what_a_kill_has_torn_is_read_again_from_the_text(tmp_path):
    folder = tmp_path / "layers"
    model, plain = tagger(), tagger()
    model.cache_layers(folder)
    model(**batch_of(SENTENCES))
    (data,), (index,) = folder.glob("*.layers"), folder.glob("*.index")
    data.write_bytes(data.read_bytes()[:-5])
    index.write_bytes(index.read_bytes()[:-3])
    again = tagger()
    cache = again.cache_layers(folder)
    assert len(cache) < 3
    with torch.no_grad():
        assert_close(again(**batch_of(SENTENCES)).logits, plain(**batch_of(SENTENCES)).logits, atol=1e-6, rtol=0)
    assert json.loads((folder / "bilm.json").read_text())["bilm"]


def test_the_same_weights_with_another_clip_are_another_bilm(tmp_path):
    tagger().cache_layers(str(tmp_path / "layers"))
    with pytest.raises(ValueError, match="another biLM"):
        tagger(cell_clip=0.1).cache_layers(str(tmp_path / "layers"))


def test_processes_that_begin_together_share_a_folder(tmp_path):
    """The mark of another process may come at any moment, and a kill may leave its temporary file."""
    folder = tmp_path / "layers"
    folder.mkdir()
    (folder / "half-written.tmp").write_text("{")
    (folder / "other.layers").write_bytes(b"")
    (folder / "other.index").write_bytes(b"")
    assert len(tagger().cache_layers(str(folder))) == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_of_half_precision_are_kept_as_they_are(folder, dtype):
    model, plain = tagger().to(dtype), tagger().to(dtype)
    model.cache_layers(folder)
    for _ in range(2):
        assert_close(model(**batch_of(SENTENCES)).logits, plain(**batch_of(SENTENCES)).logits, atol=1e-6, rtol=0)


def test_layers_are_kept_only_as_long_as_the_bilm_is_frozen():
    model = tagger()
    model.cache_layers()
    model.elmo.unfreeze_bilm()
    with pytest.raises(ValueError, match="if the biLM is frozen"):
        model(**batch_of(SENTENCES))
