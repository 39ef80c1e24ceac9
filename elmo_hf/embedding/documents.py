"""
Exact vectors of documents of any length, one piece at a time. The two directions are independent: each reads the pieces
in its own order and carries its own state from one piece to the next.
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
    A part of a document's vectors.

    Attributes:
        words (`slice`): The words of the document.
        components (`slice`): The components of their vectors: those of one direction.
        vectors (`torch.Tensor` of shape `(words, components)` or `(layers, words, components)`)
    """

    words: slice
    components: slice
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
    Yields all vectors of a document in two passes: forward from the first piece to the last, then backward.

    Args:
        done: Called with the number of tokens that both passes have read since the last call.
    """
    pieces, directions = _pieces(document, piece_tokens), _directions(model)
    size = model.config.output_size
    for index, direction in enumerate(directions):
        components = slice(index * size, (index + 1) * size)
        state = initial_state(model, 1)
        for start, stop in pieces if direction == "forward" else reversed(pieces):
            vectors, state = run_part(model, document.tokens(start, stop), choice, direction, state)
            words, vectors = _inner(document, start, stop, vectors, boundaries)
            yield Part(words, components, vectors)
            if direction == directions[-1]:
                done(stop - start)


def join_parts(parts: Iterable[Part], vectors: torch.Tensor) -> torch.Tensor:
    """Copies the parts into `vectors`, `(words, hidden_size)` or `(layers, words, hidden_size)`."""
    for part in parts:
        vectors[..., part.words, part.components] = part.vectors
    return vectors


def pool_parts(
    parts: Iterable[Part], pooled: torch.Tensor, pooling: str, weights: torch.Tensor | None = None
) -> torch.Tensor:
    """
    Pools the words of all parts, per direction, into `pooled`, `(hidden_size,)` or `(layers, hidden_size)`.

    Args:
        weights: `(words,)`, the weights of a mean. Default: all equal.
    """
    directions: dict[int, PoolingAccumulator] = {}
    for part in parts:
        accumulator = directions.setdefault(part.components.start, PoolingAccumulator(pooling))
        accumulator.add(part.vectors.to(pooled.dtype), weights=None if weights is None else weights[part.words])
    return pooled.copy_(torch.cat([directions[start].result() for start in sorted(directions)], dim=-1))


def document_pieces(
    model: ElmoModel, document: TokenSource, choice: LayerChoice, boundaries: bool, piece_tokens: int
) -> Iterator[torch.Tensor]:
    """
    Yields the vectors of a document of any length in order, one piece at a time.

    The first pass runs backward and stores only the state before each piece. The second pass then runs both directions
    over each piece, from the first to the last.

    Yields:
        `(words, hidden_size)` or `(layers, words, hidden_size)`
    """
    pieces, directions = _pieces(document, piece_tokens), _directions(model)
    forward = initial_state(model, 1)
    backward = [forward] * len(pieces)  # the state before each piece
    if "backward" in directions:
        for index in range(len(pieces) - 1, 0, -1):
            tokens = document.tokens(*pieces[index])
            backward[index - 1] = run_part(model, tokens, choice, "backward", backward[index])[1]
    for (start, stop), state in zip(pieces, backward, strict=True):
        states = {"forward": forward, "backward": state}
        state = _concatenate([states[direction] for direction in directions])
        vectors, state = run_part(model, document.tokens(start, stop), choice, model.config.directions, state)
        forward = ElmoStates(*(values[:, :, :1] for values in state))
        yield _inner(document, start, stop, vectors, boundaries)[1]


def _concatenate(states: Sequence[ElmoStates]) -> ElmoStates:
    """Concatenates the states of single directions."""
    return ElmoStates(*(torch.cat(values, dim=2) for values in zip(*states, strict=True)))


def _directions(model: ElmoModel) -> list[str]:
    return ["forward", "backward"] if len(DIRECTIONS[model.config.directions]) == 2 else [model.config.directions]


def _pieces(document: TokenSource, piece_tokens: int) -> list[tuple[int, int]]:
    """The first token of each piece, and the end."""
    return [(start, min(start + piece_tokens, len(document))) for start in range(0, len(document), piece_tokens)]


def _inner(
    document: TokenSource, start: int, stop: int, vectors: torch.Tensor, boundaries: bool
) -> tuple[slice, torch.Tensor]:
    """The words among the tokens `start` to `stop`, as a slice of the result, and their vectors."""
    if boundaries:
        return slice(start, stop), vectors
    first, last = max(start, 1), min(stop, len(document) - 1)  # a piece may hold only a boundary
    return slice(first - 1, last - 1), vectors[..., first - start : last - start, :]


__all__ = ["Part", "document_parts", "document_pieces", "join_parts", "pool_parts"]
