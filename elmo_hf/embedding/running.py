"""Sentences and parts of them through the model, without padding."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import cast

import numpy as np
import torch

from ..data.sentences import Tokens, TokenSource
from ..modeling.modeling_elmo import ElmoModel, ElmoModelOutput, ElmoStates
from ..runtime.threads import CPU_SLOTS
from .layers import LayerChoice


@torch.no_grad()
def run_sentences(
    model: ElmoModel, sentences: Sequence[TokenSource], choice: LayerChoice, boundaries: bool
) -> list[tuple[torch.Tensor, ...]]:
    """
    The sentences in one call.

    Returns:
        For each sentence its vectors as `choice` gives them, `(words, hidden_size)` each, parts of larger tensors.
    """
    parts = [sentence.tokens(0, len(sentence)) for sentence in sentences]
    lengths = [len(sentence) for sentence in sentences]
    # All in one row, which has no padding: the recurrence starts anew where the number changes.
    numbers = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)).unsqueeze(0)
    together = Tokens(*map(np.concatenate, zip(*parts, strict=True)))
    output = _run(model, together, choice, token_type_ids=numbers.to(model.device))
    layers = (layer.split(lengths) for layer in choice(output, lengths))
    vectors = zip(*layers, strict=True)
    return [some if boundaries else tuple(layer[1:-1] for layer in some) for some in vectors]


@torch.no_grad()
def run_part(
    model: ElmoModel, tokens: Tokens, choice: LayerChoice, directions: str, state: ElmoStates
) -> tuple[torch.Tensor, ElmoStates]:
    """
    A part of a sentence.

    Args:
        directions: Those that run.
        state: Of these directions, before the part.

    Returns:
        `(words, size)` or `(layers, words, size)` of the directions, and the state after the part.
    """
    output = _run(model, tokens, choice, directions=directions, initial_state=state, output_states=True)
    return choice.together(choice(output, [len(tokens.input_ids)])), cast(ElmoStates, output.states)


def initial_state(model: ElmoModel, num_directions: int) -> ElmoStates:
    """Zeros, in the precision that the recurrence has inside: carried in a lower one, a state would lose digits."""
    config = model.config
    shape = 1, config.num_hidden_layers, num_directions
    dtype = torch.promote_types(model.dtype, torch.float32)
    zeros = (
        torch.zeros(*shape, size, dtype=dtype, device=model.device) for size in (config.output_size, config.cell_size)
    )
    return ElmoStates(*zeros)


def _run(model: ElmoModel, tokens: Tokens, choice: LayerChoice, **options) -> ElmoModelOutput:
    slots = CPU_SLOTS.acquire() if model.device.type == "cpu" else nullcontext()
    input_ids, char_ids = (torch.from_numpy(ids).unsqueeze(0).to(model.device, torch.long) for ids in tokens)
    with slots:
        return model(input_ids, char_ids, output_hidden_states=choice.needs_all, return_dict=True, **options)


__all__ = ["initial_state", "run_part", "run_sentences"]
