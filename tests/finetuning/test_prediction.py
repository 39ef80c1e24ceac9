"""Predictions: in order, in any batch size, as CoNLL and JSON lines."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.errors import ModelError, TextError
from elmo_hf.finetuning import LabelledText, TaggedSentence, as_conll, as_json, load_head, predict_labels, predict_tags
from elmo_hf.finetuning.prediction import predict_scored_tags
from tests.finetuning.toy import OTHERS, sentences, texts, write_bilm
from tests.models import TINY

TOKENIZER = ElmoTokenizer()


def head(kind, **fields):
    torch.manual_seed(0)
    model = kind(ElmoConfig(**TINY, num_labels=3, task_layer_size=3, **fields)).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(20)
    return model


@pytest.mark.parametrize("size", [1, 3, 100])
def test_tags_come_in_the_order_of_the_sentences_whatever_the_batch(size):
    model, words = head(ElmoForTokenClassification), [sentence.words for sentence in sentences(50, seed=0)]
    tagged = list(predict_tags(model, TOKENIZER, iter(words), batch_size=size))
    assert [sentence.words for sentence in tagged] == words
    for sentence in tagged[:5]:
        batch = TOKENIZER(sentence.words, is_split_into_words=True, return_tensors="pt")
        expected = model(**batch).logits[0, 1:-1].argmax(-1).tolist()
        assert sentence.tags == [model.config.id2label[label_id] for label_id in expected]


def test_scored_tags_have_the_probability_of_each_tag():
    model = head(ElmoForTokenClassification)
    ((tagged, scores),) = predict_scored_tags(model, TOKENIZER, [["a", "bank"]])
    logits = model(**TOKENIZER([["a", "bank"]], is_split_into_words=True, return_tensors="pt")).logits[0, 1:-1]
    assert len(tagged.tags) == len(scores) == 2
    assert scores == pytest.approx(logits.softmax(dim=-1).amax(dim=-1).tolist(), abs=1e-6)


def test_predictions_are_computed_without_gradients():
    """Also those that are asked for after the call: they are lazy."""
    tagger, classifier = head(ElmoForTokenClassification), head(ElmoForSequenceClassification)
    grad_enabled = []
    for model in (tagger, classifier):
        model.register_forward_hook(lambda *_: grad_enabled.append(torch.is_grad_enabled()))
    list(predict_tags(tagger, TOKENIZER, [["a", "bank"]]))
    list(predict_labels(classifier, TOKENIZER, [LabelledText("a bank")]))
    assert grad_enabled == [False, False]


def test_labels_come_with_probabilities():
    model, examples = head(ElmoForSequenceClassification), texts(20, seed=0)
    for example, result in zip(examples, predict_labels(model, TOKENIZER, examples, batch_size=7), strict=True):
        assert result.example == example
        assert sum(result.scores.values()) == pytest.approx(1)
        assert result.label == max(result.scores, key=result.scores.get)
    several = head(ElmoForSequenceClassification, problem_type="multi_label_classification")
    (result,) = predict_labels(several, TOKENIZER, examples[:1])
    assert result.label == [name for name, score in result.scores.items() if score > 0.5]
    scorer = ElmoForSequenceClassification(ElmoConfig(**TINY, num_labels=1, problem_type="regression")).eval()
    (result,) = predict_labels(scorer, TOKENIZER, examples[:1])
    assert isinstance(result.label, float)
    assert result.scores == {}


@pytest.mark.parametrize(
    ("fields", "example", "match"),
    [
        ({"text_pairs": True}, LabelledText("a bank"), "pairs of texts, and 'a bank' has no second text"),
        ({}, LabelledText("a bank", "a river"), "single texts, and 'a bank' is one of a pair"),
    ],
)
def test_single_texts_and_pairs_are_not_taken_for_each_other(fields, example, match):
    model = head(ElmoForSequenceClassification, **fields)
    with pytest.raises(TextError, match=match):
        list(predict_labels(model, TOKENIZER, [LabelledText(""), example]))


def test_a_model_in_training_mode_predicts_nothing():
    for predict, kind in ((predict_tags, ElmoForTokenClassification), (predict_labels, ElmoForSequenceClassification)):
        with pytest.raises(ModelError, match=r"training mode.*call model.eval\(\) first"):
            predict(head(kind).train(), TOKENIZER, [])


def test_results_are_written_as_conll_and_json():
    sentence = TaggedSentence(["Paris", "Ü"], ["B-x", "O"])
    assert as_conll(sentence) == "Paris\tB-x\nÜ\tO\n\n"
    assert json.loads(as_json(sentence)) == {"words": ["Paris", "Ü"], "tags": ["B-x", "O"]}
    model = head(ElmoForSequenceClassification, text_pairs=True)
    (result,) = predict_labels(model, TOKENIZER, [LabelledText("a", "b")])
    assert json.loads(as_json(result)).keys() == {"text", "text_pair", "label", "scores"}


def test_what_is_no_head_is_refused(tmp_path):
    with pytest.raises(ModelError, match="not a model with a head"):
        load_head(write_bilm(tmp_path / "bilm"))
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_head(str(tmp_path / "nothing"))


def test_a_tokenizer_that_pads_on_the_left_gives_the_same_tags():
    model, words = head(ElmoForTokenClassification), [sentence.words for sentence in sentences(20, seed=0)]
    left = ElmoTokenizer(padding_side="left")
    assert list(predict_tags(model, left, words)) == list(predict_tags(model, TOKENIZER, words))


@pytest.mark.medium
@settings(max_examples=20)
@given(rows=st.lists(st.lists(st.sampled_from(OTHERS), max_size=3), max_size=8), size=st.integers(1, 4))
def test_every_sentence_has_one_record_those_without_words_too(rows, size):
    tagged = list(predict_tags(head(ElmoForTokenClassification), TOKENIZER, rows, size))
    assert [sentence.words for sentence in tagged] == rows
    assert [len(sentence.tags) for sentence in tagged] == [len(words) for words in rows]
    examples = [LabelledText(" ".join(words)) for words in rows]
    labelled = list(predict_labels(head(ElmoForSequenceClassification), TOKENIZER, examples, size))
    assert [result.example for result in labelled] == examples
    assert [result.label is None for result in labelled] == [not words for words in rows]


def test_an_empty_record_is_written_as_one():
    assert as_conll(TaggedSentence([], [])) == "\n"
    (result,) = predict_labels(head(ElmoForSequenceClassification), TOKENIZER, [LabelledText("")])
    assert json.loads(as_json(result)) == {"text": "", "label": None}


def saved_head(folder) -> str:
    model = head(ElmoForTokenClassification)
    model.save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return str(folder)


def test_a_head_is_loaded_in_the_precision_that_is_asked_for(tmp_path):
    folder = saved_head(tmp_path / "head")
    assert load_head(folder, precision="bf16")[0].dtype == torch.bfloat16
    assert load_head(folder)[0].dtype == load_head(folder, precision="fp32")[0].dtype == torch.float32
    model, tokenizer = load_head(folder, precision="int8", device="cpu")
    assert model.elmo.layers[0].is_quantized
    model.save_pretrained(tmp_path / "int8")
    tokenizer.save_pretrained(tmp_path / "int8")
    for precision in (None, "int8"):
        assert load_head(str(tmp_path / "int8"), precision=precision)[0].elmo.layers[0].is_quantized
    with pytest.raises(ModelError, match="was saved as int8 and cannot be loaded in fp32"):
        load_head(str(tmp_path / "int8"), precision="fp32")


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta"])
def test_a_device_that_is_not_here_is_refused(tmp_path, device):
    with pytest.raises(ModelError, match=rf"The device '{device}' .*is not available"):
        load_head(saved_head(tmp_path / "head"), device=device)
