# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""From the characters of a word, or its id, to its context-free vector: layer 0 of ELMo."""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .configuration_elmo import ElmoConfig
from .precision_elmo import linear, packed_dtype, product_dtype, round_up, without_autocast
from .products_elmo import ROWS_PER_BLOCK, PackedMatrix, PackedWeight, can_pack, filled, needs_gradient
from .quantization_elmo import NO_TRAINING, ElmoInt8Weight, quantize_weight
from .word_cache_elmo import WordCache

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "none": lambda x: x}

# Windows of characters that the filters see at once: what they answer stays near the cache, and memory stays bounded.
# Filters of several widths together (`PackedFilters`) answer more at once.
WINDOWS_PER_CHUNK = 1536
WINDOWS_PER_PACKED_CHUNK = ROWS_PER_BLOCK
# For every number of rows a kernel is made and kept: so windows, and words where they are many, are filled up to a
# multiple of this.
FILLED = 32


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
    keys, places = torch.unique((rows * _factors(rows.shape[1], rows.device)).sum(dim=1), return_inverse=True)
    numbers = torch.arange(len(rows), device=rows.device)
    holders = torch.empty_like(keys).scatter_(0, places, numbers)  # any row of each kind
    distinct = rows.index_select(0, holders)
    if not torch.equal(distinct.index_select(0, places), rows):
        distinct, places = torch.unique(rows, dim=0, return_inverse=True)
    return distinct, places


