"""ElmoForPreTraining: the losses of both language models, exact in any configuration; bad input, and files."""

import contextlib
import inspect

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForPreTraining
from transformers.utils import logging

from elmo_hf import ElmoForPreTraining, ElmoModel, ElmoStates, ElmoTokenizer
from elmo_hf.modeling.modeling_elmo import DIRECTIONS
from tests.modeling.pretraining_models import (
    KINDS,
    NO_LABEL,
    ONE_ENGINE,
    SLOTS,
    VOCAB,
    gradients_of,
    mask_of,
    masked,
    pretraining_model,
    random_batch,
    random_states,
    reversed_rows,
)
from tests.models import configurations, random_words, reference_of, tiny_model


def word_losses(model, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Each prediction's loss, `(batch, words)`, from one direction's top layer, by the softmax's probabilities."""
    log_probs = model.softmax.log_probs(vectors.flatten(0, 1)).view(*labels.shape, -1)
    return -log_probs.gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)


# ---- What the losses are.


def reference_losses(model, char_ids, word_ids, mask, labels) -> dict[int, float]:
    """Each direction's mean loss, by the reference and a softmax in NumPy, row by row."""
    reference = reference_of(model.elmo)
    weight, bias = (parameter.detach().numpy() for parameter in (model.softmax.weight, model.softmax.bias))
    directions, size = DIRECTIONS[model.config.directions], model.config.output_size
    losses: dict[int, list[float]] = {direction: [] for direction in directions}
    for row in range(len(mask)):
        places = np.flatnonzero(mask[row])
        tokens = [reference.token_vector(char_ids[row, place].numpy(), int(word_ids[row, place])) for place in places]
        if not tokens:
            continue
        top = reference.sentence(tokens)[0][-1]
        for half, direction in enumerate(directions):
            logits = top[:, half * size : (half + 1) * size] @ weight.T + bias
            for word, place in enumerate(places):
                if (label := int(labels[direction][row, place])) != NO_LABEL:
                    losses[direction].append(np.log(np.exp(logits[word]).sum()) - logits[word, label])
    return {direction: np.mean(values) if values else 0.0 for direction, values in losses.items()}


@pytest.mark.usefixtures("engine")
@settings(max_examples=25, suppress_health_check=ONE_ENGINE)
@given(configurations, st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 5))
def test_any_configuration_has_the_losses_of_the_reference(fields, seed, rows, words):
    """Masked positions and positions without a label anywhere; the label of a position is not shifted."""
    model = pretraining_model(seed % 1000, **fields)
    generator = np.random.default_rng(seed)
    char_ids = random_words(generator, rows, words, fields["max_characters_per_token"])
    word_ids = torch.from_numpy(generator.integers(0, VOCAB, (rows, words)))
    mask = torch.from_numpy(generator.random((rows, words)) < 0.8)
    labels = torch.from_numpy(generator.integers(0, VOCAB, (2, rows, words)))
    labels[:, ~mask] = NO_LABEL
    labels[torch.from_numpy(generator.random(labels.shape) < 0.2)] = NO_LABEL
    expected = reference_losses(model, char_ids, word_ids, mask, labels)

    inputs = {"attention_mask": mask, "labels": labels[0], "backward_labels": labels[1]}
    inputs |= {"char_ids": char_ids} if model.config.uses_characters else {}
    inputs |= {"input_ids": word_ids} if model.config.uses_words else {}
    with torch.no_grad():
        output = model(**inputs)
    for direction, loss in enumerate((output.forward_loss, output.backward_loss)):
        assert (loss is None) == (direction not in expected)
        if loss is not None:
            assert loss.item() == pytest.approx(expected[direction], rel=1e-9, abs=1e-12)
    assert output.loss.item() == pytest.approx(np.mean(list(expected.values())), rel=1e-9, abs=1e-12)


def test_the_loss_is_the_mean_of_the_directions_that_have_labels():
    model, batch = pretraining_model(), random_batch(2, 4)
    both = model(**batch)
    assert both.loss == (both.forward_loss + both.backward_loss) / 2
    assert both.forward_loss != both.backward_loss
    forward = model(char_ids=batch["char_ids"], labels=batch["labels"])
    assert (forward.loss, forward.backward_loss) == (both.forward_loss, None)
    backward = model(char_ids=batch["char_ids"], backward_labels=batch["backward_labels"])
    assert (backward.loss, backward.forward_loss) == (both.backward_loss, None)
    nothing = model(char_ids=batch["char_ids"])
    assert (nothing.loss, nothing.forward_loss, nothing.backward_loss) == (None, None, None)


