"""ElmoModel: exact whatever the batch, deterministic, explicit about state, clear about bad input."""

import os
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoModel, ElmoStates, ElmoTokenizer
from elmo_hf.modeling import lstm_elmo
from elmo_hf.modeling.modeling_elmo import DIRECTIONS
from tests.models import configurations, random_words, reference_of, tiny_model

EXACT = {"rtol": 1e-5, "atol": 1e-5}


def reference_layers(model, char_ids, word_ids, mask, states=None):
    """All layers `(layers + 1, batch, words, size)` and states of a batch, by the reference, row by row."""
    reference = reference_of(model)
    shape = (model.config.num_hidden_layers + 1, *mask.shape, model.config.hidden_size)
    layers, after = np.zeros(shape), []
    for row in range(len(mask)):
        places = np.flatnonzero(mask[row])
        tokens = [reference.token_vector(char_ids[row, place].numpy(), int(word_ids[row, place])) for place in places]
        row_layers, state = reference.sentence(tokens, states and states[row])
        if len(places):
            layers[:, row, places] = row_layers
        after.append(state)
    return layers, after


def stacked(states, model, part: int) -> torch.Tensor:
    """The reference's states as `(batch, layers, directions, size)`; part 0 is hidden, 1 cell."""
    directions = DIRECTIONS[model.config.directions]
    layers = range(model.config.num_hidden_layers)
    rows = [[[row[d, layer][part] for d in directions] for layer in layers] for row in states]
    return torch.from_numpy(np.array(rows)).to(model.dtype)


@settings(max_examples=60)
@given(
    configurations,
    st.integers(0, 2**32 - 1),
    st.sampled_from([1.0, 4.0]),
    st.sampled_from(["fast", "packed", "plain"]),
    st.data(),
)
def test_any_configuration_equals_the_reference(fields, seed, scale, engine, data):
    model = tiny_model(seed % 1000, scale, **fields)
    if scale > 1:  # large weights without clipping amplify what fp32 rounds beyond 1e-5
        model = model.double()
    generator = np.random.default_rng(seed)
    rows, words = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6))
    char_ids = random_words(generator, rows, words, fields["max_characters_per_token"])
    word_ids = torch.from_numpy(generator.integers(0, 20, (rows, words)))
    mask = torch.from_numpy(generator.random((rows, words)) < 0.8)
    expected, states = reference_layers(model, char_ids, word_ids, mask)
    more, more_states = reference_layers(model, char_ids, word_ids, mask, states)

    inputs = {"attention_mask": mask}
    inputs |= {"char_ids": char_ids} if model.config.uses_characters else {}
    inputs |= {"input_ids": word_ids} if model.config.uses_words else {}
    large = 0 if engine == "packed" else lstm_elmo.LARGE_MATRIX
    environment = {"ELMO_HF_ENGINE": "plain" if engine == "plain" else "fast"}
    with torch.no_grad(), mock.patch.object(lstm_elmo, "LARGE_MATRIX", large), mock.patch.dict(os.environ, environment):
        output = model(**inputs, output_hidden_states=True, output_states=True)
        again = model(**inputs, initial_state=output.states, output_hidden_states=True, output_states=True)
    for actual, layers, after in ((output, expected, states), (again, more, more_states)):
        np.testing.assert_allclose(torch.stack(actual.hidden_states).numpy(), layers, **EXACT)
        np.testing.assert_allclose(actual.last_hidden_state.numpy(), layers.mean(axis=0), **EXACT)
        torch.testing.assert_close(actual.states.hidden, stacked(after, model, 0), **EXACT)
        torch.testing.assert_close(actual.states.cell, stacked(after, model, 1), **EXACT)


@pytest.fixture(scope="module", params=["small", "packed", "plain"])
def original_scale(request):
    """A model whose gates, cells and outputs move as the original's do, smaller; and sentences of 1 to 500 words."""
    large = 0 if request.param == "packed" else lstm_elmo.LARGE_MATRIX
    environment = {"ELMO_HF_ENGINE": "plain" if request.param == "plain" else "fast"}
    with mock.patch.object(lstm_elmo, "LARGE_MATRIX", large), mock.patch.dict(os.environ, environment):
        yield _original_scale()


