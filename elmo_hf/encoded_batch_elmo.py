# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The encodings of a batch, as NumPy sees them."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from tokenizers import Encoding


class EncodedBatch:
    """
    The tokens of all encodings of a batch one after the other, so that NumPy handles them at once.

    Args:
        encodings: What Rust made of the batch.
        sources: For each encoding its text, or words, and those of the second sequence.
        is_split_into_words: Whether the sources are words.
    """

    def __init__(self, encodings: list[Encoding], sources: list[tuple[Any, Any]], is_split_into_words: bool):
        self.encodings = encodings
        self.sources = sources
        self.is_split_into_words = is_split_into_words
        self.lengths = np.array([len(encoding) for encoding in encodings], dtype=np.intp)
        self.starts = np.cumsum(self.lengths) - self.lengths

    def flat(self, name: str) -> list:
        """An attribute of the encodings, token by token."""
        return list(itertools.chain.from_iterable(getattr(encoding, name) for encoding in self.encodings))

    def __getitem__(self, name: str) -> np.ndarray:
        return np.array(self.flat(name), dtype=np.int64)

    def by_encoding(self, values: np.ndarray, return_tensors: str | None):
        """Values `(tokens, ...)` as lists, one an encoding, or as a tensor `(encodings, length, ...)`."""
        if return_tensors is not None and len(set(self.lengths.tolist())) <= 1:
            length = int(self.lengths[0]) if len(self.lengths) else 0
            values = values.astype(np.int64, copy=False).reshape(len(self.lengths), length, *values.shape[1:])
            return values if return_tensors == "np" else torch.from_numpy(values)
        return [part.tolist() for part in np.split(values, self.starts[1:])][: len(self.lengths)]

    def source_words(self, places: np.ndarray) -> Iterator[tuple[int, str]]:
        """Each place and the word of the source that stands there."""
        parts = np.split(places, np.searchsorted(places, self.starts[1:]))
        for encoding, source, start, part in zip(self.encodings, self.sources, self.starts, parts, strict=False):
            if len(part) == 0:
                continue
            spans = encoding.word_ids if self.is_split_into_words else encoding.offsets
            second = encoding.type_ids if source[1] is not None else None
            for place in part.tolist():
                text, span = source[second[place - start] if second else 0], spans[place - start]
                yield place, text[span] if self.is_split_into_words else text[span[0] : span[1]]

    def offsets(self) -> list[list[tuple[int, int]]]:
        """Where each token stands in its text, or in its word: that is, from 0 to the word's length."""
        offsets = [encoding.offsets for encoding in self.encodings]
        if self.is_split_into_words:  # an empty word went through Rust as something else
            for spans, encoding, source in zip(offsets, self.encodings, self.sources, strict=True):
                for token, word in enumerate(encoding.word_ids):
                    if word is not None and not source[encoding.type_ids[token]][word]:
                        spans[token] = (0, 0)
        return offsets


__all__ = ["EncodedBatch"]