@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_positions_without_a_label_do_not_count(kind):
    model, batch = pretraining_model(softmax_type=kind), random_batch(2, 5)
    counted = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0]]).bool()
    batch["labels"][~counted] = NO_LABEL
    with torch.no_grad():
        output = model(**batch)
        losses = word_losses(model, output.last_hidden_state[..., :4], batch["labels"])
        assert_close(output.forward_loss, losses[counted].mean())
        losses = word_losses(model, output.last_hidden_state[..., 4:], batch["backward_labels"])
        assert_close(output.backward_loss, losses.mean())


@pytest.mark.parametrize("items", [7, torch.tensor(7)])
def test_a_part_of_a_larger_batch_is_divided_by_the_larger_ones_labels(items):
    model, batch = pretraining_model(), random_batch(2, 5)
    batch["labels"][0, :3] = NO_LABEL
    with torch.no_grad():
        mean, part = model(**batch), model(**batch, num_items_in_batch=items)
    assert_close(part.forward_loss, mean.forward_loss * 7 / 7)  # 7 labels left
    assert_close(part.backward_loss, mean.backward_loss * 10 / 7)
    assert_close(part.loss, (part.forward_loss + part.backward_loss) / 2)


def test_every_layer_and_the_top_one_are_returned():
    model, batch = pretraining_model(), random_batch(2, 4)
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
        layers = model.elmo(char_ids=batch["char_ids"], output_hidden_states=True).hidden_states
    assert_close(output.hidden_states, layers)
    assert torch.equal(output.last_hidden_state, output.hidden_states[-1])


def test_what_the_tokenizer_gives_is_what_the_model_takes():
    tokenizer = ElmoTokenizer(max_characters_per_token=SLOTS)
    model = pretraining_model()
    first = next(iter(inspect.signature(model.forward).parameters))
    assert first == model.main_input_name == tokenizer.model_input_names[0]
    batch = tokenizer(["the cat sat", "a"], padding=True, return_tensors="pt")
    output = model(**batch)
    assert_close(output.last_hidden_state, model(char_ids=batch["char_ids"]).last_hidden_state)
    assert output.states is not None


@pytest.mark.usefixtures("engine")
def test_the_sentences_of_a_pair_do_not_see_each_other():
    tokenizer = ElmoTokenizer(max_characters_per_token=SLOTS)
    model = pretraining_model()
    pair = tokenizer("the cat", "sat there on", return_tensors="pt")
    segments = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state for text in ("the cat", "sat there on")]
    output = model(**pair)
    assert_close(output.last_hidden_state, torch.cat(segments, dim=1))
    assert output.states is None
    with pytest.raises(ValueError, match="A state belongs to one sequence"):
        model(**pair, initial_state=random_states(1))
    with pytest.raises(ValueError, match="`token_type_ids` must not change along a row"):
        model(**pair, backward_char_ids=pair["char_ids"])


def test_hidden_states_retain_their_gradients():
    output = (model := pretraining_model())(**random_batch(2, 3), output_hidden_states=True)
    for hidden in output.hidden_states:
        hidden.retain_grad()
    gradients = gradients_of(model, output.loss)
    assert all((hidden.grad != 0).any() for hidden in output.hidden_states)
    assert_close(gradients, gradients_of(model, model(**random_batch(2, 3)).loss))


def test_output_is_a_tuple_on_request():
    model, batch = pretraining_model(), random_batch(1, 3)
    assert model(**batch, return_dict=False)[0] == model(**batch).loss


def test_dropout_is_on_the_top_layer_too():
    model, batch = pretraining_model(dropout=0.5), random_batch(2, 5)
    expected = model(**batch)
    model.dropout.train()  # the layers' own stays off
    output = model(**batch)
    assert torch.equal(output.last_hidden_state, expected.last_hidden_state)
    assert output.forward_loss != expected.forward_loss
    assert output.backward_loss != expected.backward_loss


# ---- What each direction reads.


