# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
The files of a tokenizer: `vocab.txt`, `tokenizer.json` and its settings, and the `tokenizers` backend made of them.

The files may be damaged or malicious, and are checked before they are used.
"""

import json
import os
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tokenizers import Tokenizer, models, processors
from tokenizers.pre_tokenizers import PreTokenizer

from .checks_elmo import check_downloads, is_inner_path, read_json_object

# The last line of the original's vocabularies; it is not a word.
TERMINATOR = "!!!MAXTERMID"
# U+FFFF is a Unicode noncharacter. No word of a vocabulary has it, so it can replace what must stay unknown.
NONCHARACTER = "\uffff"

# Settings that would make the base class load the tokenizer from somewhere else.
FOREIGN_SOURCES = ("init_inputs", "tokenizer_object", "gguf_file")
# The types of a tokenizer.json's components. A normalizer, for example, could expand a word to gigabytes.
COMPONENTS: dict[str, tuple[str, ...]] = {
    "normalizer": (),
    "pre_tokenizer": ("Split", "WhitespaceSplit"),
    "model": ("WordPiece",),
    "post_processor": ("TemplateProcessing",),
    "decoder": (),
}
MAX_TEMPLATE_TOKENS = 16  # special tokens that a template may add to a text or a pair; ours adds four


# ---- The vocabulary: one word per line, the special tokens first, then by falling frequency


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    """The words of an original `vocab.txt`, in the order of their ids."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            words = [line.rstrip("\r\n") for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a vocabulary: it is not UTF-8 text ({error}).") from error
    return [word for word in words if word != TERMINATOR]


def write_vocabulary(words: Iterable[str], path: str | os.PathLike):
    """Writes an original `vocab.txt`."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\n" for word in words)


def index_words(words: Iterable[str], required: Iterable[str]) -> dict[str, int]:
    """
    A dictionary word → id.

    Args:
        words: In the order of their ids.
        required: The special tokens, which must be among the words: otherwise all ids would be wrong silently.
    """
    index: dict[str, int] = {}
    for word_id, word in enumerate(words):
        if not word:
            raise ValueError(f"Word {word_id} of the vocabulary is empty.")
        if "\n" in word or word.endswith("\r"):
            raise ValueError(f"Word {word_id} of the vocabulary, {word!r}, holds a line break.")
        if NONCHARACTER in word:
            raise ValueError(f"Word {word_id} of the vocabulary, {word!r}, holds U+FFFF, which is not a character.")
        if index.setdefault(word, word_id) != word_id:
            raise ValueError(f"The vocabulary holds {word!r} twice, as word {index[word]} and as word {word_id}.")
    if missing := [word for word in required if word not in index]:
        raise ValueError(f"The vocabulary lacks {', '.join(missing)}: it should begin with {', '.join(required)}.")
    return index


def frequent_words(counts: Counter[str], specials: Iterable[str], size: int, min_frequency: int = 1) -> list[str]:
    """
    The vocabulary of the most frequent words.

    Args:
        counts: The frequency of each word.
        specials: The special tokens, which come first.
        size: The maximum length of the vocabulary, `specials` included.
        min_frequency: Rarer words are left out.
    """
    specials = list(specials)
    if size < len(specials):
        raise ValueError(f"A vocabulary of {size} words has no room for {', '.join(specials)}.")
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    excluded = {*specials, TERMINATOR}
    words = [
        word for word, count in ranked if count >= min_frequency and word not in excluded and NONCHARACTER not in word
    ]
    return specials + words[: size - len(specials)]


# ---- The backend


def build_backend(
    vocab: Mapping[str, int] | Sequence[str], specials: Sequence[str], pre_tokenizer: PreTokenizer
) -> Tokenizer:
    """
    The `tokenizers` backend for a vocabulary.

    Args:
        vocab: Words in the order of their ids, or word → id.
        specials: Begin and end of a sentence, and the unknown word.
        pre_tokenizer: Splits raw text into words.
    """
    if isinstance(vocab, Mapping):
        words = sorted(vocab, key=vocab.__getitem__)
        if [vocab[word] for word in words] != list(range(len(words))):
            raise ValueError(f"The ids of the vocabulary must be 0 to {len(vocab) - 1}, each once.")
        vocab = words
    index = index_words(vocab, specials)
    bos, eos, unk = specials
    longest = max(map(len, index))  # longer words are unknown without a lookup
    # With a prefix that no word has, `WordPiece` never splits one. (Stock token-classification pipelines tell words
    # from sub-words by the model's prefix, which `WordLevel` does not have.)
    backend = Tokenizer(
        models.WordPiece(index, unk_token=unk, max_input_chars_per_word=longest, continuing_subword_prefix=NONCHARACTER)
    )
    backend.pre_tokenizer = pre_tokenizer
    backend.post_processor = processors.TemplateProcessing(
        single=[f"{bos}:0", "$A:0", f"{eos}:0"],
        pair=[f"{bos}:0", "$A:0", f"{eos}:0", f"{bos}:1", "$B:1", f"{eos}:1"],
        special_tokens=[(bos, index[bos]), (eos, index[eos])],
    )
    return backend


def load_backend(path: str | os.PathLike) -> Tokenizer:
    """The `tokenizers` backend of a `tokenizer.json`, whose components are checked first."""
    try:
        _check_components(path)
        with rust_errors():
            tokenizer = Tokenizer.from_file(os.fspath(path))
    except Exception as error:  # the Rust library raises plain exceptions
        raise ValueError(f"{path} is not a tokenizer file: {error}; download or save it again.") from error
    tokenizer.no_truncation()  # both are arguments of a call
    tokenizer.no_padding()
    return tokenizer


def _check_components(path: str | os.PathLike):
    """Refuses a `tokenizer.json` with components that [`build_backend`] does not make. Rust checks the rest."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file, object_pairs_hook=_object_without_duplicates)
    if not isinstance(content, dict):
        return
    for component, kinds in COMPONENTS.items():
        value = content.get(component)
        kind = value.get("type") if isinstance(value, dict) else None
        if kind not in kinds if kinds else value is not None:
            expected = " or ".join(kinds) or None
            raise ValueError(f"its `{component}` is {kind or value!r:.60}, and that of an ELMo tokenizer is {expected}")
    template = content["post_processor"]
    sequences = [template.get("single"), template.get("pair")]
    specials = template.get("special_tokens")
    if isinstance(specials, dict):
        sequences += [special.get("ids") for special in specials.values() if isinstance(special, dict)]
    if any(isinstance(sequence, list) and len(sequence) > MAX_TEMPLATE_TOKENS for sequence in sequences):
        raise ValueError(f"its `post_processor` adds more than {MAX_TEMPLATE_TOKENS} special tokens to a text")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Duplicate names are refused: some parsers take the first value, others the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        duplicate = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"it holds `{duplicate:.60}` twice")
    return content


