"""`resize_token_embeddings` and `vocab_size=`: the word table, the softmax and the ids stay together."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from tests.models import TINY

VOCABULARY = ["<S>", "</S>", "<UNK>", *(f"w{index}" for index in range(17))]
SOFTMAXES = ["full", "sampled", "adaptive"]


def build(kind=ElmoForPreTraining, **fields):
    torch.manual_seed(0)
    return kind(ElmoConfig(**({"token_inputs": "both", "softmax_samples": 5} | TINY | fields))).eval()


def inputs(tokenizer, text="w1 w2 w3 <PAD> w16"):
    batch = tokenizer([text, "w1"], padding=True, return_tensors="pt")
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return {**batch, "labels": labels, "backward_labels": labels}


@pytest.mark.parametrize("softmax", SOFTMAXES)
@pytest.mark.parametrize("token_inputs", ["words", "both"])
def test_a_language_model_has_a_softmax_row_for_each_added_word(tmp_path, token_inputs, softmax):
    tokenizer, model = ElmoTokenizer(VOCABULARY), build(token_inputs=token_inputs, softmax_type=softmax)
    before = inputs(tokenizer)
    with torch.no_grad():
        expected = model(**before)
        probs = model.softmax.log_probs(expected.last_hidden_state[0, :, :4]).exp()

    tokenizer.add_tokens(["new", "newer"])
    model.resize_token_embeddings(len(tokenizer))
    assert model.config.vocab_size == len(tokenizer) == 23
    assert inputs(tokenizer)["input_ids"].equal(before["input_ids"])
    torch.testing.assert_close(model(**before).last_hidden_state, expected.last_hidden_state)
    new_probs = model.softmax.log_probs(expected.last_hidden_state[0, :, :4]).exp()
    assert new_probs.shape[-1] == 23
    # All that the known words have lost is what the new ones have got.
    if softmax != "adaptive":
        torch.testing.assert_close(new_probs[:, :20] / new_probs[:, :20].sum(-1, keepdim=True), probs)

    batch = inputs(tokenizer, "w1 new newer w2")
    assert set(batch["input_ids"].flatten().tolist()) >= {21, 22}
    model.train()(**batch).loss.backward()
    model.eval().save_pretrained(tmp_path)
    loaded = ElmoForPreTraining.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(**batch).loss, model(**batch).loss)


@pytest.mark.parametrize("kind", [ElmoModel, ElmoForTokenClassification, ElmoForSequenceClassification])
def test_an_encoder_and_a_head_grow_and_are_saved(tmp_path, kind):
    tokenizer, model = ElmoTokenizer(VOCABULARY), build(kind, task_layer_size=3)
    tokenizer.add_tokens(["new"])
    model.resize_token_embeddings(len(tokenizer))
    batch = tokenizer("w1 new w2", return_tensors="pt")
    expected = model(**batch)[0]
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(kind.from_pretrained(tmp_path)(**batch)[0], expected)


@pytest.mark.parametrize("words", [None, 20, 21])
def test_the_size_that_it_has_changes_nothing(words):
    model = build()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    table = model.resize_token_embeddings(words)
    assert table is model.elmo.token_encoder.word_embeddings
    assert model.config.vocab_size == model.config.pad_token_id == 20
    for name, tensor in model.state_dict().items():
        assert tensor.equal(before[name])


@pytest.mark.medium
@given(pad=st.sampled_from([2, 5, 19]), words=st.integers(6, 40), softmax=st.sampled_from(SOFTMAXES))
def test_a_resized_model_is_of_its_config(pad, words, softmax):
    model = build(pad_token_id=pad, softmax_type=softmax)
    if words <= pad:
        with pytest.raises(
            ValueError, match=f"`new_num_tokens={words}` would cut off.*`pad_token_id={pad}`.*{pad + 1} or"
        ):
            model.resize_token_embeddings(words)
        words = 20
    else:
        model.resize_token_embeddings(words)
    assert model.config.vocab_size == words
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    fresh = ElmoForPreTraining(ElmoConfig.from_dict(model.config.to_dict()))
    assert shapes == {name: tensor.shape for name, tensor in fresh.state_dict().items()}


def test_a_refused_size_leaves_the_model_as_it_was():
    model = build(softmax_type="sampled", softmax_samples=15, pad_token_id=2)
    with pytest.raises(ValueError, match="`softmax_samples` must be between 1 and"):
        model.resize_token_embeddings(10)
    assert model.config.vocab_size == model.elmo.token_encoder.word_embeddings.num_embeddings == 20


def test_what_has_no_table_and_what_has_two_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"no table of words.*needs none"):
        build(token_inputs="characters").resize_token_embeddings(30)
    head = build(ElmoForTokenClassification, word_vector_size=3, task_layer_size=3)
    with pytest.raises(ValueError, match=r"word vectors of its own.*before"):
        head.resize_token_embeddings(30)
    assert head.config.vocab_size == 20


# ---- vocab_size= at load


@pytest.mark.parametrize("token_inputs", ["characters", "words"])
def test_padding_follows_another_number_of_words(tmp_path, token_inputs):
    model = build(token_inputs=token_inputs)
    model.save_pretrained(tmp_path)
    options = {"vocab_size": 30, "ignore_mismatched_sizes": True}
    larger = ElmoForPreTraining.from_pretrained(tmp_path, **options).eval()
    assert larger.config.pad_token_id == larger.config.vocab_size == 30
    tokenizer = ElmoTokenizer([*VOCABULARY, *(f"v{index}" for index in range(10))])
    batch = tokenizer("w1 v0 v1", return_tensors="pt")
    assert 20 in batch["input_ids"]
    batch.pop("attention_mask")
    assert larger(**batch).last_hidden_state.abs().sum(-1).ne(0).all()
    assert ElmoForPreTraining.from_pretrained(tmp_path, pad_token_id=7, **options).config.pad_token_id == 7


def test_padding_that_was_chosen_stays(tmp_path):
    build(pad_token_id=2).save_pretrained(tmp_path)
    assert ElmoConfig.from_pretrained(tmp_path, vocab_size=30).pad_token_id == 2
    assert ElmoConfig.from_pretrained(tmp_path).pad_token_id == 2
