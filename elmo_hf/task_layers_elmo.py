# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""What a head puts on top of ELMo: a BiLSTM, attention within a sentence or between two, and pooling."""

import torch
from torch import nn

from .precision_elmo import apply_module, matmul


class ElmoTaskLSTM(nn.Module):
    """
    A bidirectional LSTM over sentences of different lengths.

    The directions are layers of their own, and the backward ones read each sentence from its own end: what is padding
    then comes last and changes nothing, and torch can run the fused kernels that it has for full batches instead of
    the packed sequences' loop.

    Args:
        input_size, size (`int`): Of a word's vector before, and of each direction's output.
        num_layers (`int`): How many, one on top of the other.
        dropout (`float`): Between them, in training only.
    """

    def __init__(self, input_size: int, size: int, num_layers: int = 1, dropout: float = 0.0):
        super().__init__()
        sizes = [input_size] + [2 * size] * (num_layers - 1)
        self.size = size
        self.forward_layers = nn.ModuleList(nn.LSTM(layer_input, size, batch_first=True) for layer_input in sizes)
        self.backward_layers = nn.ModuleList(nn.LSTM(layer_input, size, batch_first=True) for layer_input in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        Args:
            words: `(sentences, words, input_size)`
            mask: `(sentences, words)`, true for the first words of each row.

        Returns:
            `(sentences, words, 2 * size)`, zero where masked.
        """
        if not words.numel():
            return words.new_zeros(*mask.shape, 2 * self.size)
        places = torch.arange(mask.shape[1], device=mask.device)
        mirrored = mask.sum(dim=1, keepdim=True) - 1 - places  # (sentences, words): where each word's mirror image is
        mirrored = torch.where(mask, mirrored, places)
        for number, (ahead, back) in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            if number:
                words = self.dropout(words)
            backward = _reordered(apply_module(back, _reordered(words, mirrored))[0], mirrored)
            words = torch.cat([apply_module(ahead, words)[0], backward], dim=-1)
        return words.masked_fill(~mask.unsqueeze(-1), 0)


def _reordered(words: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """`(sentences, words, size)` with the words of each sentence in the `order` `(sentences, words)`."""
    return words.gather(1, order.unsqueeze(-1).expand(-1, -1, words.shape[-1]))


def attend(words: torch.Tensor, others: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """
    For each word the mean of other words, weighted by how well they fit it (the softmax of their products).

    Args:
        words: `(sentences, words, size)`
        others: `(sentences, others, size)`
        mask: `(sentences, others)`; where a sentence has none, zeros come out.

    Returns:
        `(sentences, words, size)`
    """
    return matmul(masked_softmax(matmul(words, others.mT), mask.unsqueeze(1)), others)


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Over the last axis, among the unmasked; all zeros where there are none."""
    shares = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min).softmax(dim=-1)
    return (shares * mask).to(scores.dtype)


class ElmoBiattention(nn.Module):
    """
    The biattentive network of the paper's sentiment model (McCann et al. 2017), after its encoder: each word meets what
    it attends to in its sentence, and a BiLSTM integrates both.

    Args:
        input_size, size (`int`): Of a word's vector before, and of each direction's output.
    """

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.integrate = ElmoTaskLSTM(3 * input_size, size)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, 2 * size)`"""
        met = attend(words, words, mask)
        return self.integrate(torch.cat([words, words - met, words * met], dim=-1), mask)


class ElmoCrossAttention(nn.Module):
    """
    The inference between two sentences of ESIM (Chen et al. 2017): each word meets what it attends to in the other
    sentence, and a BiLSTM composes both.

    Args:
        input_size, size (`int`): Of a word's vector before, and of each direction's output.
    """

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.project = nn.Linear(4 * input_size, size)
        self.compose = ElmoTaskLSTM(size, size)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(2 * pairs, words, input_size)`, the sentences of a pair in turn → `(2 * pairs, words, 2 * size)`"""
        others = words.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
        met = attend(words, others, mask.unflatten(0, (-1, 2)).flip(1).flatten(0, 1))
        enhanced = torch.cat([words, met, words - met, words * met], dim=-1)
        return self.compose(torch.relu(apply_module(self.project, enhanced)), mask)


class ElmoPooling(nn.Module):
    """
    One vector from the words of a sentence.

    Args:
        kind (`"mean"`, `"max"`, `"attention"` or `"biattentive"`): The mean; the maximum in each place; the mean
            weighted by a learned score; or all of these and the minimum side by side, as in the paper's sentiment
            model.
        size (`int`): Of a word's vector.
    """

    def __init__(self, kind: str, size: int):
        super().__init__()
        self.kind = kind
        self.output_size = 4 * size if kind == "biattentive" else size
        self.score = nn.Linear(size, 1) if kind in ("attention", "biattentive") else None

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, size)` → `(sentences, output_size)`; zeros for a sentence without words."""
        pools = ("max", "mean", "min", "attention") if self.kind == "biattentive" else (self.kind,)
        return torch.cat([self._pool(words, mask, pool) for pool in pools], dim=-1)

    def _pool(self, words: torch.Tensor, mask: torch.Tensor, pool: str) -> torch.Tensor:
        is_word, number = mask.unsqueeze(-1), mask.sum(dim=1, keepdim=True)
        if pool == "mean":
            return (words * is_word).sum(dim=1) / number.clamp(min=1)
        if pool == "attention":
            assert self.score is not None
            shares = masked_softmax(apply_module(self.score, words).squeeze(-1), mask)  # (sentences, words)
            return matmul(shares.unsqueeze(1), words).squeeze(1)
        most = torch.finfo(words.dtype).max
        found = (
            words.masked_fill(~is_word, -most).amax(dim=1)
            if pool == "max"
            else words.masked_fill(~is_word, most).amin(dim=1)
        )
        return found * (number > 0)


__all__ = ["ElmoBiattention", "ElmoCrossAttention", "ElmoPooling", "ElmoTaskLSTM", "attend", "masked_softmax"]
