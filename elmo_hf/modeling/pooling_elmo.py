# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
From the words of a batch to one vector per sentence: which positions are words, which sentence a word belongs to, and
pooling over the words. Heads, [`ElmoModel.mean_of_words`] and the embedder use the same pooling.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init

from .configuration_elmo import ElmoConfig
from .products_elmo import matmul
from .task_layers_elmo import ElmoTaskLinear, masked_softmax

# ---- Words and sentences of a batch


def word_mask(
    config: ElmoConfig, input_ids: torch.Tensor | None, char_ids: torch.Tensor | None, mask: torch.Tensor
) -> torch.Tensor:
    """
    The mask without sentence boundaries.

    Args:
        config: Says which of the ids the model reads.
        input_ids: `(batch, words)`
        char_ids: `(batch, words, max_characters_per_token)`
        mask: `(batch, words)`, true for words and boundaries.

    Returns:
        `(batch, words)`
    """
    if config.uses_characters:
        assert char_ids is not None
        first = char_ids[..., 1]  # the first character, after the begin mark
        return mask & (first != config.char_bos_id) & (first != config.char_eos_id)
    ends = config.eos_token_id
    is_word = mask & (input_ids != config.bos_token_id)
    for end in ends if isinstance(ends, list) else [ends]:
        is_word = is_word & (input_ids != end)
    return is_word


@dataclass
class ElmoSentences:
    """
    The sentences of a batch, one per row and left-aligned, as task layers read them. A sentence is a row of the batch,
    or a segment of a row (a pair has two).

    Attributes:
        positions (`torch.LongTensor` of shape `(sentences, longest)`): The position of each word in the flattened
            batch; 0 where there is no word.
        mask (`torch.BoolTensor` of shape `(sentences, longest)`): Whether there is a word.
        batch_shape (`torch.Size`): `(batch, words)`.
    """

    positions: torch.Tensor
    mask: torch.Tensor
    batch_shape: torch.Size

    @classmethod
    def of(cls, is_word: torch.Tensor, segments: torch.Tensor | None = None, num_segments: int = 1) -> "ElmoSentences":
        """
        Args:
            is_word: `(batch, words)`, false for boundaries and padding, which may be anywhere.
            segments: `(batch, words)`, the segment of each word, from 0 to `num_segments - 1`. Sentence
                `row * num_segments + segment` has the words of that segment.
        """
        if segments is None:
            in_sentence = is_word.unsqueeze(1)  # (batch, segments, words)
        else:
            segment = torch.arange(num_segments, device=segments.device).unsqueeze(1)
            in_sentence = is_word.unsqueeze(1) & (segments.unsqueeze(1) == segment)
        in_sentence = in_sentence.flatten(0, 1)  # (sentences, words)
        lengths = in_sentence.sum(dim=1)
        longest = max(int(lengths.max()) if len(lengths) else 0, 1)
        mask = torch.arange(longest, device=is_word.device) < lengths.unsqueeze(1)  # (sentences, longest)
        order = in_sentence.logical_not().to(torch.uint8).argsort(dim=1, stable=True)[:, :longest]  # words first
        if not is_word.shape[1]:
            order = order.new_zeros(mask.shape)
        row = torch.arange(len(in_sentence), device=is_word.device) // (len(in_sentence) // max(len(is_word), 1) or 1)
        positions = (order + row.unsqueeze(1) * is_word.shape[1]).masked_fill(~mask, 0)
        return cls(positions, mask, is_word.shape)

    def gather(self, vectors: torch.Tensor) -> torch.Tensor:
        """`(batch, words, …)` → `(sentences, longest, …)`, zero where there is no word."""
        if not self.batch_shape.numel():
            return vectors.new_zeros(*self.mask.shape, *vectors.shape[2:])
        gathered = vectors.flatten(0, 1)[self.positions]
        return gathered.masked_fill(~self.mask.view(*self.mask.shape, *[1] * (gathered.ndim - 2)), 0)

    def scatter(self, vectors: torch.Tensor) -> torch.Tensor:
        """`(sentences, longest, …)` → `(batch, words, …)`, zero where there is no word."""
        batch = vectors.new_zeros(self.batch_shape.numel(), *vectors.shape[2:])
        batch[self.positions[self.mask]] = vectors[self.mask]
        return batch.unflatten(0, self.batch_shape)


def number_segments(segments: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, int]:
    """
    Numbers the segments of each row: as in the biLM, a new one begins where the value changes from word to word.

    Args:
        segments: `(batch, words)`, any integers.
        mask: `(batch, words)`, true for words and boundaries.

    Returns:
        The number of each word's segment `(batch, words)`, from 0, and the largest number of segments in a row.
    """
    rows = ElmoSentences.of(mask)
    is_new = rows.gather(segments).diff(dim=1) != 0
    numbers = functional.pad(is_new.cumsum(dim=1), (1, 0)).masked_fill(~rows.mask, 0)
    return rows.scatter(numbers), int(numbers.max()) + 1 if numbers.numel() else 1


