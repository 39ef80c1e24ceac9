"""Layer 0: distinct words once, unused slots cut, both exact."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.modeling import token_encoder_elmo
from elmo_hf.modeling.token_encoder_elmo import distinct_rows, word_chunks
from tests.models import random_words, reference_of, tiny_model


@given(st.integers(0, 40), st.integers(1, 5), st.integers(0, 2**31))
def test_distinct_rows_are_distinct_and_give_every_row_back(rows, columns, seed):
    matrix = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, (rows, columns)))
    distinct, places = distinct_rows(matrix)
    assert torch.equal(distinct[places], matrix)
    assert len(distinct) == len({tuple(row) for row in matrix.tolist()})


def test_rows_with_equal_hashes_are_still_told_apart(monkeypatch):
    monkeypatch.setattr(token_encoder_elmo, "_factors", lambda columns, device: torch.zeros(columns, dtype=torch.long))
    matrix = torch.tensor([[1, 2], [3, 4], [1, 2]])
    distinct, places = distinct_rows(matrix)
    assert torch.equal(distinct[places], matrix)
    assert len(distinct) == 2


@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("longest", [0, 1, 5, 40, 44, 45, 46, 48])
def test_cutting_unused_slots_changes_no_value(longest, packs):
    """Words of every length around the point where pads no longer fill a window of the widest filter (3)."""
    model = tiny_model()
    model.pack_weights(packs)
    encoder = model.token_encoder
    with torch.no_grad():
        encoder.characters.char_embeddings.weight[261] = 5.0  # a pad that wins many maxima
    rows = random_words(np.random.default_rng(longest), 1, 12, slots=longest + 2)[0]
    rows[0] = torch.tensor([259, *[7] * longest, 260])
    rows = torch.nn.functional.pad(rows, (0, 50 - longest - 2), value=261)
    reference = reference_of(tiny_model())
    reference.arrays["char_embed"][260] = 5.0
    with torch.no_grad():
        vectors = encoder(rows, None)
    expected = np.array([reference.token_vector(row) for row in rows.numpy()])
    np.testing.assert_allclose(vectors.numpy(), expected, rtol=1e-5, atol=1e-5)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 200))
def test_chunks_hold_every_word_once_and_as_many_windows_as_allowed(lengths, windows):
    chunks = word_chunks(lengths, windows)
    assert [place for first, end, _ in chunks for place in range(first, end)] == list(range(len(lengths)))
    for (first, end, longest), following in zip(chunks, [*chunks[1:], None], strict=True):
        assert longest == max(lengths[first:end])
        assert end == first + 1 or (end - first) * (longest + 1) <= windows
        if following is not None:  # the next word had no room
            assert (end + 1 - first) * (max(longest, lengths[end]) + 1) > windows


@given(
    filters=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 9)), min_size=1, max_size=4),
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=9),
    seed=st.integers(0, 9),
)
def test_slots_that_no_word_uses_can_be_cut_off_exactly(filters, lengths, seed):
    torch.manual_seed(seed)
    model = tiny_model(char_filters=[list(of_one_width) for of_one_width in filters])
    encoder = model.token_encoder.characters
    words = [[259, *np.random.default_rng(seed).integers(1, 250, length).tolist(), 260][:50] for length in lengths]
    rows = torch.tensor([[*word, *[261] * (50 - len(word))] for word in words])
    with torch.no_grad():
        chars = encoder.char_embeddings(rows)  # all slots
        expected = encoder.activation(torch.cat([convolution(chars) for convolution in encoder.convolutions], dim=-1))
        for highway in encoder.highways:
            expected = highway(expected)
        torch.testing.assert_close(encoder(rows), expected, rtol=1e-5, atol=1e-5)


def test_short_words_are_convolved_without_the_slots_of_long_ones(monkeypatch):
    monkeypatch.setattr(token_encoder_elmo, "WINDOWS_PER_CHUNK", 40)
    encoder, slots = tiny_model().token_encoder, []
    embed = encoder.characters.char_embeddings
    embed.register_forward_pre_hook(lambda module, inputs: slots.append(inputs[0].shape[1]))
    letters = (30, 1, 8, 2)
    rows = torch.full((4, 50), 261)
    for row, letter_count in zip(rows, letters, strict=True):
        row[: letter_count + 2] = torch.tensor([259, *[7] * letter_count, 260])
    vectors = encoder(rows, None)
    assert slots == [8 + 2 + 3, 30 + 2 + 3]
    for row, vector in zip(rows, vectors, strict=True):
        torch.testing.assert_close(encoder(row.unsqueeze(0), None)[0], vector)


def test_each_distinct_word_goes_through_the_characters_once(monkeypatch):
    model, seen = tiny_model(), []
    model.token_encoder.characters.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    rows = random_words(np.random.default_rng(0), 1, 4)[0, [0, 1, 0, 2, 0, 1]]
    distinct = len({tuple(row) for row in rows.tolist()})
    model(char_ids=rows.unsqueeze(0)).last_hidden_state.sum().backward()
    assert seen == [distinct]


def test_repeated_words_collect_the_gradients_of_all_their_places():
    model = tiny_model()
    row = random_words(np.random.default_rng(0), 1, 1)[0]
    weight = model.token_encoder.projection.weight
    model.token_encoder(row, None).sum().backward()
    once = weight.grad.clone()
    weight.grad = None
    model.token_encoder(row.expand(3, -1), None).sum().backward()
    torch.testing.assert_close(weight.grad, 3 * once)


@pytest.mark.parametrize("windows", [1, 30, 100])
@pytest.mark.parametrize("learns", [True, False])
def test_the_size_of_the_chunks_changes_nothing(windows, learns, monkeypatch):
    encoder, rows = tiny_model().token_encoder, random_words(np.random.default_rng(0), 1, 7)[0]
    with torch.set_grad_enabled(learns):
        expected = encoder(rows, None)
        monkeypatch.setattr(token_encoder_elmo, "WINDOWS_PER_CHUNK", windows)
        torch.testing.assert_close(encoder(rows, None), expected)