def rows_at(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """`rows[places]`. The faster way would add up gradients in any order where that is done in parallel, on a GPU."""
    return rows.index_select(0, places) if rows.device.type == "cpu" else rows[places]


@functools.cache
def _factors(columns: int, device: torch.device) -> torch.Tensor:
    """Of the hash, `(columns,)`."""
    generator = torch.Generator("cpu").manual_seed(0)
    with torch.inference_mode(False):  # they are for all calls
        return torch.randint(-(2**62), 2**62, (columns,), generator=generator, device="cpu").to(device)


def _packed(weight: torch.Tensor) -> PackedMatrix:
    return PackedMatrix(weight.T.unsqueeze(0))


class ElmoLinear(nn.Linear):
    """A linear layer in the precision that [`product_dtype`] or [`packed_dtype`] chooses."""

    def __init__(self, inputs: int, outputs: int, initial_bias: float = 0.0, fine_int8: bool = False):
        super().__init__(inputs, outputs)
        self.initial_bias, self.fine_int8 = initial_bias, fine_int8
        self.packed = PackedWeight()

    def forward(self, input: torch.Tensor, activation: str = "none") -> torch.Tensor:
        """`(rows, inputs)` → `(rows, outputs)`, through one of the `ACTIVATIONS`."""
        if isinstance(self.weight, ElmoInt8Weight):
            if self.training or needs_gradient(input):
                raise ValueError(NO_TRAINING)
            matrix = self.weight.matrix(slice(1))
        elif needs_gradient(self.bias) or (self.training and self.weight.requires_grad):
            matrix = self.packed.clear()
        else:
            matrix = self.packed.get(input, packed_dtype(self.weight), _packed, self.weight)
        if matrix is None:
            return ACTIVATIONS[activation](linear(input, self.weight, self.bias))
        rows, bias = input.float().unsqueeze(0), self.bias.float().view(1, 1, -1)
        if isinstance(matrix, PackedMatrix):
            return matrix(rows, bias, activation).squeeze(0)
        return ACTIVATIONS[activation](matrix(rows, bias).squeeze(0))

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
        gate, transformed = self.carry(inputs, "sigmoid"), self.transform(inputs, "relu")
        return torch.lerp(inputs, transformed.to(inputs.dtype), gate.to(inputs.dtype))


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
    with without_autocast(windows.device):  # both have the precision of the product
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
        with without_autocast(d_largest.device):
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


class PackedFilters:
    """
    The filters of all widths as one matrix, each as if it were as wide as the widest, with zeros for the characters
    behind its own: one product over all windows, and their largest answer.

    Args:
        weights: Of every width, `(number, size, width)`.
    """

    def __init__(self, *weights: torch.Tensor):
        self.widest = max(weight.shape[2] for weight in weights)
        rows = [F.pad(weight.mT, (0, 0, 0, self.widest - weight.shape[2])).flatten(1) for weight in weights]
        self.matrix = PackedMatrix(torch.cat(rows).T.unsqueeze(0))

    def __call__(self, chars: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """`(words, slots, size)` → `(words, filters)`; the bias is `(filters,)`."""
        windows = chars.unfold(1, self.widest, 1).mT  # (words, positions, widest, size)
        words, positions, widest, size = windows.shape
        number = words * positions
        rows = chars.new_empty(1, number + -number % FILLED, widest * size)
        rows[0, :number].view(windows.shape).copy_(windows)
        rows[0, number:].zero_()
        return self.matrix(rows, bias.view(1, 1, -1))[0, :number].view(words, positions, -1).amax(dim=1)


class WordChunk(NamedTuple):
    """Words that follow each other, from `first` to before `end`, and how many slots the longest uses."""

    first: int
    end: int
    longest: int


def word_chunks(lengths: Iterable[int], windows: int) -> list[WordChunk]:
    """
    As many words at a time as have so many windows of the widest filter, without slots that none of them uses.

    Args:
        lengths: Slots that each word uses.
        windows: The most, or those of a single word.
    """
    chunks: list[WordChunk] = []
    first = end = longest = 0
    for end, length in enumerate(lengths):
        together = max(longest, length)
        if end > first and (end + 1 - first) * (together + 1) > windows:
            chunks.append(WordChunk(first, end, longest))
            first, together = end, length
        longest = together
    return [*chunks, WordChunk(first, end + 1, longest)]


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
        self.packed_filters = PackedWeight()

    def forward(self, char_ids: torch.Tensor) -> torch.Tensor:
        """
        Args:
            char_ids: `(words, max_characters_per_token)`; words of similar length side by side cost least.

        Returns:
            `(words, char_feature_size)`
        """
        words = len(char_ids)
        if missing := round_up(words, self.char_embeddings.weight) - words:
            char_ids = F.pad(char_ids, (0, 0, 0, missing))
        filters = self._filters() if words else None
        chunks = word_chunks(
            self.lengths(char_ids).tolist(), WINDOWS_PER_CHUNK if filters is None else WINDOWS_PER_PACKED_CHUNK
        )
        features = torch.cat([self._convolve(char_ids[first:end], longest, filters) for first, end, longest in chunks])
        features = self.activation(features)
        for highway in self.highways:
            features = highway(features)
        return features[:words]

    def lengths(self, char_ids: torch.Tensor) -> torch.Tensor:
        """`(words, slots)` → the slots that each word uses, marks included, `(words,)`"""
        used = (char_ids != self.char_pad_id) & (char_ids != 0)
        return (used * torch.arange(1, char_ids.shape[1] + 1, device=char_ids.device)).amax(dim=1)

    def _filters(self) -> Callable[[torch.Tensor], torch.Tensor] | None:
        """All convolutions in one, for products without a gradient; `None` where nothing may be packed."""
        convolutions = cast(list[ElmoConvolution], self.convolutions)
        weights, biases = zip(*((convolution.weight, convolution.bias) for convolution in convolutions), strict=True)
        if needs_gradient(*biases) or (self.training and any(weight.requires_grad for weight in weights)):
            return self.packed_filters.clear()
        packed = self.packed_filters.get(self.char_embeddings.weight, torch.float32, PackedFilters, *weights)
        return None if packed is None else functools.partial(packed, bias=torch.cat(biases))

    def _convolve(
        self, char_ids: torch.Tensor, longest: int, filters: Callable[[torch.Tensor], torch.Tensor] | None
    ) -> torch.Tensor:
        """
        The largest response of every filter. Slots behind the longest word and the widest filter are cut off. That is
        exact: all windows of nothing but character pads give one value, and one such window of every filter remains.

        Args:
            char_ids: `(words, slots)`
            longest: Slots that are used.

        Returns:
            `(words, char_feature_size)`
        """
        slots = longest + self.widest_filter
        chars = self.char_embeddings(char_ids[:, :slots])  # (words, slots, char_embedding_size)
        chars = chars.to(product_dtype(chars))  # the table itself may be elsewhere, offloaded
        # Filters as wide as the widest look as far as its last window. In a very long word others look further.
        if filters is not None and slots <= char_ids.shape[1]:
            return filters(chars.float())
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
            tokens, places = tokens.index_select(0, order), order.argsort().index_select(0, places)
        if self.word_cache is None:
            return rows_at(self.encode(tokens), places)
        weights = list(self.parameters())
        if needs_gradient(*weights) or not all(can_be_cached(weight) for weight in weights):
            self.word_cache.clear()  # where weights learn they will be others soon
            return rows_at(self.encode(tokens), places)
        return rows_at(self.word_cache.vectors(tokens, self.encode, weights), places)

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        """Word ids and character ids side by side, `(tokens, columns)` → `(tokens, output_size)`"""
        learns = torch.is_grad_enabled() and needs_gradient(*self.parameters())  # walks them only where it must
        if learns or not can_pack(tokens, self._table.weight):
            return self._encode(tokens)
        number = len(tokens)
        if missing := filled(number) - number if number <= 2 * FILLED else -number % FILLED:
            tokens = F.pad(tokens, (0, 0, 0, missing))
        # Some at a time: what the layers give stays near the cache.
        blocks = [self._encode(block) for block in tokens.split(ROWS_PER_BLOCK)]
        return (torch.cat(blocks) if len(blocks) > 1 else blocks[0])[:number]

    @property
    def _table(self) -> nn.Embedding:
        """Where tokens are looked up first."""
        characters = cast(ElmoCharacterEncoder, self.characters)
        return characters.char_embeddings if self.word_embeddings is None else self.word_embeddings

    def _encode(self, tokens: torch.Tensor) -> torch.Tensor:
        features = []
        if self.word_embeddings is not None:
            features.append(self.word_embeddings(tokens[:, 0]))
            tokens = tokens[:, 1:]
        if self.characters is not None:
            features.append(self.characters(tokens))
        vectors = features[0] if len(features) == 1 else torch.cat(features, dim=-1)  # (distinct tokens, feature_size)
        if self.projection is not None:
            vectors = self.projection(vectors)
        return vectors


__all__ = [
    "ElmoCharacterEncoder",
    "ElmoConvolution",
    "ElmoHighway",
    "ElmoLinear",
    "ElmoTokenEncoder",
    "distinct_rows",
    "word_chunks",
]