def _original_scale():
    model = tiny_model(1, scale=1.6, cell_size=96, projection_size=24, num_hidden_layers=2)
    char_ids = random_words(np.random.default_rng(0), 6, 500)
    lengths = [500, 1, 37, 2, 240, 113]
    with torch.no_grad():
        singles = [
            torch.stack(model(char_ids=char_ids[row : row + 1, :length], output_hidden_states=True).hidden_states)[:, 0]
            for row, length in enumerate(lengths)
        ]
    return model, char_ids, lengths, singles


@pytest.mark.parametrize("side", ["right", "left", "both"])
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [3, 1], [5, 4, 2, 2, 1, 0, 3]])
def test_a_sentence_has_the_same_vectors_in_any_batch_order_and_padding(original_scale, side, order):
    model, char_ids, lengths, singles = original_scale
    width = max(lengths[row] for row in order) + 7
    batch = torch.zeros(len(order), width, 50, dtype=torch.long)
    starts = [{"right": 0, "left": width - lengths[row], "both": min(3, width - lengths[row])}[side] for row in order]
    for place, (row, start) in enumerate(zip(order, starts, strict=True)):
        batch[place, start : start + lengths[row]] = char_ids[row, : lengths[row]]
    with torch.no_grad():
        layers = torch.stack(model(char_ids=batch, output_hidden_states=True).hidden_states)
    for place, (row, start) in enumerate(zip(order, starts, strict=True)):
        words = slice(start, start + lengths[row])
        torch.testing.assert_close(layers[:, place, words], singles[row], **EXACT)
        assert layers[:, place, :start].abs().sum() == 0
        assert layers[:, place, start + lengths[row] :].abs().sum() == 0


@pytest.mark.slow
def test_the_full_size_is_exact_too(monkeypatch):
    """The original's sizes and initialisation: two sentences in one batch, each by itself, and on the plain engine."""
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig()).eval()
    char_ids = random_words(np.random.default_rng(0), 2, 200)
    char_ids[1, :170] = 0
    with torch.no_grad():
        batched = torch.stack(model(char_ids=char_ids, output_hidden_states=True).hidden_states)
        for row, words in ((0, char_ids[:1]), (1, char_ids[1:, 170:])):
            single = torch.stack(model(char_ids=words, output_hidden_states=True).hidden_states)[:, 0]
            torch.testing.assert_close(batched[:, row, -words.shape[1] :], single, **EXACT)
        monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
        plain = torch.stack(model(char_ids=char_ids, output_hidden_states=True).hidden_states)
    torch.testing.assert_close(batched, plain, **EXACT)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("token_projection", [True, False])
def test_features_of_the_right_size_may_be_projected_or_not(token_projection):
    model = tiny_model(char_filters=[[1, 4]], token_projection=token_projection)
    assert (model.token_encoder.projection is not None) == token_projection
    char_ids = random_words(np.random.default_rng(0), 1, 4)
    expected, _ = reference_layers(model, char_ids, torch.zeros(1, 4), np.ones((1, 4), dtype=bool))
    with torch.no_grad():
        layers = torch.stack(model(char_ids=char_ids, output_hidden_states=True).hidden_states)
    np.testing.assert_allclose(layers.numpy(), expected, **EXACT)


def test_two_calls_give_the_same_bits(original_scale):
    model, char_ids, *_ = original_scale
    with torch.no_grad():
        first, second = (model(char_ids=char_ids[:3, :50]).last_hidden_state for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.usefixtures("engine")
def test_a_masked_position_is_as_if_it_were_not_there():
    model = tiny_model()
    char_ids = random_words(np.random.default_rng(0), 1, 9)
    keep = torch.tensor([[1, 0, 1, 1, 0, 0, 1, 1, 0]])
    with torch.no_grad():
        holes = model(char_ids=char_ids, attention_mask=keep).last_hidden_state
        packed = model(char_ids=char_ids[:, keep[0].bool()]).last_hidden_state
    torch.testing.assert_close(holes[:, keep[0].bool()], packed, **EXACT)
    assert holes[:, ~keep[0].bool()].abs().sum() == 0


@pytest.mark.usefixtures("engine")
def test_a_row_without_words_keeps_its_state_and_comes_out_zero():
    model = tiny_model()
    char_ids = random_words(np.random.default_rng(0), 2, 4)
    given_state = ElmoStates(torch.randn(2, 2, 2, 4), torch.randn(2, 2, 2, 7))
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]])
    with torch.no_grad():
        output = model(char_ids=char_ids, attention_mask=mask, initial_state=given_state, output_states=True)
    assert torch.equal(output.states.hidden[1], given_state.hidden[1])
    assert torch.equal(output.states.cell[1], given_state.cell[1])
    assert not torch.equal(output.states.cell[0], given_state.cell[0])
    assert output.last_hidden_state[1].abs().sum() == 0


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
def test_a_batch_of_nothing_is_fine(shape):
    output = tiny_model()(
        char_ids=torch.zeros(*shape, 50, dtype=torch.long), output_hidden_states=True, output_states=True
    )
    assert output.last_hidden_state.shape == (*shape, 8)
    assert [layer.abs().sum() for layer in output.hidden_states] == [0, 0, 0]
    assert output.states.cell.shape == (shape[0], 2, 2, 7)


