# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""From the characters of a word, or its id, to its context-free vector: layer 0 of ELMo."""

import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers import initialization as init

from .configuration_elmo import ElmoConfig
from .products_elmo import (
    ROWS_PER_BLOCK,
    PackedMatrix,
    PackedWeights,
    WeightKey,
    has_onednn,
    linear,
    needs_gradient,
    packed_dtype,
    product_dtype,
    round_up_rows,
    uses_plain_engine,
    weight_key,
    without_autocast,
)
from .quantization_elmo import NO_TRAINING, ElmoInt8Weight, has_int8_products, quantize_weight

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}

# Character windows per chunk of the filters, so that their responses fit into the cache and memory is bounded.
WINDOWS_PER_CHUNK = 1536


def distinct_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The distinct rows of an integer matrix, and the index of each row among them.

    Compares 64-bit hashes of the rows. If two different rows have the same hash, which was never seen, it compares the
    rows themselves. (`torch.unique(dim=0)` for every batch would take longer than the character encoder saves.)

    Args:
        rows: `(n, columns)`, integers.

    Returns:
        `distinct`, `(distinct, columns)`, and `inverse`, `(n,)`, with `distinct[inverse] == rows`.
    """
    keys, inverse = torch.unique((rows * _factors(rows.shape[1], rows.device)).sum(dim=1), return_inverse=True)
    indices = torch.arange(len(rows), device=rows.device)
    examples = torch.empty_like(keys).scatter_(0, inverse, indices)  # one row per hash
    distinct = rows.index_select(0, examples)
    if not torch.equal(distinct.index_select(0, inverse), rows):
        distinct, inverse = torch.unique(rows, dim=0, return_inverse=True)
    return distinct, inverse


def rows_at(rows: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """`rows[indices]`. `index_select` is faster, but on a GPU it would sum gradients in a random order."""
    return rows.index_select(0, indices) if rows.device.type == "cpu" else rows[indices]


@functools.cache
def _factors(columns: int, device: torch.device) -> torch.Tensor:
    """The factors of the hash, `(columns,)`."""
    generator = torch.Generator("cpu").manual_seed(0)
    with torch.inference_mode(False):  # later calls may be outside of inference mode
        return torch.randint(-(2**62), 2**62, (columns,), generator=generator, device="cpu").to(device)


class ElmoLinear(nn.Linear):
    """A linear layer in the precision of [`product_dtype`], packed for inference on a CPU."""

    def __init__(self, inputs: int, outputs: int, initial_bias: float = 0.0, fine_int8: bool = False):
        super().__init__(inputs, outputs)
        self.initial_bias, self.fine_int8 = initial_bias, fine_int8
        self.packed = PackedWeights()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(rows, inputs)` → `(rows, outputs)`"""
        if isinstance(self.weight, ElmoInt8Weight):
            return self._int8_forward(input, self.weight)
        learns = needs_gradient(input, self.weight, self.bias) or (self.training and self.weight.requires_grad)
        if learns or not self.packed.usable(self, self.weight):
            self.packed.clear()
            return linear(input, self.weight, self.bias)
        matrix = self.packed.get("weight", packed_dtype(self.weight.dtype, input.device), _pack_linear, self.weight)
        return matrix(input, self.bias)

    def _int8_forward(self, input: torch.Tensor, weight: ElmoInt8Weight) -> torch.Tensor:
        if self.training or needs_gradient(input):
            raise ValueError(NO_TRAINING)
        rows, bias = input.float(), self.bias.float()
        if has_int8_products(input.device):
            return weight.matrices()[0](rows, bias)
        with without_autocast(input.device):
            return F.linear(rows, weight.dequantize()[0], bias)

    def initialize(self):
        """The original's initialisation: normal, a constant bias."""
        if isinstance(self.weight, nn.Parameter):
            init.normal_(self.weight, std=1 / math.sqrt(self.in_features))
        init.constant_(self.bias, self.initial_bias)

    def quantize(self):
        """Turns the weight into int8, in place."""
        if isinstance(self.weight, nn.Parameter):
            quantize_weight(self, "weight", self.weight.unsqueeze(0), self.fine_int8)
            self.packed.clear()


