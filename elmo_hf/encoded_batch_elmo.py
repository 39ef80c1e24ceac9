# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The encodings of a batch, as NumPy sees them."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Encoding


class PaddedEncodings(Sequence):
    """
    Encodings that are padded when someone looks at them: mostly only the tensors are wanted.

    Args:
        encodings: As Rust made them.
        padding: Arguments of [`Encoding.pad`].
    """

    def __init__(self, encodings: Sequence[Encoding], **padding):
        self._encodings = encodings
        self._padding = padding

    def __len__(self) -> int:
        return len(self._encodings)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        encoding = self._encodings[index]
        encoding.pad(**self._padding)  # does nothing the second time
        return encoding


class EncodedBatch:
    """
    The tokens of all encodings of a batch one after the other, so that NumPy handles them at once. Padding comes last,
    since most of what is read from Rust would be padding otherwise.

    Args:
        encodings: What Rust made of the batch, not padded.
        sources: For each encoding its text, or words, and those of the second sequence.
        is_split_into_words: Whether the sources are words.
    """

    def __init__(self, encodings: list[Encoding], sources: list[tuple[Any, Any]], is_split_into_words: bool):
        self.encodings: Sequence[Encoding] = encodings
        self.sources = sources
        self.is_split_into_words = is_split_into_words
        self.lengths = np.array([len(encoding) for encoding in encodings], dtype=np.intp)
        self.widths = self.lengths  # with padding
        self.side = "right"

    def __getitem__(self, name: str) -> np.ndarray:
        """A column of the encodings, `(tokens,)`. To be read before padding."""
        values = itertools.chain.from_iterable(getattr(encoding, name) for encoding in self.encodings)
        return np.fromiter(values, dtype=np.int64, count=self.lengths.sum())

    def source_words(self, places: np.ndarray) -> list[str]:
        """The words of the sources at some of the tokens, none of them a mark that was added."""
        words: list[str] = []
        ends = np.cumsum(self.lengths)
        bounds = [0, *np.searchsorted(places, ends).tolist()]  # of the places in each encoding
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            encoding, source = self.encodings[number], self.sources[number]
            tokens = (places[bounds[number] : bounds[number + 1]] - (ends - self.lengths)[number]).tolist()
            texts = itertools.repeat(source[0])
            if source[1] is not None:
                texts = [source[sequence] for sequence in _pick(encoding.sequence_ids, tokens)]
            if self.is_split_into_words:
                words += [given[word] for given, word in zip(texts, _pick(encoding.word_ids, tokens), strict=False)]
            else:
                spans = _pick(encoding.offsets, tokens)
                words += [text[begin:end] for text, (begin, end) in zip(texts, spans, strict=False)]
        return words

    def pad(self, width: int, side: str, **filler):
        """Pads the encodings on one side, where they are shorter."""
        if side not in ("left", "right"):
            raise ValueError(f"`padding_side` must be 'left' or 'right', found {side!r}.")
        self.encodings = PaddedEncodings(self.encodings, length=width, direction=side, **filler)
        self.widths, self.side = np.maximum(self.lengths, width), side

    def by_encoding(self, values: np.ndarray, return_tensors: str | None, filler: int = 0):
        """
        Values `(tokens, ...)` as a tensor `(encodings, width, ...)`, or as lists, one an encoding; `filler` where there
        is padding.
        """
        count, values = len(self.widths), self._padded(values, filler)
        if return_tensors is not None and len(set(self.widths.tolist())) <= 1:
            values = values.reshape(count, self.widths.max(initial=0), *values.shape[1:])
            return values if return_tensors == "np" else torch.from_numpy(values)
        return [part.tolist() for part in np.split(values, np.cumsum(self.widths)[:-1])][:count]

    def _padded(self, values: np.ndarray, filler: int) -> np.ndarray:
        missing = self.widths - self.lengths
        if not missing.any():
            return values.astype(np.int64, copy=False)
        padded = np.zeros((self.widths.sum(), *values.shape[1:]), dtype=np.int64)
        if filler:
            padded += filler
        shifts = np.cumsum(missing) - (missing if self.side == "right" else 0)
        padded[np.arange(len(values)) + np.repeat(shifts, self.lengths)] = values
        return padded

    def offsets(self) -> list[list[tuple[int, int]]]:
        """Where each token stands in its text, or in its word: that is, from 0 to the word's length."""
        offsets = [encoding.offsets for encoding in self.encodings]
        if self.is_split_into_words:  # an empty word went through Rust as something else
            for spans, encoding, source in zip(offsets, self.encodings, self.sources, strict=True):
                for token, (word, sequence) in enumerate(zip(encoding.word_ids, encoding.sequence_ids, strict=True)):
                    if sequence is not None and not source[sequence][word]:
                        spans[token] = (0, 0)
        return offsets


def _pick(values: list, numbers: list[int]) -> Iterable:
    return map(values.__getitem__, numbers)


__all__ = ["EncodedBatch"]
