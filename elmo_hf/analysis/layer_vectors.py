"""The vectors of chosen words in all layers and in their mix, block by block."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch

from ..data.batches import BATCH_TOKENS, WINDOW
from ..data.sentences import checked
from ..embedding import ElmoEmbedder
from ..embedding.request import EmbeddingRequest
from ..errors import ModelError
from ..runtime.progress import Progress, ProgressReport
from .work_folder import WorkFolder

BLOCK_TOKENS = WINDOW * BATCH_TOKENS  # of the sentences whose vectors are in memory together

Span = tuple[int, int]  # the first word, and the one after the last


class Block(NamedTuple):
    """
    Some consecutive sentences and the vectors of their spans.

    Attributes:
        sentences (`slice`): Which sentences.
        spans (`slice`): Which of all spans, counted over all sentences.
        vectors (`np.ndarray` of shape `(representations, spans, hidden_size)`): float32; of a span of several words
            their mean.
    """

    sentences: slice
    spans: slice
    vectors: np.ndarray


def representation_names(embedder: ElmoEmbedder) -> list[str]:
    """What the vectors are of: "layer 0" (the token layer), "layer 1" …, and "mix" where the model has a mixer."""
    names = [f"layer {layer}" for layer in range(embedder.num_layers)]
    return names if embedder.model.mixer is None else [*names, "mix"]


def span_blocks(
    embedder: ElmoEmbedder,
    sentences: Sequence[Sequence[str]],
    spans: Sequence[Sequence[Span]],
    *,
    work: WorkFolder | None = None,
    name: str = "vectors",
    progress: Progress = None,
) -> Iterator[Block]:
    """
    Embeds sentences and gives the vectors of some spans of words, in order.

    Args:
        sentences: Lists of words.
        spans: Of each sentence the spans whose vectors are wanted.
        work: Blocks that it holds already are read from there, others are added.
        name: Of the blocks there.
        progress: As in [`ElmoEmbedder.embed`].
    """
    work = work or WorkFolder(None, {})
    first_spans = [0, *accumulate(map(len, spans))]
    with ProgressReport(progress, sentences) as report:
        for number, (start, stop) in enumerate(_ranges(sentences)):
            tokens = sum(map(len, sentences[start:stop])) + 2 * (stop - start)
            told = [0, 0]  # sentences and tokens of this block that the bar knows of

            def tell(done: int, seen: int, told: list[int] = told):
                report.done(done - told[0], seen - told[1])
                told[:] = done, seen

            def make(start: int = start, stop: int = stop, tell: Callable = tell) -> np.ndarray:
                return _embed(embedder, sentences[start:stop], spans[start:stop], tell)

            vectors = work.array(f"{name}-{number:05}", make)
            tell(stop - start, tokens)
            yield Block(slice(start, stop), slice(first_spans[start], first_spans[stop]), vectors)


def _ranges(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, int]]:
    """Where blocks begin and end."""
    start = size = 0
    for place, sentence in enumerate(sentences):
        size += len(sentence) + 2
        if size >= BLOCK_TOKENS:
            yield start, place + 1
            start, size = place + 1, 0
    if start < len(sentences):
        yield start, len(sentences)


def _embed(
    embedder: ElmoEmbedder,
    sentences: Sequence[Sequence[str]],
    spans: Sequence[Sequence[Span]],
    tell: Callable[[int, int], object],
) -> np.ndarray:
    """All vectors of a block, `(representations, spans, hidden_size)`."""
    model, mixer = embedder.model, embedder.model.mixer
    first_spans = [0, *accumulate(map(len, spans))]
    names = representation_names(embedder)
    vectors = np.empty((len(names), first_spans[-1], embedder.hidden_size), dtype=np.float32)
    request = EmbeddingRequest(model, embedder.tokenizer, "all", boundaries=True)
    words = [list(sentence) for sentence in sentences]
    for number, layers in request.iter_unordered(checked(words), ProgressReport(tell)):
        if len(spans[number]):
            if mixer is not None and mixer.layer_norm:  # over a whole sentence with its boundaries
                with torch.no_grad():
                    tensors = [torch.from_numpy(layer).to(mixer.gamma.device, mixer.gamma.dtype) for layer in layers]
                    layers = [*layers, mixer(tensors).float().cpu().numpy()]
            place = slice(first_spans[number], first_spans[number + 1])
            _gather(layers, spans[number], vectors[: len(layers), place])
    if mixer is not None and not mixer.layer_norm:
        mixed = linear_mix(embedder)
        vectors[-1] = mixed[0] * vectors[0]
        for layer in range(1, len(mixed)):
            vectors[-1] += mixed[layer] * vectors[layer]
    if not np.isfinite(vectors).all():
        raise ModelError("The model gives vectors that are not finite: its layers cannot be compared.")
    return vectors


def linear_mix(embedder: ElmoEmbedder) -> np.ndarray:
    """What the mixer multiplies each layer by, `(layers,)`; of a mixer without layer norm."""
    mixer = embedder.model.mixer
    with torch.no_grad():
        return (mixer.gamma * mixer.layer_weights()).float().cpu().numpy()


def _gather(layers: Sequence[np.ndarray], spans: Sequence[Span], out: np.ndarray):
    """
    Args:
        layers: `(words + 2, hidden_size)` each: a sentence between its boundaries.
        out: `(layers, spans, hidden_size)`, gets the mean vector of each span.
    """
    bounds = np.asarray(spans) + 1  # after <S>
    starts, lengths = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    if (lengths == 1).all():
        for layer, to in zip(layers, out, strict=True):
            np.take(layer, starts, axis=0, out=to)
        return
    first = np.concatenate([[0], lengths.cumsum()[:-1]])  # of each span, among the words of all
    words = np.repeat(starts - first, lengths) + np.arange(lengths.sum())
    for layer, to in zip(layers, out, strict=True):
        np.divide(np.add.reduceat(layer[words], first, axis=0), lengths[:, None], out=to)


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors `(…, size)` with length one; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


__all__ = ["Block", "Span", "linear_mix", "representation_names", "span_blocks", "unit"]