@pytest.mark.usefixtures("engine")
def test_each_sentence_of_a_pair_has_the_vectors_of_the_sentence_alone():
    model, tokenizer = tiny_model(), ElmoTokenizer()
    first, second = "The cat sat on the mat.", "It did not move at all."
    pair = tokenizer([first, "Short."], [second, "A longer second sentence here."], padding=True, return_tensors="pt")
    with torch.no_grad():
        rows = torch.stack(model(**pair, output_hidden_states=True).hidden_states)[:, 0]
        singles = [
            torch.stack(model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states)[:, 0]
            for text in (first, second)
        ]
    split, end = singles[0].shape[1], singles[0].shape[1] + singles[1].shape[1]
    torch.testing.assert_close(rows[:, :split], singles[0], **EXACT)
    torch.testing.assert_close(rows[:, split:end], singles[1], **EXACT)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("piece", [1, 3, 10, 64])
def test_a_document_in_pieces_is_exact_one_direction_at_a_time(piece):
    model = tiny_model(scale=2.0)
    document = random_words(np.random.default_rng(3), 1, 64)
    pieces = document.split(piece, dim=1)
    with torch.no_grad():
        whole = torch.stack(model(char_ids=document, output_hidden_states=True).hidden_states)
        runs = {}
        for direction, order in (("forward", pieces), ("backward", pieces[::-1])):
            state, layers = None, []
            for part in order:
                output = model(
                    char_ids=part,
                    directions=direction,
                    initial_state=state,
                    output_hidden_states=True,
                    output_states=True,
                )
                state = output.states
                layers.append(torch.stack(output.hidden_states))
            runs[direction] = torch.cat(layers if direction == "forward" else layers[::-1], dim=2)
    torch.testing.assert_close(torch.cat([runs["forward"], runs["backward"]], dim=-1), whole, **EXACT)


@pytest.mark.usefixtures("engine")
def test_token_vectors_can_be_given_instead_of_characters():
    model = tiny_model()
    char_ids = random_words(np.random.default_rng(0), 2, 5)
    with torch.no_grad():
        from_characters = model(char_ids=char_ids, output_hidden_states=True)
        tokens = from_characters.hidden_states[0][..., :4]
        from_vectors = model(inputs_embeds=tokens)
    torch.testing.assert_close(from_vectors.last_hidden_state, from_characters.last_hidden_state, **EXACT)


def test_word_ids_do_not_change_the_vectors_of_a_character_model():
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 1, 4)
    single = model(char_ids=char_ids).last_hidden_state
    assert torch.equal(single, model(input_ids=torch.full((1, 4), 7), char_ids=char_ids).last_hidden_state)


def test_without_a_mixer_the_top_layer_is_returned():
    model = ElmoModel(tiny_model().config, add_mixer=False).eval()
    output = model(char_ids=random_words(np.random.default_rng(0), 1, 4), output_hidden_states=True)
    assert not any("mixer" in name for name, _ in model.named_parameters())
    assert torch.equal(output.last_hidden_state, output.hidden_states[-1])


def test_output_is_a_tuple_on_request():
    output = tiny_model()(char_ids=random_words(np.random.default_rng(0), 1, 2), return_dict=False)
    assert isinstance(output, tuple)
    assert len(output) == 1


