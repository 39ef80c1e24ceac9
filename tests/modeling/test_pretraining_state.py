"""ElmoForPreTraining: the state of windows and sentences, and the gradients of all parameters."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from elmo_hf import ElmoStates
from tests.modeling.pretraining_models import (
    KINDS,
    NO_LABEL,
    ONE_ENGINE,
    gradients_of,
    mask_of,
    masked,
    pretraining_model,
    random_batch,
    random_states,
)

# ---- State.


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("split", [1, 3, 5])
@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_two_windows_with_the_state_carried_are_one_long_window(split, kind):
    model, batch = pretraining_model(softmax_type=kind), random_batch(2, 6, own_rows=True)
    first, second = ({name: t[:, part] for name, t in batch.items()} for part in (slice(split), slice(split, None)))
    whole = model(**batch, num_items_in_batch=1)
    earlier = model(**first, num_items_in_batch=1)
    later = model(**second, initial_state=earlier.states, num_items_in_batch=1)
    for name in ("loss", "forward_loss", "backward_loss"):
        assert_close(earlier[name] + later[name], whole[name])
    assert_close(later.states, whole.states)
    expected = gradients_of(model, whole.loss)
    assert_close(gradients_of(model, earlier.loss + later.loss), expected)  # through the state too: cutting is a choice
    cut = ElmoStates(*(state.detach() for state in earlier.states))
    assert_close(model(**second, initial_state=cut, num_items_in_batch=1).loss, later.loss)


@pytest.mark.usefixtures("engine")
@settings(max_examples=25, suppress_health_check=ONE_ENGINE)
@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=3), st.integers(0, 2**31))
def test_a_state_set_back_at_a_sentences_start_is_a_row_of_its_own(rows, seed):
    """Rows are given as the lengths of their sentences. Values and gradients, and the state after the last sentence."""
    model = pretraining_model()
    lengths = [sum(row) for row in rows]
    batch = masked(random_batch(len(rows), max(lengths), seed, own_rows=True), mask_of(lengths))
    resets = torch.zeros(len(rows), max(lengths), dtype=torch.long)
    sentences: dict[str, list[torch.Tensor]] = {name: [] for name in batch}
    first, last = [], []  # the sentences that begin and that end a row
    for row, parts in enumerate(rows):
        first.append(len(sentences["labels"]))
        for stop, length in zip(np.cumsum(parts), parts, strict=True):
            resets[row, stop - length] = int(stop > length)
            for name, tensor in batch.items():
                sentences[name].append(tensor[row, stop - length : stop])
        last.append(len(sentences["labels"]) - 1)
    single_rows = {
        name: torch.nn.utils.rnn.pad_sequence(parts, True, NO_LABEL if "labels" in name else 0)
        for name, parts in sentences.items()
    }
    given_state = random_states(len(rows), seed)
    zeros = random_states(len(single_rows["labels"]))
    own_state = ElmoStates(
        *(zero.mul(0).index_copy(0, torch.tensor(first), s) for zero, s in zip(zeros, given_state, strict=True))
    )
    expected = model(**single_rows, initial_state=own_state)
    output = model(**batch, initial_state=given_state, state_resets=resets)
    assert_close(output.loss, expected.loss)
    assert_close(output.states, ElmoStates(*(state[last] for state in expected.states)))
    assert_close(gradients_of(model, output.loss), gradients_of(model, expected.loss))


@pytest.mark.usefixtures("training_engine")
def test_a_state_set_back_before_the_first_word_is_not_that_which_was_given():
    model, batch = pretraining_model(), random_batch(2, 4, own_rows=True)
    given_state = ElmoStates(*(state.requires_grad_() for state in random_states(2)))
    zeros = ElmoStates(*(torch.cat([torch.zeros_like(state[:1]), state[1:]]) for state in given_state))
    resets = torch.zeros(2, 4, dtype=torch.bool)
    resets[0, 0] = True
    output = model(**batch, initial_state=given_state, state_resets=resets)
    expected = model(**batch, initial_state=zeros)
    assert_close(output.loss, expected.loss)
    assert_close(output.states, expected.states)
    for gradient in torch.autograd.grad(output.loss, given_state):
        assert gradient[0].abs().sum() == 0
        assert gradient[1].abs().sum() > 0


@pytest.mark.usefixtures("training_engine")
def test_no_resets_are_no_resets():
    model, batch = pretraining_model(), random_batch(2, 4, own_rows=True)
    states = random_states(2)
    output = model(**batch, initial_state=states, state_resets=torch.zeros(2, 4))
    assert output.loss == model(**batch, initial_state=states).loss


def test_a_model_that_reads_forward_needs_no_other_rows_for_resets():
    model, batch = pretraining_model(directions="forward"), random_batch(1, 4)
    resets = torch.tensor([[0, 0, 1, 0]])
    output = model(char_ids=batch["char_ids"], labels=batch["labels"], state_resets=resets)
    halves = {name: batch[name].unflatten(1, (2, 2)).squeeze(0) for name in ("char_ids", "labels")}
    assert_close(output.loss, model(**halves).loss)


# ---- Gradients.


@pytest.mark.usefixtures("training_engine")
@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_learns(kind):
    model = pretraining_model(softmax_type=kind, softmax_cutoffs=[5, 11], softmax_tail_ratio=2).train()
    for name, gradient in gradients_of(model, model(**random_batch(4, 8)).loss).items():
        assert gradient.abs().sum() > 0, name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own_rows", [True, False])
def test_without_targets_the_loss_and_every_gradient_are_zero(kind, own_rows):
    """And not missing: data parallelism waits for every gradient."""
    model = pretraining_model(softmax_type=kind).train()
    batch = random_batch(2, 3, own_rows=own_rows)
    batch |= {name: torch.full((2, 3), NO_LABEL) for name in ("labels", "backward_labels")}
    loss = model(**batch).loss
    assert loss == 0
    for name, gradient in gradients_of(model, loss).items():
        assert gradient.abs().sum() == 0, name


@pytest.mark.usefixtures("training_engine")
@pytest.mark.parametrize("own_rows", [True, False])
def test_a_batch_without_words_is_fine(own_rows):
    model, batch = pretraining_model(), random_batch(2, 3, own_rows=own_rows)
    batch = masked(batch, torch.zeros(2, 3, dtype=torch.bool))
    states = random_states(2)
    output = model(**batch, initial_state=states)
    assert output.loss == 0
    assert_close(output.states, states)


@pytest.mark.usefixtures("training_engine")
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_the_whole_model_equal_finite_differences(kind):
    """The steepest number of each parameter, with resets, a carried state and rows of both directions' own."""
    model = pretraining_model(softmax_type=kind, softmax_tail_ratio=2).train()
    batch = random_batch(2, 5, own_rows=True)
    batch |= {"initial_state": random_states(2), "state_resets": torch.tensor([[0, 0, 1, 0, 0], [1, 0, 0, 0, 1]])}

    def loss():
        torch.manual_seed(0)  # a sampled softmax draws the same words
        return model(**batch).loss

    gradients = gradients_of(model, loss())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            place, losses = int(gradients[name].abs().argmax()), []
            for step in (1e-5, -2e-5, 1e-5):
                parameter.view(-1)[place] += step
                losses.append(loss().item())
            slope = (losses[0] - losses[1]) / 2e-5
            assert gradients[name].view(-1)[place].item() == pytest.approx(slope, rel=1e-5, abs=1e-9), name


@pytest.mark.usefixtures("training_engine")
def test_gradient_checkpointing_gives_the_same_gradients():
    batch = random_batch(2, 5, own_rows=True) | {"state_resets": torch.tensor([[0, 0, 1, 0, 0], [1, 0, 0, 0, 1]])}
    all_gradients = []
    for checkpointing in (False, True):
        model = pretraining_model().train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        all_gradients.append(gradients_of(model, model(**batch).loss))
    assert_close(all_gradients[1], all_gradients[0])


def test_a_frozen_model_still_has_a_loss():
    model, batch = pretraining_model(), random_batch(2, 4)
    expected = model(**batch).loss.detach()
    loss = model.requires_grad_(False)(**batch).loss
    assert not loss.requires_grad
    assert_close(loss, expected)


def test_the_same_seed_gives_the_same_sampled_loss_and_evaluation_the_full_one():
    model, batch = pretraining_model(softmax_type="sampled").train(), random_batch(2, 4)
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(model(**batch).loss.item())
    assert losses[0] == losses[1] != losses[2]
    full = pretraining_model()
    full.load_state_dict(model.state_dict())
    assert model.eval()(**batch).loss == full(**batch).loss
