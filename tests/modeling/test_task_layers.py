"""BiLSTM and attention: each sentence is read by itself, whatever else is in the batch."""

import pytest
import torch
from torch.testing import assert_close

from elmo_hf.modeling.task_layers_elmo import (
    ElmoAlternatingLSTM,
    ElmoBiattention,
    ElmoCrossAttention,
    ElmoHighwayLSTMLayer,
    ElmoMaxoutClassifier,
    ElmoPairDropout,
    ElmoTaskLSTM,
    ElmoTaskLSTMLayer,
    ElmoTextDropout,
    attend,
    masked_softmax,
)

LENGTHS = [4, 1, 3, 2]
MASK = torch.arange(4) < torch.tensor(LENGTHS).unsqueeze(1)


@pytest.fixture
def words():
    torch.manual_seed(0)
    return torch.randn(4, 4, 3) * MASK.unsqueeze(-1)


def test_a_bilstm_reads_each_sentence_as_if_it_were_alone(words):
    layer = ElmoTaskLSTM(3, 5, num_layers=2).eval()
    expected = torch.nn.LSTM(3, 5, num_layers=2, batch_first=True, bidirectional=True)
    for index, directions in enumerate(zip(layer.forward_layers, layer.backward_layers, strict=True)):
        for direction, suffix in zip(directions, ("", "_reverse"), strict=True):
            for name, parameter in direction.named_parameters():
                setattr(expected, name.replace("l0", f"l{index}") + suffix, parameter)
    output = layer(words, MASK)
    assert output.shape == (4, 4, 10)
    assert not output[~MASK].any()
    for row, length in enumerate(LENGTHS):
        assert_close(output[row, :length], expected(words[row : row + 1, :length])[0][0])


def test_attention_is_the_softmax_of_products_over_the_words_that_are_there(words):
    output = attend(words, words, MASK)
    for row, length in enumerate(LENGTHS):
        some = words[row, :length]
        assert_close(output[row, :length], (some @ some.T).softmax(-1) @ some)
    assert not attend(words, words, torch.zeros_like(MASK)).any()


def test_biattention_integrates_a_word_and_what_it_attends_to(words):
    layer = ElmoBiattention(3, 5).eval()
    met = attend(words, words, MASK)
    assert_close(layer(words, MASK), layer.integrate(torch.cat([words, words - met, words * met], dim=-1), MASK))


def test_the_sentences_of_a_pair_attend_to_each_other_and_to_no_other_pair(words):
    layer = ElmoCrossAttention(3, 5).eval()
    output = layer(words, MASK)
    assert output.shape == (4, 4, 10)
    assert_close(layer(words[2:], MASK[2:]), output[2:])
    changed = words.clone()
    changed[0, 0] += 1
    moved = (layer(changed, MASK) - output).abs().amax(dim=(1, 2))
    assert (moved[:2] > 0).all()
    assert not moved[2:].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_weights_are_multiplied_in_fp32_on_a_cpu(words, dtype):
    layer = ElmoCrossAttention(3, 5).to(dtype).eval()
    output, expected = layer(words, MASK), ElmoCrossAttention(3, 5).eval()
    expected.load_state_dict(layer.state_dict())
    assert output.dtype == torch.float32
    assert_close(output, expected(words, MASK))


def test_a_layer_equals_that_of_torch_and_has_its_gradients(words):
    layer, expected = ElmoTaskLSTMLayer(3, 5), torch.nn.LSTM(3, 5, batch_first=True)
    expected.load_state_dict(layer.state_dict())
    outputs = layer(words), expected(words)[0]
    assert torch.equal(*outputs)
    for output in outputs:
        output.square().sum().backward()
    for parameter, wanted in zip(layer.parameters(), expected.parameters(), strict=True):
        assert torch.equal(parameter.grad, wanted.grad)


