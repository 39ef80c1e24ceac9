# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""From the characters of a word, or its id, to its context-free vector: layer 0 of ELMo."""

from typing import cast

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .configuration_elmo import ElmoConfig
from .precision_elmo import linear, packed_dtype, product_dtype, round_up
from .products_elmo import PackedMatrix, PackedWeight, needs_gradient
from .quantization_elmo import NO_TRAINING, ElmoInt8Weight, quantize_weight
from .word_cache_elmo import WordCache

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}

# Words convolved at once: the filters' outputs for all positions stay near the cache, and memory stays bounded.
WORDS_PER_CHUNK = 128


def distinct_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The distinct rows of an integer matrix, and for every row its place among them.

    Compares a 64-bit hash of each row, and falls back to comparing the rows themselves in the (never yet seen) case
    that two different rows share one: `torch.unique(dim=0)` alone costs more than the character encoder saves.

    Args:
        rows: `(n, columns)`, integers.

    Returns:
        `(distinct, columns)` and `(n,)`, with `distinct_rows[places] == rows`.
    """
    generator = torch.Generator("cpu").manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (rows.shape[1],), generator=generator, device="cpu").to(rows.device)
    keys, places = torch.unique((rows * factors).sum(dim=1), return_inverse=True)
    holders = torch.empty(len(keys), dtype=torch.long, device=rows.device)
    holders[places] = torch.arange(len(rows), device=rows.device)  # any row of each kind
    distinct = rows[holders]
    if not torch.equal(distinct[places], rows):
        distinct, places = torch.unique(rows, dim=0, return_inverse=True)
    return distinct, places


def _packed(weight: torch.Tensor) -> PackedMatrix:
    return PackedMatrix(weight.T.unsqueeze(0))


class ElmoLinear(nn.Linear):
    """A linear layer in the precision that [`product_dtype`] or [`packed_dtype`] chooses."""

    def __init__(self, inputs: int, outputs: int, initial_bias: float = 0.0, fine_int8: bool = False):
        super().__init__(inputs, outputs)
        self.initial_bias, self.fine_int8 = initial_bias, fine_int8
        self.packed = PackedWeight()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(rows, inputs)` → `(rows, outputs)`"""
        if isinstance(self.weight, ElmoInt8Weight):
            if self.training or needs_gradient(input):
                raise ValueError(NO_TRAINING)
            matrix = self.weight.matrix(slice(1))
        elif needs_gradient(self.bias) or (self.training and self.weight.requires_grad):
            matrix = self.packed.clear()
        else:
            matrix = self.packed.get(self.weight, input, packed_dtype(self.weight), _packed)
        if matrix is None:
            return linear(input, self.weight, self.bias)
        return matrix(input.float().unsqueeze(0), self.bias.float().view(1, 1, -1)).squeeze(0)

    def quantize(self):
        """Turns the weight into int8, in place."""
        if isinstance(self.weight, nn.Parameter):
            quantize_weight(self, "weight", self.weight.unsqueeze(0), self.fine_int8)
            self.packed.clear()


class ElmoHighway(nn.Module):
    """
    `g * relu(transform(x)) + (1 - g) * x` with `g = sigmoid(carry(x))`: the original's "carry" gates the transform.
    """

    def __init__(self, size: int):
        super().__init__()
        self.transform = ElmoLinear(size, size)
        self.carry = ElmoLinear(size, size, initial_bias=-2.0)  # starts close to passing its input on

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.carry(inputs))
        return inputs + gate * (torch.relu(self.transform(inputs)) - inputs)


class ElmoConvolution(nn.Module):
    """Filters of one width over the characters of words, and their largest response."""

    def __init__(self, size: int, width: int, number: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(number, size, width))  # as in `nn.Conv1d`
        self.bias = nn.Parameter(torch.empty(number))

    def forward(self, chars: torch.Tensor) -> torch.Tensor:
        """
        Args:
            chars: `(words, slots, size)`

        Returns:
            `(words, number)`
        """
        dtype = product_dtype(self.weight)
        chars, weight = chars.to(dtype), self.weight.to(dtype)
        if needs_gradient(chars, weight):
            return _LargestResponses.apply(chars, weight) + self.bias
        return _responses(_windows(chars, weight), weight).amax(dim=1) + self.bias


