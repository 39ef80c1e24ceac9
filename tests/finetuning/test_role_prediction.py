"""Roles of predicates that are marked, listed, or found by a tagger."""

import pytest
import torch

from elmo_hf import ElmoConfig, ElmoForSemanticRoles, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.data.roles import RoleSentence
from elmo_hf.errors import ModelError, TextError
from elmo_hf.finetuning import mark_found_predicates, predict_roles, read_marked_predicates
from elmo_hf.finetuning.role_prediction import predicate_labels
from tests.models import TINY

TOKENIZER = ElmoTokenizer()


def tagger(*labels: str) -> ElmoForTokenClassification:
    torch.manual_seed(0)
    config = ElmoConfig(**TINY, id2label=dict(enumerate(labels)), task_layer_size=3)
    return ElmoForTokenClassification(config).eval()


def test_marked_words_are_the_predicates():
    expected = RoleSentence(["She", "sat", "down", "and", "read", "."], [1, 4])
    assert read_marked_predicates("She **sat** down and **read**.", TOKENIZER) == expected
    assert read_marked_predicates("She **sat** down and **read** .", None) == expected
    assert read_marked_predicates("Yes.", TOKENIZER) == RoleSentence(["Yes", "."], [])
    with pytest.raises(TextError, match="mark single words"):
        read_marked_predicates("She **sat down**.", TOKENIZER)


def test_a_tagger_finds_the_predicates_of_sentences_that_have_none_marked():
    model = tagger("VERB", "NOUN")
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([1.0, 0.0]))  # every word is a verb
    sentences = [RoleSentence(["a", "b"], []), RoleSentence(["c", "d"], [1]), RoleSentence([], [])]
    marked = list(mark_found_predicates(model, TOKENIZER, iter(sentences)))
    assert [sentence.predicates for sentence in marked] == [[0, 1], [1], []]
    marked = list(mark_found_predicates(model, TOKENIZER, sentences, ["NOUN"]))
    assert [sentence.predicates for sentence in marked] == [[], [1], []]


def test_the_tags_of_verbs_are_known_and_others_are_named():
    assert predicate_labels(tagger("VERB", "AUX", "V", "VBZ", "VB", "NOUN")) == {"VERB", "V", "VBZ", "VB"}
    assert predicate_labels(tagger("x", "y"), ["x"]) == {"x"}
    with pytest.raises(ModelError, match="--predicate-tag"):
        predicate_labels(tagger("x", "y"))
    with pytest.raises(ModelError, match="no tag 'VERV'"):
        predicate_labels(tagger("VERB", "NOUN"), ["VERV"])


@pytest.mark.parametrize("size", [1, 2, 100])
def test_roles_come_in_the_order_of_the_sentences_whatever_the_batch(size):
    torch.manual_seed(0)
    labels = dict(enumerate(["O", "B-A0", "I-A0", "B-V"]))
    model = ElmoForSemanticRoles(ElmoConfig(**TINY, id2label=labels, task_layer_size=3)).eval()
    torch.nn.init.normal_(model.classifier.weight, std=5.0)
    sentences = [
        RoleSentence(["a", "b", "c"], [0, 2]), RoleSentence([], []), RoleSentence(["d"], []),
        RoleSentence(["e", "f"], [1]), RoleSentence(["g", "h", "i", "j"], [0, 1, 2]),
    ]  # fmt: skip
    sentences_with_roles = list(predict_roles(model, TOKENIZER, iter(sentences), batch_size=size))
    assert [sentence[:2] for sentence in sentences_with_roles] == [sentence[:2] for sentence in sentences]
    assert [len(sentence.tags) for sentence in sentences_with_roles] == [2, 0, 0, 1, 3]
    batch = TOKENIZER(["g", "h", "i", "j"], is_split_into_words=True, return_tensors="pt")
    expected = model(**batch, predicate_mask=torch.tensor([[0, 0, 1, 0, 0, 0]])).logits[0, 1:-1].argmax(-1).tolist()
    assert sentences_with_roles[4].tags[1] == [labels[label] for label in expected]