def test_a_highway_layer_is_the_formula_of_the_paper(words):
    layer = ElmoHighwayLSTMLayer(3, 5)
    layer.initialize()
    torch.nn.init.normal_(layer.bias)
    output = layer(words)
    rows, places = layer.input_weight.split(5), layer.recurrent_weight.split(5)
    state = cell = torch.zeros(4, 5)
    for step in range(4):
        x = words[:, step]
        i, f, c, o, r = (
            x @ row.T + state @ place.T + bias
            for row, place, bias in zip(rows[:5], places, layer.bias.split(5), strict=True)
        )
        cell = i.sigmoid() * c.tanh() + f.sigmoid() * cell
        state = r.sigmoid() * (o.sigmoid() * cell.tanh()) + (1 - r.sigmoid()) * (x @ rows[5].T)
        assert_close(output[:, step], state)


def test_alternating_layers_read_each_sentence_as_if_it_were_alone(words):
    layers = ElmoAlternatingLSTM(3, 5, num_layers=3).eval()
    for layer in layers.layers:
        layer.initialize()
    output = layers(words, MASK)
    assert not output[~MASK].any()
    first, second, third = layers.layers
    for row, length in enumerate(LENGTHS):
        some = first(words[row : row + 1, :length])
        some = third(second(some.flip(1)).flip(1))
        assert_close(output[row, :length], some[0])


def test_a_highway_layer_drops_the_same_values_of_the_state_at_every_word():
    layer = ElmoHighwayLSTMLayer(3, 5, dropout=0.5).train()
    layer.initialize()
    same = torch.ones(2, 1, 3).expand(2, 6, 3)
    torch.manual_seed(0)
    output = layer(same)
    torch.manual_seed(0)
    kept = torch.nn.functional.dropout(torch.ones(2, 5), 0.5)
    with torch.no_grad():
        layer.eval()
        layer.recurrent_weight.copy_(layer.recurrent_weight * kept[0])
        assert_close(layer(same)[0], output[0])


def test_a_maxout_layer_takes_the_largest_of_its_linear_functions():
    torch.manual_seed(0)
    layer, texts = ElmoMaxoutClassifier(8, 3).eval(), torch.randn(5, 8)
    expected = texts
    for linear in layer.layers:
        pieces = linear.weight.unflatten(0, (-1, 4)).unbind(1), linear.bias.unflatten(0, (-1, 4)).unbind(1)
        outputs = [expected @ weight.T + bias for weight, bias in zip(*pieces, strict=True)]
        expected = torch.stack(outputs).max(dim=0).values
    assert [linear.out_features // 4 for linear in layer.layers] == [4, 2, 3]
    assert_close(layer(texts), expected)


def test_dropout_of_texts_drops_the_same_dimensions_in_all_words_and_keeps_the_mean():
    torch.manual_seed(0)
    dropout, words = ElmoTextDropout(0.5), torch.ones(6, 5, 400)
    dropped = dropout.train()(words)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert dropped.mean().item() == pytest.approx(1, abs=0.1)
    assert torch.equal(dropout.eval()(words), words)


def test_the_dropout_of_pairs_drops_the_same_dimensions_in_all_words_of_both_texts():
    torch.manual_seed(0)
    dropout, words = ElmoPairDropout(0.5), torch.ones(6, 5, 40)
    dropped = dropout.train()(words)
    pairs = dropped.reshape(3, 10, 40)
    assert torch.equal(pairs, pairs[:, :1].expand_as(pairs))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(pairs[0], pairs[1])
    assert torch.equal(dropout.eval()(words), words)
    assert dropout.train()(words[:0]).shape == (0, 5, 40)


def test_a_dropped_word_is_still_nearest_to_itself_in_the_other_text():
    """The reason for that dropout: with a mask per word, attention loses the words that both texts have."""
    torch.manual_seed(0)
    text = torch.randn(1, 12, 64)
    pair = torch.cat([text, text.flip(1)])
    first, second = ElmoPairDropout(0.5).train()(pair)
    assert torch.equal(first, second.flip(0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_masked_softmax_has_at_least_the_precision_of_its_scores(dtype):
    scores, mask = torch.tensor([[1.0, 2.0, 3.0]], dtype=dtype), torch.tensor([[True, True, False]])
    shares = scores[:, :2].double().softmax(dim=-1)
    expected = torch.cat([shares, torch.zeros(1, 1)], dim=1).to(dtype)
    assert_close(masked_softmax(scores, mask), expected, rtol=torch.finfo(dtype).eps, atol=0)
