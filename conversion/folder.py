"""Writes the result of a conversion: a complete model folder."""

import errno
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from elmo_hf.errors import ConversionError
from elmo_hf.modeling.modeling_elmo import ElmoForPreTraining, ElmoModel
from elmo_hf.modeling.tokenization_elmo import ElmoTokenizer
from elmo_hf.publishing import write_card

from .provenance import write_provenance

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@contextmanager
def full_disk_errors(out: str | os.PathLike) -> Generator[None]:
    """Replaces errors of a full disk, which name a temporary file or no file, with one that names the folder."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        code = error.errno if isinstance(error, OSError) else _system_error(error)
        if code not in FULL_DISK:
            raise
        raise ConversionError(f"{out} cannot be written ({os.strerror(code)}): make room and convert again.") from error


def _system_error(error: SafetensorError) -> int | None:
    """The operating system's error code in an error of safetensors."""
    match = re.search(r"\(os error (\d+)\)", str(error))
    return int(match[1]) if match else None


def save_folder(
    model: ElmoModel | ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    folder: Path,
    dtype: str = "float32",
    origin: dict[str, Any] | None = None,
    name: str | None = None,
):
    """
    Writes config, safetensors, tokenizer and code files.

    Args:
        dtype: The stored precision.
        origin: What the model was converted from; it is stored too.
        name: The model's name on a card that is made from all this. `None`: no card.
    """
    if dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {', '.join(DTYPES)}, found {dtype!r}.")
    model.to(DTYPES[dtype])
    for tensor, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise ConversionError(f"{tensor} holds values too large for {dtype}: choose float32 or bfloat16.")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if origin is not None:
        write_provenance(folder, origin, dtype)
    if name is not None:
        write_card(folder, name=name)


def load_tokenizer(vocab: str | os.PathLike | None, slots: int, words: int | None = None) -> ElmoTokenizer:
    """
    The tokenizer with the words of a `vocab.txt`. Without the file, a tokenizer to which every word is unknown.

    Args:
        vocab: The file.
        slots: Characters per word.
        words: How many words the options state. A vocabulary of another size is refused.
    """
    try:
        tokenizer = ElmoTokenizer(vocab_file=None if vocab is None else str(vocab), max_characters_per_token=slots)
    except (OSError, ValueError) as error:
        raise ConversionError(f"Vocabulary {vocab}: {error}") from error
    if vocab is not None and words is not None and words != tokenizer.vocab_size:
        raise ConversionError(f"The options say {words} words, the vocabulary {vocab} has {tokenizer.vocab_size}.")
    return tokenizer


def word_ids(tokenizer: ElmoTokenizer) -> dict[str, int]:
    """The config fields that follow from a tokenizer's vocabulary."""
    return {
        "vocab_size": tokenizer.vocab_size,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


__all__ = ["full_disk_errors", "load_tokenizer", "save_folder", "word_ids"]
