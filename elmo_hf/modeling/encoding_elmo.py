# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""From a tokenizer's inputs to arrays: the forms that inputs may have, and the encodings of a batch."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from transformers.tokenization_utils_base import TruncationStrategy

from .tokenizer_files_elmo import NONCHARACTER, encoding_errors
from .word_splitting_elmo import segmenter_errors

LONE_SURROGATE = re.compile("[\ud800-\udfff]")


# ---- Inputs: texts, lists of words, pairs and batches of them


def as_batch(text, text_pair, is_split_into_words: bool) -> tuple[bool, list, list | None]:
    """
    Checks the inputs of a tokenizer's call and turns them into a batch.

    Returns:
        Whether a batch was given; the texts, or lists of words; and the second texts if there are pairs.
    """
    if not (_is_list(text) and (any(map(_is_list, text)) if is_split_into_words else True)):
        _check_input("text", text, is_split_into_words)
        if text_pair is not None:
            _check_input("text_pair", text_pair, is_split_into_words)
        return False, [text], None if text_pair is None else [text_pair]

    texts, pairs = list(text), text_pair
    if pairs is None and texts and all(_is_pair(item, is_split_into_words) for item in texts):
        texts, pairs = [item[0] for item in texts], [item[1] for item in texts]
    if pairs is not None and not (_is_list(pairs) and len(pairs) == len(texts)):
        raise ValueError(f"`text` is a batch of {len(texts)}: `text_pair` must be a list of as many.")
    for name, items in (("text", texts), ("text_pair", pairs or [])):
        for index, item in enumerate(items):
            _check_input(f"{name}[{index}]", item, is_split_into_words)
    return True, texts, None if pairs is None else list(pairs)


def _is_list(item) -> bool:
    return isinstance(item, (list, tuple))


def _is_pair(item, is_split_into_words: bool) -> bool:
    kind = (list, tuple) if is_split_into_words else str
    return _is_list(item) and len(item) == 2 and isinstance(item[0], kind) and isinstance(item[1], kind)


def _check_input(name: str, item, is_split_into_words: bool):
    """Refuses anything but a string, or a list of words, and names the argument."""
    or_batch = " or a list of them" if name == "text" else ""
    if not is_split_into_words:
        if not isinstance(item, str):
            raise ValueError(f"`{name}` must be a string{or_batch}, found {item!r:.60}.")
        return
    if not _is_list(item):
        raise ValueError(f"`{name}` must be a list of words (`list[str]`){or_batch}, found {item!r:.60}.")
    for index, word in enumerate(item):
        if not isinstance(word, str):
            raise ValueError(f"`{name}[{index}]` must be a word (`str`), found {word!r:.60}.")


def nesting_depth(ids) -> int:
    """How deeply lists are nested, judged by their first elements."""
    if not isinstance(ids, (list, tuple)):
        return 0
    return 1 + (nesting_depth(ids[0]) if len(ids) else 0)


def without_surrogates(text: str) -> str:
    """
    The text with each lone surrogate replaced by U+FFFF, which is in no vocabulary: the length stays the same, and the
    result can be encoded as UTF-8.
    """
    return text if text.isascii() else LONE_SURROGATE.sub(NONCHARACTER, text)


def rust_words(words: Sequence[str]) -> Sequence[str]:
    """Words as the Rust library takes them: without surrogates, and none empty, since it drops empty words."""
    if "" not in words and "".join(words).isascii():
        return words
    return [without_surrogates(word) or NONCHARACTER for word in words]


# ---- The encodings of a batch


def encode_in_rust(
    backend: Tokenizer, texts: list, pairs: list | None, is_split_into_words: bool, add_special_tokens: bool
) -> list[Encoding]:
    """The encodings of a batch from [`as_batch`], not padded. Errors of the library and the segmenter are readable."""
    prepare = rust_words if is_split_into_words else without_surrogates
    inputs = [prepare(item) for item in texts]
    if pairs is not None:
        inputs = list(zip(inputs, map(prepare, pairs), strict=True))
    with segmenter_errors(), encoding_errors():
        return backend.encode_batch(inputs, is_pretokenized=is_split_into_words, add_special_tokens=add_special_tokens)


def set_truncation(
    backend: Tokenizer, strategy: TruncationStrategy, max_length: int | None, stride: int, side: str, num_specials: int
):
    """
    Sets the backend's truncation. Refuses a length without room for a word: Rust would not truncate at all, or panic.

    Args:
        strategy, max_length, stride: As for a tokenizer's call.
        side: `"left"` or `"right"`.
        num_specials: Special tokens that are added to each text or pair.
    """
    wanted: dict[str, Any] | None = None
    if strategy != TruncationStrategy.DO_NOT_TRUNCATE and max_length is not None:
        room = max_length - num_specials
        if room < 1 or stride >= room:
            words = "1 word" if room == 1 else f"{max(room, 0)} words"
            raise ValueError(
                f"`max_length={max_length}` leaves {words} beside {num_specials} boundaries: "
                f"there must be at least one, and more than `stride={stride}`."
            )
        wanted = {"max_length": max_length, "stride": stride, "strategy": strategy.value, "direction": side}
    if backend.truncation != wanted:
        backend.no_truncation() if wanted is None else backend.enable_truncation(**wanted)