# ---- Checks of a tokenizer's folder


def check_tokenizer_files(files: Mapping[str, str | None], name: str):
    """
    Refuses a folder or repository without a tokenizer, with files that are damaged or not JSON, and with settings that
    name other files: a tokenizer is read only from the files of its own folder that have the standard names.

    Args:
        files: The paths of the files, by the base class's names for them.
        name: The folder or repository.
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
        # The base class would take a string under a name that ends in `_token` for a special token.
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


def _is_file_name(value) -> bool:
    return value is None or (is_inner_path(value) and os.path.basename(value.replace("\\", "/")) == value)


def check_special_tokens(tokenizer: Tokenizer, given: Mapping[str, str], pad_token: str):
    """
    Refuses special tokens that differ from those of the `tokenizer.json`: they would be spelled like ordinary words,
    which changes the vectors.

    Args:
        tokenizer: The backend of a `tokenizer.json`.
        given: `bos_token`, `eos_token` and `unk_token` as they are asked for.
        pad_token: The padding token as it is asked for.
    """
    boundaries = tokenizer.encode("").tokens
    saved = {"unk_token": getattr(tokenizer.model, "unk_token", None)}
    if len(boundaries) == 2:
        saved["bos_token"], saved["eos_token"] = boundaries
    for name, token in given.items():
        if token != saved.get(name):
            raise ValueError(special_token_message(name, token, saved.get(name)))
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    if pad_token not in added and tokenizer.token_to_id(pad_token) is not None:
        raise ValueError(f"`pad_token` must not be a word of the vocabulary, found {pad_token!r}: leave it out.")


def special_token_message(name: str, token: str | None, saved: str | None) -> str:
    """The error about a special token that differs from the tokenizer's own."""
    return (
        f"`{name}` must be {saved!r}, as in all sentences of this tokenizer, found {token!r}: the vectors would "
        f"change. A tokenizer with other special tokens is made as ElmoTokenizer(vocab=words, {name}={token!r})."
    )


# ---- Errors of the Rust library


@contextmanager
def rust_errors() -> Generator[None]:
    """Turns a Rust panic, which `except Exception` does not catch, into a `ValueError`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise ValueError(
                f"The tokenizers library cannot use this tokenizer, or cut this text ({error})."
            ) from error
        raise


@contextmanager
def encoding_errors() -> Generator[None]:
    """
    Turns panics and two plain exceptions of encoding into `ValueError`s: sequences too short for a truncation strategy,
    and vocabularies without the unknown word.
    """
    try:
        with rust_errors():
            yield
    except Exception as error:
        if type(error) is Exception and ("runcation" in str(error) or "WordPiece error" in str(error)):
            raise ValueError(str(error)) from error
        raise


@contextmanager
def settings_errors(files: Mapping[str, str | None], name: str) -> Generator[None]:
    """Turns errors about malformed files into ones that name them. Arguments as for [`check_tokenizer_files`]."""
    wrong_types = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError)
    try:
        with rust_errors():
            yield
    except (json.JSONDecodeError, UnicodeDecodeError, *wrong_types) as error:
        if (path := files.get("tokenizer_file")) is not None:
            read_json_object(path)  # raises if this is not JSON; only now, as the file may be large
        raise ValueError(
            f"The tokenizer of {name} is malformed ({type(error).__name__}: {error!s:.200}): check its "
            "tokenizer_config.json and tokenizer.json, or download or save them again."
        ) from error


__all__ = [
    "NONCHARACTER",
    "build_backend",
    "check_special_tokens",
    "check_tokenizer_files",
    "encoding_errors",
    "frequent_words",
    "index_words",
    "load_backend",
    "read_vocabulary",
    "rust_errors",
    "settings_errors",
    "special_token_message",
    "write_vocabulary",
]
