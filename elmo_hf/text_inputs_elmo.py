# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""What a tokenizer may be given, checked and brought into one form."""

import re
from collections.abc import Sequence

from .vocabulary_elmo import NO_CHARACTER

LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def as_batch(text, text_pair, is_split_into_words: bool) -> tuple[bool, list, list | None]:
    """Whether a batch was given, the texts (or lists of words), and the second ones of pairs."""
    if not (_is_list(text) and (any(map(_is_list, text)) if is_split_into_words else True)):
        _check("text", text, is_split_into_words)
        if text_pair is not None:
            _check("text_pair", text_pair, is_split_into_words)
        return False, [text], None if text_pair is None else [text_pair]

    texts, pairs = list(text), text_pair
    if pairs is None and texts and all(_is_pair(item, is_split_into_words) for item in texts):
        texts, pairs = [item[0] for item in texts], [item[1] for item in texts]
    if pairs is not None and not (_is_list(pairs) and len(pairs) == len(texts)):
        raise ValueError(f"`text` is a batch of {len(texts)}: `text_pair` must be a list of as many.")
    for name, items in (("text", texts), ("text_pair", pairs or [])):
        for number, item in enumerate(items):
            _check(f"{name}[{number}]", item, is_split_into_words)
    return True, texts, None if pairs is None else list(pairs)


def _is_list(item) -> bool:
    return isinstance(item, (list, tuple))


def _is_pair(item, is_split_into_words: bool) -> bool:
    kind = (list, tuple) if is_split_into_words else str
    return _is_list(item) and len(item) == 2 and isinstance(item[0], kind) and isinstance(item[1], kind)


def _check(name: str, item, is_split_into_words: bool):
    """Refuses what is not a string, or not a list of words, by its name."""
    if not is_split_into_words:
        if not isinstance(item, str):
            raise ValueError(f"`{name}` must be a string{_or_batch(name)}, found {item!r:.60}.")
        return
    if not _is_list(item):
        raise ValueError(f"`{name}` must be a list of words (`list[str]`){_or_batch(name)}, found {item!r:.60}.")
    for number, word in enumerate(item):
        if not isinstance(word, str):
            raise ValueError(f"`{name}[{number}]` must be a word (`str`), found {word!r:.60}.")


def _or_batch(name: str) -> str:
    return " or a list of them" if name == "text" else ""


def without_surrogates(text: str) -> str:
    """Text that has a UTF-8 form, of the same length: lone surrogates become what is in no vocabulary."""
    return text if text.isascii() else LONE_SURROGATE.sub(NO_CHARACTER, text)


def rust_words(words: Sequence[str]) -> Sequence[str]:
    """Words as Rust takes them: none empty, since Rust drops those, and all with a UTF-8 form."""
    if "" not in words and "".join(words).isascii():
        return words
    return [without_surrogates(word) or NO_CHARACTER for word in words]


__all__ = ["as_batch", "rust_words", "without_surrogates"]
