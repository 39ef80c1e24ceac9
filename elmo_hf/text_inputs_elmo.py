# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""What a tokenizer may be given, checked and brought into one form."""

import re
from collections.abc import Callable, Sequence
from typing import Any

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Rust drops empty words; this stands for them on the way through.
EMPTY_WORD = "\0"


def as_batch(text, text_pair, is_split_into_words: bool) -> tuple[bool, list, list | None]:
    """Whether a batch was given, the texts (or lists of words), and the second ones of pairs."""
    is_one = _is_words if is_split_into_words else _is_text
    kind = "a list of words (`list[str]`)" if is_split_into_words else "a string"
    if is_one(text):
        if text_pair is not None and not is_one(text_pair):
            raise ValueError(f"`text_pair` must be {kind} as `text` is, found {type(text_pair).__name__}.")
        return False, [text], None if text_pair is None else [text_pair]
    if not isinstance(text, (list, tuple)):
        raise ValueError(f"`text` must be {kind} or a list of them, found {type(text).__name__}.")

    texts, pairs = list(text), text_pair
    if pairs is None and texts and all(_is_pair(item, is_one) for item in texts):
        texts, pairs = [item[0] for item in texts], [item[1] for item in texts]
    if pairs is not None and (not isinstance(pairs, (list, tuple)) or len(pairs) != len(texts)):
        raise ValueError(f"`text` is a batch of {len(texts)}: `text_pair` must be a list of as many.")
    for name, items in (("text", texts), ("text_pair", pairs or [])):
        for number, item in enumerate(items):
            if not is_one(item):
                raise ValueError(f"`{name}[{number}]` must be {kind}, found {item!r:.60}.")
    return True, texts, None if pairs is None else list(pairs)


def _is_pair(item, is_one: Callable[[Any], bool]) -> bool:
    return isinstance(item, (list, tuple)) and len(item) == 2 and is_one(item[0]) and is_one(item[1])


def _is_text(item) -> bool:
    return isinstance(item, str)


def _is_words(item) -> bool:
    return isinstance(item, (list, tuple)) and all(isinstance(word, str) for word in item)


def without_surrogates(text: str) -> str:
    """Text that has a UTF-8 form, of the same length: lone surrogates become U+FFFD."""
    return text if text.isascii() else LONE_SURROGATE.sub("\ufffd", text)


def rust_words(words: Sequence[str]) -> Sequence[str]:
    """Words as Rust takes them: none empty, all with a UTF-8 form."""
    if "" not in words and "".join(words).isascii():
        return words
    return [without_surrogates(word) or EMPTY_WORD for word in words]


__all__ = ["as_batch", "rust_words", "without_surrogates"]