def _pack_linear(weight: torch.Tensor) -> PackedMatrix:
    return PackedMatrix(weight.T)


class ElmoHighway(nn.Module):
    """
    `g * relu(transform(x)) + (1 - g) * x` with `g = sigmoid(carry(x))`: the original's "carry" gates the transform.
    """

    def __init__(self, size: int):
        super().__init__()
        self.transform = ElmoLinear(size, size)
        self.carry = ElmoLinear(size, size, initial_bias=-2.0)  # at the start the output is close to the input

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`(words, size)` → `(words, size)`"""
        gate, transformed = torch.sigmoid(self.carry(inputs)), torch.relu(self.transform(inputs))
        return torch.lerp(inputs, transformed.to(inputs.dtype), gate.to(inputs.dtype))


class ElmoConvolution(nn.Module):
    """Filters of one width over the characters of words, and the largest response of each."""

    def __init__(self, size: int, width: int, num_filters: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_filters, size, width))  # as in `nn.Conv1d`
        self.bias = nn.Parameter(torch.empty(num_filters))

    def initialize(self):
        """The original's initialisation."""
        init.uniform_(self.weight, -0.05, 0.05)
        init.zeros_(self.bias)

    def forward(self, chars: torch.Tensor) -> torch.Tensor:
        """
        Args:
            chars: `(words, slots, size)`

        Returns:
            `(words, filters)`
        """
        dtype = product_dtype(self.weight.dtype, chars.device)
        chars, weight = chars.to(dtype), self.weight.to(dtype)
        if needs_gradient(chars, weight) and not uses_plain_engine():
            return _LargestResponses.apply(chars, weight) + self.bias
        return _responses(_windows(chars, weight), weight).amax(dim=1) + self.bias