# ---- Pooling


class Reduction(NamedTuple):
    """
    A pooling that can be computed incrementally.

    Attributes:
        neutral (`float`): The value that changes nothing; it replaces masked words.
        reduce (`Callable`): `(…, words, size)` → `(…, size)`.
        combine (`Callable`): Two results of `reduce` → that of all their words.
        is_mean (`bool`): Whether the result is divided by the number of words.
    """

    neutral: float
    reduce: Callable[..., torch.Tensor]
    combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    is_mean: bool = False


REDUCTIONS = {
    "mean": Reduction(0.0, torch.sum, torch.add, is_mean=True),
    "max": Reduction(-torch.inf, torch.amax, torch.maximum),
    "min": Reduction(torch.inf, torch.amin, torch.minimum),
}
# The poolings that the embedder offers, and those of each pooling of a classifier (`ElmoConfig.pooling`), concatenated.
# "attention" is the mean weighted by a learned score, "sentence" is [`ElmoSentencePooling`].
POOLINGS = ("mean", "max", "sentence")
HEAD_POOLINGS = {
    "mean": ("mean",),
    "max": ("max",),
    "attention": ("attention",),
    "biattentive": ("max", "mean", "min", "attention"),
}
NO_SENTENCE_POOLING = (
    "This model has no sentence pooling: estimate it from text with `ElmoEmbedder.fit_sentence_pooling(sentences)`, or "
    "ask for the mean of the words (`pooling='mean'`)."
)


class PoolingAccumulator:
    """
    Pools words that arrive in parts, without storing them. Sums are computed in fp32 or better.

    Args:
        pooling: A key of `REDUCTIONS`.

    Example:

    ```python
    >>> accumulator = PoolingAccumulator("mean")
    >>> for vectors in parts:  # (words, size) each
    ...     accumulator.add(vectors)
    >>> accumulator.result()  # (size,)
    ```"""

    def __init__(self, pooling: str):
        self._reduction = REDUCTIONS[pooling]
        self._reduced: torch.Tensor | None = None
        self._count: torch.Tensor | int = 0
        self._dtype: torch.dtype | None = None

    def add(self, vectors: torch.Tensor, mask: torch.Tensor | None = None, weights: torch.Tensor | None = None):
        """
        Args:
            vectors: `(…, words, size)`, of the same shape in all calls except for the number of words.
            mask: `(…, words)`, true for words. Default: all.
            weights: `(…, words)`, the weights of a mean, in fp32. Default: all equal.
        """
        neutral, reduce, combine, is_mean = self._reduction
        self._dtype = vectors.dtype
        if weights is not None:
            if not is_mean:
                raise ValueError("Only the mean takes weights.")
            weights = weights if mask is None else weights.masked_fill(~mask, 0)
            vectors = vectors * weights.unsqueeze(-1)
        if mask is not None:
            vectors = vectors.masked_fill(~mask.unsqueeze(-1), neutral)
        if not vectors.shape[-2]:
            reduced = vectors.new_full((*vectors.shape[:-2], vectors.shape[-1]), neutral)
        elif is_mean:
            reduced = reduce(vectors, dim=-2, dtype=torch.promote_types(vectors.dtype, torch.float32))
        else:
            reduced = reduce(vectors, dim=-2)
        self._reduced = reduced if self._reduced is None else combine(self._reduced, reduced)
        if weights is not None:
            self._count = self._count + weights.sum(dim=-1, keepdim=True)
        else:
            self._count = self._count + (vectors.shape[-2] if mask is None else mask.sum(dim=-1, keepdim=True))

    def result(self) -> torch.Tensor:
        """`(…, size)`, zeros where there were no words."""
        reduced, count = self._reduced, self._count
        if reduced is None:
            raise ValueError("There is nothing to pool: call `add` first.")
        if self._reduction.is_mean:  # without words the sum is zero, and so is its quotient by anything
            reduced = reduced / ((count or 1) if isinstance(count, int) else torch.where(count > 0, count, 1))
        elif isinstance(count, int):
            reduced = reduced if count else torch.zeros_like(reduced)
        else:
            reduced = torch.where(count > 0, reduced, 0)
        return reduced.to(self._dtype)


def pool(vectors: torch.Tensor, pooling: str, mask: torch.Tensor | None = None) -> torch.Tensor:
    """
    Args:
        vectors: `(…, words, size)`
        pooling: A key of `REDUCTIONS`.
        mask: `(…, words)`, true for words. Default: all.

    Returns:
        `(…, size)`, zeros where there are no words.
    """
    accumulator = PoolingAccumulator(pooling)
    accumulator.add(vectors, mask)
    return accumulator.result()


