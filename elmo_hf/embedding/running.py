"""Runs the model on sentences, and on parts of a sentence, without padding."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch

from ..data.sentences import Tokens, TokenSource
from ..modeling.modeling_elmo import ElmoModel, ElmoModelOutput, ElmoStates
from ..runtime.threads import cpu_slots
from .layers import LayerChoice


@torch.no_grad()
def run_sentences(
    model: ElmoModel, sentences: Sequence[TokenSource], choice: LayerChoice, boundaries: bool
) -> list[tuple[torch.Tensor, ...]]:
    """
    Runs the model once on several sentences.

    Returns:
        For each sentence the layers that `choice` selects, `(words, hidden_size)` each. They are views of larger
        tensors.
    """
    parts = [sentence.tokens(0, len(sentence)) for sentence in sentences]
    lengths = [len(sentence) for sentence in sentences]
    # All sentences are in one row, without padding. The recurrence restarts where the segment changes.
    segments = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)).unsqueeze(0)
    row = Tokens(*map(np.concatenate, zip(*parts, strict=True)))
    output = _run(model, row, choice, token_type_ids=segments.to(model.device))
    layers = (layer.split(lengths) for layer in choice(output, lengths))
    layers_of_sentences = zip(*layers, strict=True)
    return [layers if boundaries else tuple(layer[1:-1] for layer in layers) for layers in layers_of_sentences]


@torch.no_grad()
def run_part(
    model: ElmoModel, tokens: Tokens, choice: LayerChoice, directions: str, state: ElmoStates
) -> tuple[torch.Tensor, ElmoStates]:
    """
    Runs the model on a part of a sentence.

    Args:
        directions: The directions to run.
        state: The state of these directions before the part.

    Returns:
        The vectors of these directions, `(words, size)` or `(layers, words, size)`, and the state after the part.
    """
    output = _run(model, tokens, choice, directions=directions, initial_state=state, output_states=True)
    return choice.stack(choice(output, [len(tokens.input_ids)])), cast(ElmoStates, output.states)


def initial_state(model: ElmoModel, num_directions: int) -> ElmoStates:
    """Zeros in the dtype that the recurrence computes in. A state carried in a lower precision would lose digits."""
    config = model.config
    shape = 1, config.num_hidden_layers, num_directions
    dtype = torch.promote_types(model.dtype, torch.float32)
    zeros = (
        torch.zeros(*shape, size, dtype=dtype, device=model.device) for size in (config.output_size, config.cell_size)
    )
    return ElmoStates(*zeros)


def _run(model: ElmoModel, tokens: Tokens, choice: LayerChoice, **options) -> ElmoModelOutput:
    input_ids, char_ids = (torch.from_numpy(ids).unsqueeze(0).to(model.device, torch.long) for ids in tokens)
    with cpu_slots(model.device):
        return model(input_ids, char_ids, output_hidden_states=choice.needs_all, return_dict=True, **options)


__all__ = ["initial_state", "run_part", "run_sentences"]
