# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""What the files of a tokenizer must keep to before they are used. Whoever made them may mean harm."""

import json
import os
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from tokenizers import Tokenizer

from .checksums_elmo import check_downloads
from .loading_elmo import is_inner_path, read_json_object

# Settings with which the base class would take the tokenizer from somewhere else than its files.
FOREIGN_SOURCES = ("init_inputs", "tokenizer_object", "gguf_file")
# What our tokenizers are made of, by type; nothing where there is none. A normalizer could make gigabytes of a word.
PARTS: dict[str, tuple[str, ...]] = {
    "normalizer": (),
    "pre_tokenizer": ("Split", "WhitespaceSplit"),
    "model": ("WordPiece",),
    "post_processor": ("TemplateProcessing",),
    "decoder": (),
}
MOST_MARKS = 16  # that a template adds to a text or a pair; ours adds four


def check_tokenizer_files(files: Mapping[str, str | None], name: str):
    """
    Refuses a folder or repository without a tokenizer, with files that are damaged or no JSON, and with settings that
    name files: a tokenizer is read from the files of its own folder that have the right names.

    Args:
        files: The paths that were found, by the names of the base class.
        name: Of the folder or repository.
    """
    if files.get("tokenizer_file") is None and files.get("vocab_file") is None:
        raise OSError(
            f"{name} holds no tokenizer: neither tokenizer.json nor vocab.txt was found. Save it beside the "
            "model: `tokenizer.save_pretrained(folder)`."
        )
    check_downloads(path for path in files.values() if path is not None)
    for kind in ("special_tokens_map_file", "added_tokens_file"):
        if (path := files.get(kind)) is not None:
            read_json_object(path)
    if (path := files.get("tokenizer_config_file")) is None:
        return
    for setting, value in read_json_object(path).items():
        # The base class would take a text under a name in `_token` for a special token.
        if setting == "max_characters_per_token" and isinstance(value, str):
            raise ValueError(f"{path} is refused: `{setting}` must be a number, found {value!r:.60}.")
        if setting in FOREIGN_SOURCES and value:
            raise ValueError(f"{path} is refused: `{setting}` has no place in a tokenizer's settings, remove it.")
        if setting.endswith(("_file", "_files")) and not all(
            map(_is_file_name, value if isinstance(value, list) else [value])
        ):
            raise ValueError(
                f"{path} is refused: `{setting}` names {value!r:.200}, which is outside of its folder; remove it."
            )


def check_marks(tokenizer: Tokenizer, given: Mapping[str, str], pad_token: str):
    """
    Refuses other boundaries and another unknown word than those that a saved tokenizer puts into its sentences: they
    would be spelled like ordinary words, and the vectors would be others.

    Args:
        tokenizer: Of a `tokenizer.json`.
        given: What `bos_token`, `eos_token` and `unk_token` are to be.
        pad_token: What padding is to be.
    """
    boundaries = tokenizer.encode("").tokens
    saved = {"unk_token": getattr(tokenizer.model, "unk_token", None)}
    if len(boundaries) == 2:
        saved["bos_token"], saved["eos_token"] = boundaries
    for name, mark in given.items():
        if mark != saved.get(name):
            raise ValueError(marks_message(name, mark, saved.get(name)))
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    if pad_token not in added and tokenizer.token_to_id(pad_token) is not None:
        raise ValueError(f"`pad_token` must not be a word of the vocabulary, found {pad_token!r}: leave it out.")


def marks_message(name: str, mark: str | None, saved: str | None) -> str:
    """What is said about a mark that is not the tokenizer's own."""
    return (
        f"`{name}` must be {saved!r}, as in all sentences of this tokenizer, found {mark!r}: the vectors would be "
        f"others. A tokenizer with other marks is made as ElmoTokenizer(vocab=words, {name}={mark!r})."
    )


def load_backend(path: str | os.PathLike) -> Tokenizer:
    """The Rust tokenizer of a `tokenizer.json`, which is looked at first."""
    try:
        _check_parts(path)
        with rust_errors():
            tokenizer = Tokenizer.from_file(os.fspath(path))
    except Exception as error:  # the Rust library raises plain exceptions
        raise ValueError(f"{path} is no tokenizer file: {error}; download or save it again.") from error
    tokenizer.no_truncation()  # both belong to a call
    tokenizer.no_padding()
    return tokenizer


def _check_parts(path: str | os.PathLike):
    """Refuses a `tokenizer.json` with parts that are not made here. What is malformed is left to the Rust library."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file, object_pairs_hook=_without_repetitions)
    if not isinstance(content, dict):
        return
    for part, kinds in PARTS.items():
        value = content.get(part)
        kind = value.get("type") if isinstance(value, dict) else None
        if kind not in kinds if kinds else value is not None:
            expected = " or ".join(kinds) or None
            raise ValueError(f"its `{part}` is {kind or value!r:.60}, and that of an ELMo tokenizer is {expected}")
    template = content["post_processor"]
    marks = [template.get("single"), template.get("pair")]
    specials = template.get("special_tokens")
    if isinstance(specials, dict):
        marks += [special.get("ids") for special in specials.values() if isinstance(special, dict)]
    if any(isinstance(some, list) and len(some) > MOST_MARKS for some in marks):
        raise ValueError(f"its `post_processor` adds more than {MOST_MARKS} marks to a text")


def _without_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. One reader may take the first value of a name that is given twice, and another the second."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"it holds `{twice:.60}` twice")
    return found


@contextmanager
def rust_errors() -> Generator[None]:
    """Turns a panic of the Rust library, which passes by `except Exception`, into a `ValueError`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise ValueError(
                f"The tokenizers library cannot use this tokenizer, or cut this text ({error})."
            ) from error
        raise


@contextmanager
def settings_errors(files: Mapping[str, str | None], name: str) -> Generator[None]:
    """Turns errors from files of the wrong kind into ones that name them. Arguments as of [`check_tokenizer_files`]."""
    wrong_kinds = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError)
    try:
        with rust_errors():
            yield
    except (json.JSONDecodeError, UnicodeDecodeError, *wrong_kinds) as error:
        if (path := files.get("tokenizer_file")) is not None:
            read_json_object(path)  # only now, as it may be large: says so if it is no JSON
        raise ValueError(
            f"The tokenizer of {name} is malformed ({type(error).__name__}: {error!s:.200}): check its "
            "tokenizer_config.json and tokenizer.json, or download or save them again."
        ) from error


def _is_file_name(value) -> bool:
    return value is None or (is_inner_path(value) and os.path.basename(value.replace("\\", "/")) == value)


__all__ = ["check_marks", "check_tokenizer_files", "load_backend", "marks_message", "rust_errors", "settings_errors"]
