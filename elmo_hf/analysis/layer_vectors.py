"""Computes the vectors of chosen words in all layers and in their mix, one block of sentences at a time."""

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

BLOCK_TOKENS = WINDOW * BATCH_TOKENS  # tokens per block; the vectors of one block are in memory at a time

Span = tuple[int, int]  # the first word, and the word after the last


class Block(NamedTuple):
    """
    Consecutive sentences and the vectors of their spans.

    Attributes:
        sentences (`slice`): The range of the sentences.
        spans (`slice`): The range of the spans, counted over all sentences.
        vectors (`np.ndarray` of shape `(representations, spans, hidden_size)`): float32; the vector of a span is the
            mean over its words.
    """

    sentences: slice
    spans: slice
    vectors: np.ndarray


def representation_names(embedder: ElmoEmbedder) -> list[str]:
    """The names of the representations: "layer 0" (the token layer), "layer 1" …, and "mix" if there is a mixer."""
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
    Embeds sentences and yields the vectors of some spans of words, in order.

    Args:
        sentences: Lists of words.
        spans: The spans of each sentence whose vectors are needed.
        work: A folder for the blocks. Blocks that it holds are read, others are computed and added.
        name: The name of the blocks in the folder.
        progress: As in [`ElmoEmbedder.embed`].
    """
    work = work or WorkFolder(None, {})
    first_spans = [0, *accumulate(map(len, spans))]
    with ProgressReport(progress, sentences) as report:
        for block, (start, stop) in enumerate(_ranges(sentences)):
            tokens = sum(map(len, sentences[start:stop])) + 2 * (stop - start)
            reported = [0, 0]  # sentences and tokens of this block that the bar shows

            def update(done: int, seen: int, reported: list[int] = reported):
                report.done(done - reported[0], seen - reported[1])
                reported[:] = done, seen

            def make(start: int = start, stop: int = stop, update: Callable = update) -> np.ndarray:
                return _embed(embedder, sentences[start:stop], spans[start:stop], update)

            vectors = work.array(f"{name}-{block:05}", make)
            update(stop - start, tokens)
            yield Block(slice(start, stop), slice(first_spans[start], first_spans[stop]), vectors)


def _ranges(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, int]]:
    """Yields the first sentence of each block, and the one after its last."""
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
    update: Callable[[int, int], object],
) -> np.ndarray:
    """All vectors of a block, `(representations, spans, hidden_size)`."""
    model, mixer = embedder.model, embedder.model.mixer
    first_spans = [0, *accumulate(map(len, spans))]
    names = representation_names(embedder)
    vectors = np.empty((len(names), first_spans[-1], embedder.hidden_size), dtype=np.float32)
    request = EmbeddingRequest(model, embedder.tokenizer, "all", boundaries=True)
    words = [list(sentence) for sentence in sentences]
    for index, layers in request.iter_unordered(checked(words), ProgressReport(update)):
        if len(spans[index]):
            if mixer is not None and mixer.layer_norm:  # it normalises over a whole sentence with its boundaries
                with torch.no_grad():
                    tensors = [torch.from_numpy(layer).to(mixer.gamma.device, mixer.gamma.dtype) for layer in layers]
                    layers = [*layers, mixer(tensors).float().cpu().numpy()]
            place = slice(first_spans[index], first_spans[index + 1])
            _gather(layers, spans[index], vectors[: len(layers), place])
    if mixer is not None and not mixer.layer_norm:
        mixed = linear_mix(embedder)
        vectors[-1] = mixed[0] * vectors[0]
        for layer in range(1, len(mixed)):
            vectors[-1] += mixed[layer] * vectors[layer]
    if not np.isfinite(vectors).all():
        raise ModelError("The model computes vectors that are not finite: check its weights.")
    return vectors


def linear_mix(embedder: ElmoEmbedder) -> np.ndarray:
    """The factor of each layer in the mix, `(layers,)`, for a mixer without layer norm."""
    mixer = embedder.model.mixer
    with torch.no_grad():
        return (mixer.gamma * mixer.layer_weights()).float().cpu().numpy()


def _gather(layers: Sequence[np.ndarray], spans: Sequence[Span], out: np.ndarray):
    """
    Writes the mean vector of each span to `out`.

    Args:
        layers: `(words + 2, hidden_size)` each: a sentence with its boundaries.
        out: `(layers, spans, hidden_size)`
    """
    bounds = np.asarray(spans) + 1  # the first position is <S>
    starts, lengths = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    if (lengths == 1).all():
        for layer, to in zip(layers, out, strict=True):
            np.take(layer, starts, axis=0, out=to)
        return
    first = np.concatenate([[0], lengths.cumsum()[:-1]])  # the first word of each span, counted over all spans
    words = np.repeat(starts - first, lengths) + np.arange(lengths.sum())
    for layer, to in zip(layers, out, strict=True):
        np.divide(np.add.reduceat(layer[words], first, axis=0), lengths[:, None], out=to)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scales vectors `(…, size)` to length one. Vectors of zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


__all__ = ["Block", "Span", "linear_mix", "representation_names", "span_blocks", "unit"]
