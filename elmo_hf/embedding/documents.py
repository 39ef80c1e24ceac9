"""
Sentences of any length, exactly, a piece at a time. The directions never see each other: each goes over the pieces in
its own order, and carries its own state from one to the next.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from ..data.sentences import TokenSource
from ..modeling.modeling_elmo import DIRECTIONS, ElmoModel, ElmoStates
from ..modeling.pooling_elmo import PoolingAccumulator
from .layers import LayerChoice
from .running import initial_state, run_part


class Part(NamedTuple):
    """
    Some of a document's vectors.

    Attributes:
        words (`slice`): Whose they are.
        numbers (`slice`): Which numbers of the vectors: those of one direction.
        vectors (`torch.Tensor` of shape `(words, numbers)` or `(layers, words, numbers)`)
    """

    words: slice
    numbers: slice
    vectors: torch.Tensor


def document_parts(
    model: ElmoModel,
    document: TokenSource,
    choice: LayerChoice,
    boundaries: bool,
    piece_tokens: int,
    done: Callable[[int], object],
) -> Iterator[Part]:
    """
    All vectors of a document in two passes: forward from its first piece to its last, then backward.

    Args:
        done: Called with the number of tokens that both passes have been over since the last call.
    """
    pieces, directions = _pieces(document, piece_tokens), _directions(model)
    size = model.config.output_size
    for number, direction in enumerate(directions):
        numbers = slice(number * size, (number + 1) * size)
        state = initial_state(model, 1)
        for start, stop in pieces if direction == "forward" else reversed(pieces):
            vectors, state = run_part(model, document.tokens(start, stop), choice, direction, state)
            words, vectors = _inner(document, start, stop, vectors, boundaries)
            yield Part(words, numbers, vectors)
            if direction == directions[-1]:
                done(stop - start)


def join_parts(parts: Iterable[Part], vectors: torch.Tensor) -> torch.Tensor:
    """Writes the parts to where they belong in `vectors`, `(words, hidden_size)` or `(layers, words, hidden_size)`."""
    for part in parts:
        vectors[..., part.words, part.numbers] = part.vectors
    return vectors


def pool_parts(parts: Iterable[Part], pooled: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pools the words of all parts into `pooled`, `(hidden_size,)` or `(layers, hidden_size)`; one direction each."""
    directions: dict[int, PoolingAccumulator] = {}
    for part in parts:
        accumulator = directions.setdefault(part.numbers.start, PoolingAccumulator(pooling))
        accumulator.add(part.vectors.to(pooled.dtype))
    return pooled.copy_(torch.cat([directions[start].result() for start in sorted(directions)], dim=-1))


def document_pieces(
    model: ElmoModel, document: TokenSource, choice: LayerChoice, boundaries: bool, piece_tokens: int
) -> Iterator[torch.Tensor]:
    """
    The vectors of a document in order, a piece at a time, whatever the size of all.

    The first pass goes backward and keeps nothing but the state before each piece, so that the second, forward, can run
    both directions over a piece at once.

    Yields:
        `(words, hidden_size)` or `(layers, words, hidden_size)`
    """
    pieces, directions = _pieces(document, piece_tokens), _directions(model)
    forward = initial_state(model, 1)
    backward = [forward] * len(pieces)  # before each piece
    if "backward" in directions:
        for number in range(len(pieces) - 1, 0, -1):
            tokens = document.tokens(*pieces[number])
            backward[number - 1] = run_part(model, tokens, choice, "backward", backward[number])[1]
    for (start, stop), state in zip(pieces, backward, strict=True):
        states = {"forward": forward, "backward": state}
        state = _side_by_side([states[direction] for direction in directions])
        vectors, state = run_part(model, document.tokens(start, stop), choice, model.config.directions, state)
        forward = ElmoStates(*(values[:, :, :1] for values in state))
        yield _inner(document, start, stop, vectors, boundaries)[1]


def _side_by_side(states: Sequence[ElmoStates]) -> ElmoStates:
    """The state of several directions, from that of each."""
    return ElmoStates(*(torch.cat(values, dim=2) for values in zip(*states, strict=True)))


def _directions(model: ElmoModel) -> list[str]:
    return ["forward", "backward"] if len(DIRECTIONS[model.config.directions]) == 2 else [model.config.directions]


def _pieces(document: TokenSource, piece_tokens: int) -> list[tuple[int, int]]:
    """Where the pieces begin and end."""
    return [(start, min(start + piece_tokens, len(document))) for start in range(0, len(document), piece_tokens)]


def _inner(
    document: TokenSource, start: int, stop: int, vectors: torch.Tensor, boundaries: bool
) -> tuple[slice, torch.Tensor]:
    """The words among the tokens from `start` to `stop`, as the result counts them, and their vectors."""
    if boundaries:
        return slice(start, stop), vectors
    first, last = max(start, 1), min(stop, len(document) - 1)  # a piece may have nothing but a boundary
    return slice(first - 1, last - 1), vectors[..., first - start : last - start, :]


__all__ = ["Part", "document_parts", "document_pieces", "join_parts", "pool_parts"]
