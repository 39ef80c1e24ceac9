"""BiLSTM, attention and pooling: each sentence by itself, whatever is beside it."""

import pytest
import torch
from torch.testing import assert_close

from elmo_hf.task_layers_elmo import ElmoBiattention, ElmoCrossAttention, ElmoPooling, ElmoTaskLSTM, attend

LENGTHS = [4, 1, 3, 2]
MASK = torch.arange(4) < torch.tensor(LENGTHS).unsqueeze(1)


@pytest.fixture
def words():
    torch.manual_seed(0)
    return torch.randn(4, 4, 3) * MASK.unsqueeze(-1)


def test_a_bilstm_reads_each_sentence_as_if_it_were_alone(words):
    layer = ElmoTaskLSTM(3, 5, num_layers=2).eval()
    expected = torch.nn.LSTM(3, 5, num_layers=2, batch_first=True, bidirectional=True)
    for number, directions in enumerate(zip(layer.forward_layers, layer.backward_layers, strict=True)):
        for direction, suffix in zip(directions, ("", "_reverse"), strict=True):
            for name, parameter in direction.named_parameters():
                setattr(expected, name.replace("l0", f"l{number}") + suffix, parameter)
    found = layer(words, MASK)
    assert found.shape == (4, 4, 10)
    assert not found[~MASK].any()
    for row, length in enumerate(LENGTHS):
        assert_close(found[row, :length], expected(words[row : row + 1, :length])[0][0])


def test_attention_is_the_softmax_of_products_over_the_words_that_are_there(words):
    found = attend(words, words, MASK)
    for row, length in enumerate(LENGTHS):
        some = words[row, :length]
        assert_close(found[row, :length], (some @ some.T).softmax(-1) @ some)
    assert not attend(words, words, torch.zeros_like(MASK)).any()


def test_biattention_integrates_a_word_and_what_it_attends_to(words):
    layer = ElmoBiattention(3, 5).eval()
    met = attend(words, words, MASK)
    assert_close(layer(words, MASK), layer.integrate(torch.cat([words, words - met, words * met], dim=-1), MASK))


def test_the_sentences_of_a_pair_attend_to_each_other_and_to_no_other_pair(words):
    layer = ElmoCrossAttention(3, 5).eval()
    found = layer(words, MASK)
    assert found.shape == (4, 4, 10)
    assert_close(layer(words[2:], MASK[2:]), found[2:])
    changed = words.clone()
    changed[0, 0] += 1
    moved = (layer(changed, MASK) - found).abs().amax(dim=(1, 2))
    assert (moved[:2] > 0).all()
    assert not moved[2:].any()


@pytest.mark.parametrize("kind", ["mean", "max", "attention", "biattentive"])
def test_pooling_is_over_a_sentences_own_words(words, kind):
    torch.manual_seed(1)
    pooling = ElmoPooling(kind, 3)
    found = pooling(words, MASK)
    assert found.shape == (4, pooling.output_size)
    for row, length in enumerate(LENGTHS):
        some = words[row, :length]
        parts = {"mean": some.mean(0), "max": some.amax(0), "min": some.amin(0)}
        if pooling.score is not None:
            parts["attention"] = pooling.score(some).squeeze(-1).softmax(0) @ some
        wanted = ["max", "mean", "min", "attention"] if kind == "biattentive" else [kind]
        assert_close(found[row], torch.cat([parts[name] for name in wanted]))
    assert not pooling(words, torch.zeros_like(MASK)).any()  # no words: zeros