def _windows(chars: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The characters that a filter reads at each position, `(words, positions, size * width)`."""
    return chars.unfold(1, weight.shape[2], 1).flatten(2)


def _responses(windows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """
    `(words, positions, filters)`, as one product over all windows: 2 to 4 times as fast as conv1d on a CPU, because
    there are few input channels.
    """
    with without_autocast(windows.device):  # both have the precision of the product
        return F.linear(windows, weight.flatten(1))


class _LargestResponses(torch.autograd.Function):
    """
    The largest response of each filter, with its gradient. Only the positions of the largest responses are stored: the
    responses would take most of the memory of a training step. If several responses are the largest, mostly those of
    equal windows, one of them gets the gradient.
    """

    @staticmethod
    def forward(ctx, chars, weight):
        responses = _responses(_windows(chars, weight), weight)
        largest = responses.amax(dim=1)
        # The last position of the largest response. With bytes this is far faster than `argmax`.
        positions = responses.shape[1]
        dtype = torch.uint8 if positions <= 256 else torch.int64
        order = torch.arange(positions, dtype=dtype, device=chars.device).unsqueeze(1)
        places = ((responses == largest.unsqueeze(1)).to(dtype) * order).amax(dim=1)  # (words, filters)
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
        d_weight = d_responses.flatten(0, 1).mT @ windows.flatten(0, 1)  # (filters, size * width)
        d_windows = (d_responses @ weight.flatten(1)).unflatten(2, weight.shape[1:])
        d_chars = torch.zeros_like(chars)
        for offset in range(weight.shape[2]):
            d_chars[:, offset : offset + windows.shape[1]] += d_windows[..., offset]
        return d_chars, d_weight.view_as(weight)


class WordChunk(NamedTuple):
    """Consecutive words, from `first` to `end` (exclusive), and the number of slots that the longest uses."""

    first: int
    end: int
    longest: int


def word_chunks(lengths: Iterable[int], windows: int) -> list[WordChunk]:
    """
    Groups consecutive words so that the widest filter has at most `windows` windows per chunk. Slots that no word of a
    chunk uses do not count.

    Args:
        lengths: The number of slots that each word uses.
        windows: The maximum per chunk. A chunk has at least one word.
    """
    chunks: list[WordChunk] = []
    first = end = longest = 0
    for end, length in enumerate(lengths):
        longest_with_word = max(longest, length)
        if end > first and (end + 1 - first) * (longest_with_word + 1) > windows:
            chunks.append(WordChunk(first, end, longest))
            first, longest_with_word = end, length
        longest = longest_with_word
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
            ElmoConvolution(config.char_embedding_size, width, filters) for width, filters in config.char_filters
        )
        self.highways = nn.ModuleList(ElmoHighway(config.char_feature_size) for _ in range(config.num_highway_layers))

    def forward(self, char_ids: torch.Tensor) -> torch.Tensor:
        """
        Args:
            char_ids: `(words, max_characters_per_token)`. It is fastest if words of similar length are adjacent.

        Returns:
            `(words, char_feature_size)`
        """
        words = len(char_ids)
        if missing := round_up_rows(words, self.char_embeddings.weight.dtype, char_ids.device) - words:
            char_ids = F.pad(char_ids, (0, 0, 0, missing))
        chunks = word_chunks(self.lengths(char_ids).tolist(), WINDOWS_PER_CHUNK)
        features = torch.cat([self._convolve(char_ids[first:end], longest) for first, end, longest in chunks])
        features = self.activation(features)
        for highway in self.highways:
            features = highway(features)
        return features[:words]

    def lengths(self, char_ids: torch.Tensor) -> torch.Tensor:
        """`(words, slots)` → the number of slots that each word uses, including its marks, `(words,)`"""
        used = (char_ids != self.char_pad_id) & (char_ids != 0)
        return (used * torch.arange(1, char_ids.shape[1] + 1, device=char_ids.device)).amax(dim=1)

    def _convolve(self, char_ids: torch.Tensor, longest: int) -> torch.Tensor:
        """
        The largest response of each filter. Slots after the longest word plus the width of the widest filter are cut
        off. The result is exact: all windows that hold only padding have the same response, and one of them remains.

        Args:
            char_ids: `(words, slots)`
            longest: The number of slots that the longest word uses.

        Returns:
            `(words, char_feature_size)`
        """
        slots = longest + self.widest_filter
        chars = self.char_embeddings(char_ids[:, :slots])  # (words, slots, char_embedding_size)
        chars = chars.to(product_dtype(chars.dtype, chars.device))
        return torch.cat([convolution(chars) for convolution in self.convolutions], dim=-1)


class WordCache:
    """
    Token vectors by word. When it is full, the least recently used words are evicted.

    Args:
        capacity (`int`): The maximum number of words.
        size (`int`): The size of a vector.
    """

    def __init__(self, capacity: int, size: int):
        if capacity < 1:
            raise ValueError(f"A cache holds 1 word or more, asked for {capacity}.")
        self.capacity, self.size = capacity, size
        self._lock = threading.Lock()
        self.clear()

    def clear(self):
        """Removes all words."""
        self._rows: OrderedDict[bytes, int] = OrderedDict()  # word → row of `_vectors`, most recently used last
        with torch.inference_mode(False):  # otherwise calls outside of inference mode could not write to it
            self._vectors = torch.empty(self.capacity, self.size)  # the system allocates pages when they are written
        self._weight_keys: list[WeightKey] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __deepcopy__(self, memo) -> "WordCache":
        return WordCache(self.capacity, self.size)

    def __reduce__(self):
        return WordCache, (self.capacity, self.size)

    @torch.compiler.disable  # its behaviour depends on its content
    def vectors(
        self,
        words: torch.Tensor,
        encode: Callable[[torch.Tensor], torch.Tensor],
        weights: Iterable[torch.Tensor],
    ) -> torch.Tensor:
        """
        Args:
            words: `(words, columns)`, integers; distinct.
            encode: Computes the vectors `(some, size)` of some rows of `words`.
            weights: The weights that `encode` uses. When they change, the cache is cleared.

        Returns:
            `(words, size)`
        """
        keys = [row.tobytes() for row in words.to(torch.int32).numpy()]
        weight_keys = _weight_keys(weights)
        vectors = torch.empty(len(keys), self.size)
        with self._lock:
            if weight_keys != self._weight_keys:
                self.clear()
                self._weight_keys = weight_keys
            hits = [index for index, key in enumerate(keys) if key in self._rows]
            vectors[hits] = self._vectors[[self._rows[keys[index]] for index in hits]]
            for index in hits:
                self._rows.move_to_end(keys[index])
        is_hit = set(hits)
        misses = [index for index in range(len(keys)) if index not in is_hit]
        if misses:
            vectors[misses] = encode(words[misses]).float()
            last = misses[-self.capacity :]
            with self._lock:
                if self._weight_keys == weight_keys:
                    self._insert([keys[index] for index in last], vectors[last])
        return vectors

    def _insert(self, keys: list[bytes], vectors: torch.Tensor):
        rows = []
        for key in keys:
            row = self._rows.pop(key, None)  # another thread may have inserted it
            if row is None:
                row = len(self._rows) if len(self._rows) < self.capacity else self._rows.popitem(last=False)[1]
            self._rows[key] = row
            rows.append(row)
        self._vectors[rows] = vectors


def _weight_keys(weights: Iterable[torch.Tensor]) -> list[WeightKey]:
    """Differ when a weight was replaced or written to, or when its products run in another precision."""
    return [weight_key(weight, product_dtype(weight.dtype, weight.device)) for weight in weights]


def can_be_cached(weight: torch.Tensor) -> bool:
    """Whether vectors that are computed with a weight may be cached, as fp32: on the CPU, unless it is in float64."""
    return weight.device.type == "cpu" and weight.dtype != torch.float64


class ElmoTokenEncoder(nn.Module):
    """Computes token vectors from characters, a word table, or both. Each distinct word is computed once."""

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
            # Finer than the other int8 weights: errors here go into all layers, and the product is small.
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
        tokens, inverse = distinct_rows(torch.cat(columns, dim=-1).long())
        if self.characters is not None and char_ids is not None:  # sorted by length: short words need fewer windows
            order = self.characters.lengths(tokens[:, -char_ids.shape[1] :]).argsort(stable=True)
            tokens, inverse = tokens.index_select(0, order), order.argsort().index_select(0, inverse)
        if self.word_cache is None:
            return rows_at(self.encode(tokens), inverse)
        weights = list(self.parameters())
        if needs_gradient(*weights) or not all(can_be_cached(weight) for weight in weights):
            self.word_cache.clear()  # weights that are trained will change
            return rows_at(self.encode(tokens), inverse)
        return rows_at(self.word_cache.vectors(tokens, self.encode, weights), inverse)

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        """Word ids and character ids, concatenated `(tokens, columns)` → `(tokens, output_size)`"""
        can_use_onednn = tokens.device.type == "cpu" and self._table.weight.dtype != torch.float64 and has_onednn()
        if needs_gradient(*self.parameters()) or not can_use_onednn:
            return self._encode(tokens)
        # In blocks, so that the activations fit into the cache.
        return torch.cat([self._encode(block) for block in tokens.split(ROWS_PER_BLOCK)])

    @property
    def _table(self) -> nn.Embedding:
        """The word table, or the character table of a model without one."""
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
    "WordCache",
    "distinct_rows",
    "word_chunks",
]