class ElmoSentencePooling(nn.Module):
    """
    Sentence vectors whose cosine is a measure of similarity, without training on a task.

    The words of a sentence are averaged with smooth inverse frequency weights (Arora et al. 2017,
    https://openreview.net/forum?id=SyK00v5xx), so that `the` counts less than `violin`. The mean over all sentences is
    then subtracted, and a linear map equalises the variance in all directions, so that directions which all sentences
    share do not dominate the cosine. [`~elmo_hf.ElmoEmbedder.fit_sentence_pooling`] estimates weights, mean and map
    from text.

    Args:
        config ([`ElmoConfig`]): `sentence_layers` are the layers whose vectors are concatenated, `sentence_size` is the
            size of a sentence vector.

    Buffers:
        word_weights (`(vocab_size,)`): The weight of every word of the vocabulary.
        mean (`(len(sentence_layers) * hidden_size,)`): The mean of the averaged words over many sentences.
        projection (`(len(sentence_layers) * hidden_size, sentence_size)`): The linear map.
    """

    word_weights: torch.Tensor
    mean: torch.Tensor
    projection: torch.Tensor

    def __init__(self, config: ElmoConfig):
        super().__init__()
        assert config.sentence_layers is not None
        assert config.sentence_size is not None
        self.layers = list(config.sentence_layers)
        size = len(self.layers) * config.hidden_size
        self.register_buffer("word_weights", torch.ones(config.vocab_size))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("projection", torch.eye(size, config.sentence_size))

    def initialize(self):
        """The plain mean of the words."""
        init.ones_(self.word_weights)
        init.zeros_(self.mean)
        init.copy_(self.projection, torch.eye(*self.projection.shape))

    def weights(self, input_ids: torch.Tensor) -> torch.Tensor:
        """The weight of each word, `(…, words)`, in fp32."""
        return self.word_weights[input_ids.clamp(max=len(self.word_weights) - 1)].float()  # padding is masked later

    def project(self, averages: torch.Tensor) -> torch.Tensor:
        """
        Args:
            averages: `(…, len(sentence_layers), hidden_size)`, the weighted means of the words.

        Returns:
            `(…, sentence_size)`
        """
        centred = averages.flatten(-2).float() - self.mean.float()
        return matmul(centred, self.projection.float()).to(averages.dtype)

    def forward(self, layers: Sequence[torch.Tensor], input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        Args:
            layers: All layers of the model, `(batch, words, hidden_size)` each.
            input_ids: `(batch, words)`
            mask: `(batch, words)`, true for words, false for boundaries and padding.

        Returns:
            `(batch, sentence_size)`, zeros for a sentence without words.
        """
        weights = self.weights(input_ids)
        averages = []
        for layer in self.layers:
            accumulator = PoolingAccumulator("mean")
            accumulator.add(layers[layer], mask, weights)
            averages.append(accumulator.result())
        vectors = self.project(torch.stack(averages, dim=-2))
        return torch.where(mask.any(dim=-1, keepdim=True), vectors, 0)


class ElmoPooling(nn.Module):
    """
    The pooling of a classifier.

    Args:
        kind (`"mean"`, `"max"`, `"attention"` or `"biattentive"`): The mean; the maximum per dimension; the mean
            weighted by a learned score; or maximum, mean, minimum and attention concatenated, as in the paper's
            sentiment model.
        size (`int`): The size of a word's vector.
    """

    def __init__(self, kind: str, size: int):
        super().__init__()
        self.parts = HEAD_POOLINGS[kind]
        self.output_size = len(self.parts) * size
        self.score = ElmoTaskLinear(size, 1) if "attention" in self.parts else None

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        Args:
            words: `(sentences, words, size)`
            mask: `(sentences, words)`, true for words.

        Returns:
            `(sentences, output_size)`, zeros for a sentence without words.
        """
        pooled = [
            self._attention(words, mask) if part == "attention" else pool(words, part, mask) for part in self.parts
        ]
        return torch.cat(pooled, dim=-1)

    def _attention(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        assert self.score is not None
        weights = masked_softmax(self.score(words).squeeze(-1), mask)  # (sentences, words)
        return matmul(weights.unsqueeze(1), words).squeeze(1)  # (sentences, size)


__all__ = [
    "HEAD_POOLINGS",
    "NO_SENTENCE_POOLING",
    "POOLINGS",
    "ElmoPooling",
    "ElmoSentencePooling",
    "ElmoSentences",
    "PoolingAccumulator",
    "number_segments",
    "pool",
    "word_mask",
]