def _windows(chars: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What each filter sees at each position, `(words, positions, size * width)`."""
    return chars.unfold(1, weight.shape[2], 1).flatten(2)


def _responses(windows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """
    `(words, positions, number)`, as one product over all windows: 2-4x faster on a CPU than conv1d with so few input
    channels.
    """
    with torch.autocast(windows.device.type, enabled=False):  # both have the precision of the product
        return F.linear(windows, weight.flatten(1))


class _LargestResponses(torch.autograd.Function):
    """
    The largest response of every filter, with its gradient. All that stays of the responses is where the largest were:
    by far the most memory of a training step would be theirs otherwise. Where several are the largest, mostly of equal
    windows, one of them gets the gradient.
    """

    @staticmethod
    def forward(ctx, chars, weight):
        responses = _responses(_windows(chars, weight), weight)
        largest = responses.amax(dim=1)
        # The greatest position of a largest response: in bytes far faster than `argmax`.
        positions = responses.shape[1]
        dtype = torch.uint8 if positions <= 256 else torch.int64
        order = torch.arange(positions, dtype=dtype, device=chars.device).unsqueeze(1)
        places = ((responses == largest.unsqueeze(1)).to(dtype) * order).amax(dim=1)  # (words, number)
        ctx.save_for_backward(chars, weight, places)
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx, d_largest):
        with torch.autocast(d_largest.device.type, enabled=False):
            return _LargestResponses._gradients(d_largest, *ctx.saved_tensors)

    @staticmethod
    def _gradients(d_largest, chars, weight, places):
        windows = _windows(chars, weight)
        d_responses = d_largest.new_zeros(*windows.shape[:2], len(weight))
        d_responses.scatter_(1, places.long().unsqueeze(1), d_largest.unsqueeze(1))
        d_weight = d_responses.flatten(0, 1).mT @ windows.flatten(0, 1)  # (number, size * width)
        d_windows = (d_responses @ weight.flatten(1)).unflatten(2, weight.shape[1:])
        d_chars = torch.zeros_like(chars)
        for offset in range(weight.shape[2]):
            d_chars[:, offset : offset + windows.shape[1]] += d_windows[..., offset]
        return d_chars, d_weight.view_as(weight)


class ElmoCharacterEncoder(nn.Module):
    """Characters of a word → embeddings → convolutions → maximum over positions → activation → highway layers."""

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.char_pad_id = config.char_pad_id
        self.widest_filter = max(width for width, _ in config.char_filters)
        self.activation = ACTIVATIONS[config.char_activation]
        self.char_embeddings = nn.Embedding(config.char_vocab_size, config.char_embedding_size, padding_idx=0)
        self.convolutions = nn.ModuleList(
            ElmoConvolution(config.char_embedding_size, width, number) for width, number in config.char_filters
        )
        self.highways = nn.ModuleList(ElmoHighway(config.char_feature_size) for _ in range(config.num_highway_layers))

    def forward(self, char_ids: torch.Tensor) -> torch.Tensor:
        """
        Args:
            char_ids: `(words, max_characters_per_token)`.

        Returns:
            `(words, char_feature_size)`
        """
        words = len(char_ids)
        char_ids = F.pad(char_ids, (0, 0, 0, round_up(words, self.char_embeddings.weight) - words))
        features = torch.cat([self._convolve(chunk) for chunk in self._trimmed_chunks(char_ids)])
        features = self.activation(features)
        for highway in self.highways:
            features = highway(features)
        return features[:words]

    def lengths(self, char_ids: torch.Tensor) -> torch.Tensor:
        """`(words, slots)` → the slots that each word uses, marks included, `(words,)`"""
        used = (char_ids != self.char_pad_id) & (char_ids != 0)
        return (used * torch.arange(1, char_ids.shape[1] + 1, device=char_ids.device)).amax(dim=1)

    def _trimmed_chunks(self, char_ids: torch.Tensor) -> list[torch.Tensor]:
        """
        Some words at a time, without slots that none of them uses. Exact: all windows of nothing but character pads
        give one value, and one such window of every filter remains.
        """
        if not len(char_ids):
            return [char_ids]
        longest = [lengths.max() for lengths in self.lengths(char_ids).split(WORDS_PER_CHUNK)]
        chunks = zip(char_ids.split(WORDS_PER_CHUNK), torch.stack(longest).tolist(), strict=True)
        return [chunk[:, : length + self.widest_filter] for chunk, length in chunks]

    def _convolve(self, char_ids: torch.Tensor) -> torch.Tensor:
        """`(words, slots)` → the largest response of every filter, `(words, char_feature_size)`."""
        chars = self.char_embeddings(char_ids)  # (words, slots, char_embedding_size)
        chars = chars.to(product_dtype(chars))  # the table itself may be elsewhere, offloaded
        return torch.cat([convolution(chars) for convolution in self.convolutions], dim=-1)


def can_be_cached(weight: torch.Tensor) -> bool:
    """Whether vectors made with it may be kept: it is in this machine's memory, and they are fp32."""
    return weight.device.type == "cpu" and weight.dtype != torch.float64


class ElmoTokenEncoder(nn.Module):
    """The token vector: from characters, from a word table, or from both; each distinct word is computed once."""

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.word_embeddings = self.characters = self.projection = None
        self.word_cache: WordCache | None = None
        if config.uses_words:
            padding, size = cast(int, config.pad_token_id), cast(int, config.word_embedding_size)
            self.word_embeddings = nn.Embedding(max(config.vocab_size, padding + 1), size, padding_idx=padding)
        if config.uses_characters:
            self.characters = ElmoCharacterEncoder(config)
        if config.token_projection:
            # Errors here are in all layers, and the product is a small one.
            self.projection = ElmoLinear(config.feature_size, config.output_size, fine_int8=True)

    def forward(self, char_ids: torch.Tensor | None, input_ids: torch.Tensor | None) -> torch.Tensor:
        """
        Args:
            char_ids: `(tokens, max_characters_per_token)`; `None` where the model does not read characters.
            input_ids: `(tokens,)`; `None` where the model does not read words.

        Returns:
            `(tokens, output_size)`
        """
        columns = [ids.reshape(len(ids), -1) for ids in (input_ids, char_ids) if ids is not None]
        tokens, places = distinct_rows(torch.cat(columns, dim=-1).long())
        if self.characters is not None and char_ids is not None:  # short words need fewer convolutions than long ones
            order = self.characters.lengths(tokens[:, -char_ids.shape[1] :]).argsort(stable=True)
            tokens, places = tokens[order], order.argsort()[places]
        weights = list(self.parameters())
        if self.word_cache is None:
            return self.encode(tokens)[places]
        if needs_gradient(*weights) or not all(can_be_cached(weight) for weight in weights):
            self.word_cache.clear()  # where weights learn they will be others soon
            return self.encode(tokens)[places]
        return self.word_cache.vectors(tokens, self.encode, weights)[places]

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        """Word ids and character ids side by side, `(tokens, columns)` → `(tokens, output_size)`"""
        features = []
        if self.word_embeddings is not None:
            features.append(self.word_embeddings(tokens[:, 0]))
            tokens = tokens[:, 1:]
        if self.characters is not None:
            features.append(self.characters(tokens))
        vectors = torch.cat(features, dim=-1)  # (distinct tokens, feature_size)
        if self.projection is not None:
            vectors = self.projection(vectors)
        return vectors


__all__ = ["ElmoCharacterEncoder", "ElmoConvolution", "ElmoHighway", "ElmoLinear", "ElmoTokenEncoder", "distinct_rows"]