CHAR_IDS = random_words(np.random.default_rng(0), 2, 3)
BAD_INPUTS = {
    "input_ids alone": ({"input_ids": torch.ones(1, 3, dtype=torch.long)}, "give `char_ids`.*tokenizer"),
    "nothing": ({}, "give `char_ids`"),
    "char_ids of a single sentence": ({"char_ids": CHAR_IDS[0]}, r"`char_ids` must have shape \(batch, words, 50\)"),
    "other slots": ({"char_ids": CHAR_IDS[..., :40]}, r"shape \(batch, words, 50\), found \(2, 3, 40\)"),
    "floats": ({"char_ids": CHAR_IDS.float()}, "`char_ids` must be integers"),
    "unknown character": ({"char_ids": CHAR_IDS + 5}, "between 0 and 261"),
    "mask of another shape": (
        {"char_ids": CHAR_IDS, "attention_mask": torch.ones(2, 4)},
        r"`attention_mask`.*\(2, 3\)",
    ),
    "mask on an empty row": (
        {"char_ids": CHAR_IDS * torch.tensor([1, 1, 0]).view(1, 3, 1), "attention_mask": torch.ones(2, 3)},
        "`attention_mask` is 1 where `char_ids` is an empty row",
    ),
    "types of another shape": ({"char_ids": CHAR_IDS, "token_type_ids": torch.ones(2, 4)}, "`token_type_ids`"),
    "vectors and ids": ({"char_ids": CHAR_IDS, "inputs_embeds": torch.ones(2, 3, 4)}, "not both"),
    "vectors of another size": ({"inputs_embeds": torch.ones(2, 3, 8)}, r"`inputs_embeds`.*\(batch, words, 4\)"),
    "unknown direction": ({"char_ids": CHAR_IDS, "directions": "up"}, "both, forward, backward"),
    "state of another batch": (
        {"char_ids": CHAR_IDS, "initial_state": ElmoStates(torch.zeros(1, 2, 2, 4), torch.zeros(1, 2, 2, 7))},
        r"`initial_state.hidden` must have shape \(2, 2, 2, 4\)",
    ),
    "state of both for one direction": (
        {
            "char_ids": CHAR_IDS,
            "directions": "forward",
            "initial_state": ElmoStates(torch.zeros(2, 2, 2, 4), torch.zeros(2, 2, 2, 7)),
        },
        r"\(2, 2, 1, 4\)",
    ),
    "states of a pair": (
        {"char_ids": CHAR_IDS, "token_type_ids": torch.tensor([[0, 0, 1], [0, 1, 1]]), "output_states": True},
        "as rows of their own",
    ),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_is_refused_with_its_name_and_the_remedy(name):
    inputs, message = BAD_INPUTS[name]
    with pytest.raises(ValueError, match=message):
        tiny_model()(**inputs)


def test_a_model_of_one_direction_refuses_the_other():
    with pytest.raises(ValueError, match="only the forward direction"):
        tiny_model(directions="forward")(char_ids=CHAR_IDS, directions="backward")


def test_a_word_model_refuses_a_mask_on_padding_and_words_out_of_range():
    model = tiny_model(token_inputs="words")
    with pytest.raises(ValueError, match=r"padding \(20\)"):
        model(input_ids=torch.tensor([[3, 20]]), attention_mask=torch.ones(1, 2))
    with pytest.raises(ValueError, match="`input_ids` must be between 0 and 20"):
        model(input_ids=torch.tensor([[3, 21]]))


def test_the_default_configuration_has_the_originals_number_of_parameters():
    with torch.device("meta"):
        model = ElmoModel(ElmoConfig(), add_mixer=False)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 2) == 93.60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", [0, 50], ids=["no cache", "cached words"])
def test_a_compiled_model_gives_the_same(words):
    model, char_ids = tiny_model(), random_words(np.random.default_rng(0), 3, 4)
    model.cache_words(words)
    with torch.no_grad():
        expected = model(char_ids=char_ids).last_hidden_state
        compiled = torch.compile(model, backend="eager")
        torch.testing.assert_close(compiled(char_ids=char_ids).last_hidden_state, expected, **EXACT)


@pytest.mark.usefixtures("engine")
def test_a_projection_may_be_larger_than_the_cells():
    model = tiny_model(cell_size=4, projection_size=9)
    char_ids = random_words(np.random.default_rng(0), rows=1, words=6)
    with torch.no_grad():
        layers = torch.cat(model(char_ids=char_ids, output_hidden_states=True).hidden_states).numpy()
    reference = reference_of(model)
    expected, _ = reference.sentence([reference.token_vector(word) for word in char_ids[0].numpy()])
    np.testing.assert_allclose(layers, expected, rtol=1e-5, atol=1e-5)
