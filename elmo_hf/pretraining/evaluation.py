"""Perplexity with the full softmax, per direction."""

import math
from collections.abc import Callable

import torch

from ..language_model import Perplexity
from ..modeling.modeling_elmo import ElmoForPreTraining, ElmoStates
from .streams import Reader, SentenceEncoder, Streams
from .text import Corpus

STREAMS, WINDOW = 64, 32  # of an evaluation; they affect only its speed


def protocol(carry_state: bool) -> str:
    """A description of how perplexity is measured, to print with every result."""
    state = "carried along each document" if carry_state else "zero at each sentence"
    return f"<UNK> and </S> counted, <S> not; full softmax; state {state}"


@torch.no_grad()
def perplexity(
    model: ElmoForPreTraining,
    encode: SentenceEncoder,
    corpus: Corpus,
    *,
    carry_state: bool = False,
    max_targets: int | None = None,
    report: Callable[[int], object] | None = None,
) -> Perplexity:
    """
    Computes the perplexity of a model on a text. `<UNK>` and `</S>` are counted, `<S>` is not.

    Args:
        model: The model. It runs in fp32 and in evaluation mode.
        encode: Encodes sentences as steps.
        corpus: The text.
        carry_state: Whether to carry the state from sentence to sentence within each document, in both directions (the
            backward direction reads the words of each sentence in reverse). By default every sentence starts from
            zeros.
        max_targets: Stop after about this many words.
        report: Called after each batch with its number of words.
    """
    streams = Streams(
        Reader(corpus, epochs=1, seed=0),
        encode,
        streams=STREAMS,
        window=WINDOW,
        reset_probability=0.0 if carry_state else 1.0,
        reset_documents=True,
        allow_fewer=True,
    )
    run = vars(model).get("_original_forward", model)  # without Accelerate's wrapper for mixed precision
    was_training = model.training
    model.eval()
    sums, targets, state = [0.0, 0.0], 0, None
    try:
        while (max_targets is None or targets < max_targets) and (window := streams.take()) is not None:
            with torch.autocast(model.device.type, enabled=False):
                output = run(**window.model_inputs(model.device), initial_state=state, num_items_in_batch=1)
            for direction, loss in enumerate((output.forward_loss, output.backward_loss)):
                sums[direction] += math.nan if loss is None else loss.item()
            state = ElmoStates(*output.states)
            targets += window.targets
            if report is not None:
                report(window.targets)
    finally:
        model.train(was_training)
    return Perplexity(*(math.exp(total / targets) for total in sums), targets)


__all__ = ["Perplexity", "perplexity", "protocol"]