@pytest.mark.usefixtures("engine")
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 2**31), st.booleans())
@settings(max_examples=30, suppress_health_check=ONE_ENGINE)
def test_without_its_own_rows_the_backward_direction_reads_the_rows_from_right_to_left(lengths, seed, carried):
    model, mask = pretraining_model(), mask_of(lengths)
    batch = masked(random_batch(len(lengths), max(lengths), seed), mask)
    own_rows = batch | {
        "backward_char_ids": reversed_rows(batch["char_ids"], lengths),
        "backward_labels": reversed_rows(batch["backward_labels"], lengths),
    }
    states = random_states(len(lengths), seed) if carried else None
    with torch.no_grad():
        expected, output = (model(**inputs, initial_state=states) for inputs in (batch, own_rows))
    assert_close(output.loss, expected.loss)
    assert_close(output.forward_loss, expected.forward_loss)
    assert_close(output.backward_loss, expected.backward_loss)
    assert_close(output.states, expected.states)
    forward, backward = output.last_hidden_state.chunk(2, dim=-1)
    assert_close(torch.cat([forward, reversed_rows(backward, lengths)], dim=-1), expected.last_hidden_state)


@pytest.mark.usefixtures("training_engine")
def test_each_direction_depends_on_its_own_rows_alone():
    model, batch, other = pretraining_model(), random_batch(2, 4, 0, True), random_batch(2, 4, 1, True)
    expected = model(**batch)
    output = model(**(batch | {"backward_char_ids": other["backward_char_ids"]}))
    assert_close(output.forward_loss, expected.forward_loss)
    assert abs(output.backward_loss - expected.backward_loss) > 1e-4
    output = model(**(batch | {"char_ids": other["char_ids"]}))
    assert abs(output.forward_loss - expected.forward_loss) > 1e-4
    assert_close(output.backward_loss, expected.backward_loss)


def test_word_ids_beside_the_characters_change_nothing():
    """As the tokenizer returns them."""
    model, batch = pretraining_model(), random_batch(2, 4, own_rows=True)
    words = torch.ones(2, 4, dtype=torch.long)
    assert model(**batch, input_ids=words).loss == model(**batch).loss
    assert model(**batch, backward_input_ids=words).loss == model(**batch).loss
    assert model(**batch, input_ids=words, backward_input_ids=words).loss == model(**batch).loss


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("own_rows", [True, False])
def test_a_model_of_one_direction_has_that_direction_of_a_model_of_both(direction, own_rows):
    both, single = pretraining_model(), pretraining_model(directions=direction)
    index = ["forward", "backward"].index(direction)
    weights = {
        name: tensor[index : index + 1] if ".layers." in name else tensor for name, tensor in both.state_dict().items()
    }
    single.load_state_dict(weights)
    batch, states = random_batch(2, 4, own_rows=own_rows), random_states(2)
    own_states = ElmoStates(*(state[:, :, index : index + 1] for state in states))
    expected, output = both(**batch, initial_state=states), single(**batch, initial_state=own_states)
    loss = (expected.forward_loss, expected.backward_loss)[index]
    assert_close((output.forward_loss, output.backward_loss)[index], loss)
    assert (output.forward_loss, output.backward_loss)[1 - index] is None
    assert_close(output.loss, loss)
    assert_close(output.states, ElmoStates(*(state[:, :, index : index + 1] for state in expected.states)))
    if own_rows:  # and needs nothing of the other direction
        own = {name: tensor for name, tensor in batch.items() if name.startswith("backward_") == bool(index)}
        assert_close(single(**own, initial_state=own_states).loss, loss)


@pytest.mark.usefixtures("training_engine")
@pytest.mark.parametrize("token_inputs", ["words", "both"])
def test_models_with_a_word_table_read_the_words_of_both_directions(token_inputs):
    model, lengths = pretraining_model(token_inputs=token_inputs), [4, 2, 3]
    batch = random_batch(3, 4)
    batch["input_ids"] = torch.from_numpy(np.random.default_rng(1).integers(0, VOCAB, (3, 4)))
    if token_inputs == "words":
        del batch["char_ids"]
    batch = masked(batch, mask_of(lengths))
    own_rows = {f"backward_{name}": reversed_rows(batch[name], lengths) for name in batch if name.endswith("ids")}
    own_rows["backward_labels"] = reversed_rows(batch["backward_labels"], lengths)
    expected, output = model(**batch), model(**(batch | own_rows))
    assert_close(output.backward_loss, expected.backward_loss)
    assert_close(output.states, expected.states)
    own_rows["backward_input_ids"] = own_rows["backward_input_ids"].where(own_rows["backward_labels"] < 0, 3)
    assert model(**(batch | own_rows)).backward_loss != expected.backward_loss


