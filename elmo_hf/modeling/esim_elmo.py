# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
ESIM, the paper's entailment model (Chen et al. 2017, https://arxiv.org/abs/1609.06038), after its encoder: local
inference, composition, pooling, and a hidden layer.
"""

import torch
from torch import nn

from .pooling_elmo import pool
from .task_layers_elmo import ElmoCrossAttention, ElmoTaskLinear


class ElmoEsim(nn.Module):
    """
    From the words of two texts to one vector of the pair.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of the hidden layers, and of each direction of the composition BiLSTM.
        dropout (`float`): Dropout before the hidden layer, in training only.
    """

    def __init__(self, input_size: int, size: int, dropout: float = 0.0):
        super().__init__()
        self.attention = ElmoCrossAttention(input_size, size)
        self.hidden = ElmoTaskLinear(8 * size, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        Args:
            words: `(2 * pairs, words, input_size)`, the two texts of a pair adjacent.
            mask: `(2 * pairs, words)`, true for words, which come first.

        Returns:
            `(pairs, size)`
        """
        composed = self.attention(words, mask)  # (2 * pairs, words, 2 * size)
        texts = torch.cat([pool(composed, "mean", mask), pool(composed, "max", mask)], dim=-1)  # (2 * pairs, 4 * size)
        pairs = texts.unflatten(0, (-1, 2)).flatten(1)  # (pairs, 8 * size)
        return torch.relu(self.hidden(self.dropout(pairs)))


__all__ = ["ElmoEsim"]