class PaddedEncodings(Sequence):
    """
    Encodings that are padded when they are accessed: most callers only use the tensors.

    Args:
        encodings: Not padded.
        padding: Arguments of [`Encoding.pad`].
    """

    def __init__(self, encodings: Sequence[Encoding], **padding):
        self._encodings = encodings
        self._padding = padding

    def __len__(self) -> int:
        return len(self._encodings)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        encoding = self._encodings[index]
        encoding.pad(**self._padding)  # does nothing the second time
        return encoding


class EncodedBatch:
    """
    The tokens of all encodings of a batch, concatenated, so that NumPy processes them in one call. They are padded
    last: reading padding from Rust would take most of the time.

    Args:
        encodings: From the Rust library, not padded.
        sources: The text, or words, of each encoding, and those of its second sequence.
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
        """An attribute of the encodings, `(tokens,)`. To be read before padding."""
        values = itertools.chain.from_iterable(getattr(encoding, name) for encoding in self.encodings)
        return np.fromiter(values, dtype=np.int64, count=self.lengths.sum())

    def source_words(self, places: np.ndarray) -> list[str]:
        """The words of the sources for the tokens at these places, none of which may be a special token."""
        words: list[str] = []
        ends = np.cumsum(self.lengths)
        bounds = [0, *np.searchsorted(places, ends).tolist()]  # of the places within each encoding
        for row in np.flatnonzero(np.diff(bounds)).tolist():
            encoding, source = self.encodings[row], self.sources[row]
            tokens = (places[bounds[row] : bounds[row + 1]] - (ends - self.lengths)[row]).tolist()
            texts = itertools.repeat(source[0])
            if source[1] is not None:
                texts = [source[sequence] for sequence in _pick(encoding.sequence_ids, tokens)]
            if self.is_split_into_words:
                words += [given[word] for given, word in zip(texts, _pick(encoding.word_ids, tokens), strict=False)]
            else:
                spans = _pick(encoding.offsets, tokens)
                words += [text[begin:end] for text, (begin, end) in zip(texts, spans, strict=False)]
        return words

    def pad(self, width: int, side: str, **padding):
        """Pads encodings shorter than `width` on one side. `padding`: arguments of [`Encoding.pad`]."""
        if side not in ("left", "right"):
            raise ValueError(f"`padding_side` must be 'left' or 'right', found {side!r}.")
        self.encodings = PaddedEncodings(self.encodings, length=width, direction=side, **padding)
        self.widths, self.side = np.maximum(self.lengths, width), side

    def by_encoding(self, values: np.ndarray, return_tensors: str | None, pad_value: int = 0):
        """
        Splits `(tokens, ...)` into encodings and pads them with `pad_value`: a tensor `(encodings, width, ...)`, or one
        list per encoding.
        """
        count, values = len(self.widths), self._pad_values(values, pad_value)
        if return_tensors is not None and len(set(self.widths.tolist())) <= 1:
            values = values.reshape(count, self.widths.max(initial=0), *values.shape[1:])
            return values if return_tensors == "np" else torch.from_numpy(values)
        return [part.tolist() for part in np.split(values, np.cumsum(self.widths)[:-1])][:count]

    def _pad_values(self, values: np.ndarray, pad_value: int) -> np.ndarray:
        missing = self.widths - self.lengths
        if not missing.any():
            return values.astype(np.int64, copy=False)
        padded = np.zeros((self.widths.sum(), *values.shape[1:]), dtype=np.int64)
        if pad_value:
            padded += pad_value
        shifts = np.cumsum(missing) - (missing if self.side == "right" else 0)
        padded[np.arange(len(values)) + np.repeat(shifts, self.lengths)] = values
        return padded

    def offsets(self) -> list[list[tuple[int, int]]]:
        """The span of each token in its text, or in its given word: then from 0 to the word's length."""
        offsets = [encoding.offsets for encoding in self.encodings]
        if self.is_split_into_words:  # an empty word was replaced for the Rust library
            for spans, encoding, source in zip(offsets, self.encodings, self.sources, strict=True):
                for token, (word, sequence) in enumerate(zip(encoding.word_ids, encoding.sequence_ids, strict=True)):
                    if sequence is not None and not source[sequence][word]:
                        spans[token] = (0, 0)
        return offsets


def _pick(values: list, places: list[int]) -> Iterable:
    return map(values.__getitem__, places)


__all__ = [
    "EncodedBatch",
    "as_batch",
    "encode_in_rust",
    "nesting_depth",
    "rust_words",
    "set_truncation",
    "without_surrogates",
]