# ---- Precision.


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_is_close_and_its_gradients_are_in_full_precision(kind):
    model, batch = pretraining_model(softmax_type=kind).float().train(), random_batch(2, 5, own_rows=True)
    torch.manual_seed(0)
    expected = model(**batch)
    wanted = gradients_of(model, expected.loss)
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.float16):
        output = model(**batch)
    assert output.loss.dtype == torch.float32
    assert output.loss != expected.loss
    assert_close(output.loss, expected.loss, rtol=1e-2, atol=0)
    for name, gradient in gradients_of(model, output.loss).items():
        assert gradient.isfinite().all(), name
        assert_close(gradient, wanted[name], rtol=0.1, atol=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_weights_give_a_loss_close_to_full_precision(kind):
    model, batch = pretraining_model(softmax_type=kind).float(), random_batch(2, 5)
    expected = model(**batch).loss
    half = model.half()(**batch)
    assert half.loss.dtype == torch.float32
    assert_close(half.loss, expected, rtol=1e-2, atol=0)
    half.loss.backward()
    with torch.no_grad():
        assert_close(model(**batch).loss, half.loss.detach())


def test_ids_and_labels_may_be_any_integers():
    model, batch = pretraining_model(), random_batch(2, 4, own_rows=True)
    assert model(**{name: tensor.int() for name, tensor in batch.items()}).loss == model(**batch).loss


# ---- Bad input.

BATCH = random_batch(2, 3)
OWN_ROWS = random_batch(2, 3, own_rows=True)
PADDED = BATCH | {"char_ids": BATCH["char_ids"] * torch.tensor([1, 1, 0]).view(1, 3, 1)}
BAD_INPUTS = {
    "no characters": ({"labels": BATCH["labels"]}, "give `char_ids`"),
    "label out of range": (BATCH | {"labels": BATCH["labels"] + 20}, "`labels` must be between 0 and 19"),
    "backward label out of range": (
        BATCH | {"backward_labels": BATCH["labels"] - 20},
        "`backward_labels` must be between 0 and 19",
    ),
    "label -1": (BATCH | {"labels": BATCH["labels"] * 0 - 1}, "`labels` must be between 0 and 19 .*found -1"),
    "labels of floats": (BATCH | {"labels": BATCH["labels"].double()}, "`labels` must be integers"),
    "label of another shape": (BATCH | {"labels": BATCH["labels"][:, 1:]}, r"`labels` must have shape \(2, 3\)"),
    "backward label of another shape": (
        BATCH | {"backward_labels": BATCH["labels"][:1]},
        r"`backward_labels` must have shape \(2, 3\), found \(1, 3\)",
    ),
    "label at a masked position": (PADDED, "`labels` has a word at a masked position.*-100"),
    "backward label at a masked position": (
        PADDED | {"labels": torch.full((2, 3), NO_LABEL)},
        "`backward_labels` has a word at a masked position",
    ),
    "label at a position that is masked out": (
        BATCH | {"attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])},
        "`labels` has a word at a masked position",
    ),
    "backward rows with other words": (
        OWN_ROWS | {"backward_char_ids": PADDED["char_ids"]},
        "backward rows must have words in the same places",
    ),
    "backward rows of another shape": (
        OWN_ROWS | {"backward_char_ids": OWN_ROWS["backward_char_ids"][:, :2]},
        "backward rows must have words in the same places",
    ),
    "backward rows of other slots": (
        OWN_ROWS | {"backward_char_ids": OWN_ROWS["backward_char_ids"][..., :5]},
        r"shape \(batch, words, 8\), found \(2, 3, 5\)",
    ),
    "unknown backward character": (
        OWN_ROWS | {"backward_char_ids": OWN_ROWS["backward_char_ids"] + 5},
        "between 0 and 261",
    ),
    "resets without backward rows": (BATCH | {"state_resets": torch.zeros(2, 3)}, "`state_resets` needs rows"),
    "resets of another shape": (
        OWN_ROWS | {"state_resets": torch.zeros(2, 4)},
        r"`state_resets` must have shape \(2, 3\), found \(2, 4\)",
    ),
    "state of another batch": (
        BATCH | {"initial_state": random_states(3)},
        r"`initial_state.hidden` must have shape \(2, 2, 2, 4\)",
    ),
    "state of one direction": (BATCH | {"initial_state": random_states(2, directions=1)}, r"\(2, 2, 2, 4\)"),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_is_refused_with_its_name_and_the_remedy(name):
    inputs, message = BAD_INPUTS[name]
    with pytest.raises(ValueError, match=message):
        pretraining_model()(**inputs)


def test_a_model_of_words_and_characters_needs_both_of_both_directions():
    words = torch.ones(2, 3, dtype=torch.long)
    model = pretraining_model(token_inputs="both")
    with pytest.raises(ValueError, match="`input_ids`"):
        model(**OWN_ROWS, input_ids=words)
    with pytest.raises(ValueError, match="`char_ids`"):
        model(**BATCH, input_ids=words, backward_input_ids=words)


# ---- Files.


@contextlib.contextmanager
def warnings_of_transformers(caplog):
    logging.enable_propagation()
    with caplog.at_level("WARNING"):
        yield caplog.records
    logging.disable_propagation()


SOFTMAX_NAMES = {
    "full": ["softmax.weight", "softmax.bias"],
    "sampled": ["softmax.weight", "softmax.bias"],
    "adaptive": [
        "softmax.head.weight",
        "softmax.head.bias",
        "softmax.tails.0.0.weight",
        "softmax.tails.0.1.weight",
        "softmax.tails.0.1.bias",
        "softmax.tails.1.0.weight",
        "softmax.tails.1.1.weight",
        "softmax.tails.1.1.bias",
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_parameters_have_these_names(kind):
    """In files, for ever: the encoder's as in an encoder's file, behind `elmo.`, then the softmax's."""
    model = pretraining_model(softmax_type=kind)
    encoder = [f"elmo.{name}" for name in ElmoModel(model.config, add_mixer=False).state_dict()]
    assert list(model.state_dict()) == encoder + SOFTMAX_NAMES[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_loads_whole_and_as_an_encoder_without_a_warning(kind, tmp_path, caplog):
    model, batch = pretraining_model(softmax_type=kind, softmax_cutoffs=[4, 9]), random_batch(2, 4, own_rows=True)
    model.save_pretrained(tmp_path)
    with warnings_of_transformers(caplog) as warnings:
        loaded, report = AutoModelForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
        encoder, encoder_report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not warnings
    for keys in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[keys]
        assert not encoder_report[keys]
    assert (type(loaded), type(encoder)) == (ElmoForPreTraining, ElmoModel)
    assert loaded(**batch).loss == model(**batch).loss
    layers = model.elmo(char_ids=batch["char_ids"], output_hidden_states=True).hidden_states
    assert_close(encoder(char_ids=batch["char_ids"]).last_hidden_state, torch.stack(layers).mean(dim=0))


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_gets_a_fresh_softmax_and_the_report_says_so(kind, tmp_path):
    """Also of another kind than its config names."""
    encoder = tiny_model(vocab_size=400, max_characters_per_token=SLOTS)
    encoder.save_pretrained(tmp_path)
    choice = {"softmax_type": kind, "softmax_samples": 8}
    model, report = ElmoForPreTraining.from_pretrained(tmp_path, **choice, output_loading_info=True)
    assert report["missing_keys"] == set(SOFTMAX_NAMES[kind])
    assert not report["unexpected_keys"]
    for name, tensor in model.elmo.state_dict().items():
        assert torch.equal(tensor, encoder.state_dict()[name]), name
    for name, parameter in model.softmax.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif parameter.numel() > 300:
            assert parameter.std().item() == pytest.approx(parameter.shape[1] ** -0.5, rel=0.1), name
    assert model(**random_batch(2, 4)).loss.isfinite()
    model.save_pretrained(tmp_path / "again")
    again = AutoModelForPreTraining.from_pretrained(tmp_path / "again")
    assert again(**random_batch(2, 4)).loss == model(**random_batch(2, 4)).loss


def test_fields_changed_on_loading_are_checked(tmp_path):
    pretraining_model().save_pretrained(tmp_path)
    with pytest.raises(StrictDataclassError, match="softmax_cutoffs"):
        ElmoForPreTraining.from_pretrained(tmp_path, softmax_type="adaptive", softmax_cutoffs=[10**6])
