"""A language model from a folder: whole, with its softmax, in the precision that is asked for."""

import pytest
import torch

from elmo_hf import ElmoLanguageModel, ElmoTokenizer
from elmo_hf.errors import ModelError
from tests.language_model.models import tiny_language_model


@pytest.fixture
def stored(tmp_path):
    lm = tiny_language_model()
    for part in (lm.model.float(), lm.tokenizer):
        part.save_pretrained(tmp_path)
    return tmp_path


def test_a_stored_model_gives_the_same_answers(stored):
    expected = tiny_language_model().score("the cat sat")
    lm = ElmoLanguageModel.from_pretrained(stored)
    scores = lm.score("the cat sat")
    assert scores.tokens == expected.tokens
    assert scores.forward == pytest.approx(expected.forward, abs=1e-5)
    assert scores.backward == pytest.approx(expected.backward, abs=1e-5)
    assert lm.score("the cat sat").both_sum == pytest.approx(scores.both_sum)  # with the words' vectors kept


@pytest.mark.parametrize(("dtype", "expected"), [(None, torch.float32), (torch.bfloat16, torch.bfloat16)])
def test_the_precision_is_that_of_the_folder_or_the_one_asked_for(stored, dtype, expected):
    lm = ElmoLanguageModel.from_pretrained(stored, dtype=dtype, device="cpu")
    assert {parameter.dtype for parameter in lm.model.parameters()} == {expected}
    exact = tiny_language_model().score("the cat sat")
    assert lm.score("the cat sat").both_sum == pytest.approx(exact.both_sum, rel=0.1)
    assert lm.next_words("the cat")
    assert lm.static_neighbors("cat")


def test_an_int8_model_answers():
    lm = tiny_language_model()
    exact = lm.score("the cat sat")
    lm.model.float().quantize()
    assert lm.score("the cat sat").both_sum == pytest.approx(exact.both_sum, rel=0.1)


def test_an_encoder_has_no_words_to_say(stored, tmp_path):
    tiny_language_model().model.elmo.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"has no softmax, so it cannot predict words"):
        ElmoLanguageModel.from_pretrained(tmp_path)


def test_a_tokenizer_of_another_model_is_refused():
    with pytest.raises(ModelError, match=r"^The tokenizer has 3 words and the model 10"):
        ElmoLanguageModel(tiny_language_model().model, ElmoTokenizer())


def test_a_name_that_is_no_model_is_refused_in_one_line(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json is missing") as caught:
        ElmoLanguageModel.from_pretrained(tmp_path)
    assert "\n" not in str(caught.value)
