# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The words of a batch without boundaries, and as the task layers see them: one sentence a row, left-aligned."""

from dataclasses import dataclass

import torch

from .characters_elmo import BEGIN_SENTENCE, END_SENTENCE
from .configuration_elmo import ElmoConfig


def word_mask(
    config: ElmoConfig, input_ids: torch.Tensor | None, char_ids: torch.Tensor | None, mask: torch.Tensor
) -> torch.Tensor:
    """
    The mask without boundaries.

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
        second = char_ids[..., 1]
        return mask & (second != BEGIN_SENTENCE) & (second != END_SENTENCE)
    ends = config.eos_token_id
    is_word = mask & (input_ids != config.bos_token_id)
    for end in ends if isinstance(ends, list) else [ends]:
        is_word = is_word & (input_ids != end)
    return is_word


@dataclass
class ElmoSentences:
    """
    Where the sentences of a batch are. A sentence is a row of the batch, or a segment of it (a pair has two).

    Attributes:
        places (`torch.LongTensor` of shape `(sentences, longest)`): The place of each word in the batch, counted over
            all rows; 0 where there is no word.
        mask (`torch.BoolTensor` of shape `(sentences, longest)`): Where there is one: the first words of each row.
        batch_shape (`torch.Size`): `(batch, words)`.
    """

    places: torch.Tensor
    mask: torch.Tensor
    batch_shape: torch.Size

    @classmethod
    def of(cls, is_word: torch.Tensor, segments: torch.Tensor | None = None, num_segments: int = 1) -> "ElmoSentences":
        """
        Args:
            is_word: `(batch, words)`, false for boundaries and padding, which may be anywhere.
            segments: `(batch, words)`, the number of each word's segment; each batch row gives `num_segments`
                sentences, one after the other.
        """
        if segments is None:
            kinds = is_word.unsqueeze(1)  # (batch, segments, words)
        else:
            numbers = torch.arange(num_segments, device=segments.device)
            kinds = is_word.unsqueeze(1) & (segments.unsqueeze(1) == numbers.unsqueeze(1))
        kinds = kinds.flatten(0, 1)  # (sentences, words)
        lengths = kinds.sum(dim=1)
        longest = max(int(lengths.max()) if len(lengths) else 0, 1)
        mask = torch.arange(longest, device=is_word.device) < lengths.unsqueeze(1)
        order = kinds.logical_not().to(torch.uint8).argsort(dim=1, stable=True)[:, :longest]  # words first
        if not is_word.shape[1]:
            order = order.new_zeros(mask.shape)
        row = torch.arange(len(kinds), device=is_word.device) // (len(kinds) // max(len(is_word), 1) or 1)
        places = (order + row.unsqueeze(1) * is_word.shape[1]).masked_fill(~mask, 0)
        return cls(places, mask, is_word.shape)

    def gather(self, vectors: torch.Tensor) -> torch.Tensor:
        """`(batch, words, …)` → `(sentences, longest, …)`, zero where there is no word."""
        if not self.batch_shape.numel():
            return vectors.new_zeros(*self.mask.shape, *vectors.shape[2:])
        found = vectors.flatten(0, 1)[self.places]
        return found.masked_fill(~self.mask.view(*self.mask.shape, *[1] * (found.ndim - 2)), 0)

    def scatter(self, vectors: torch.Tensor) -> torch.Tensor:
        """`(sentences, longest, …)` → `(batch, words, …)`, zero where there is no word."""
        spread = vectors.new_zeros(self.batch_shape.numel(), *vectors.shape[2:])
        spread[self.places[self.mask]] = vectors[self.mask]
        return spread.unflatten(0, self.batch_shape)


__all__ = ["ElmoSentences", "word_mask"]
