"""What a conversion ends in: a complete folder, or nothing at all."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from elmo_hf.modeling_elmo import ElmoModel
from elmo_hf.tokenization_elmo import ElmoTokenizer

from .provenance import write_provenance

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class ConversionError(ValueError):
    """A checkpoint that cannot be converted; the message says what was expected and what was found."""


@contextmanager
def staged_folder(out: str | os.PathLike) -> Generator[Path]:
    """
    A temporary folder near `out` that takes its name when the block ends, and vanishes when the block fails.

    Args:
        out: The folder to make. It must not exist yet, or be empty.
    """
    out = Path(out).resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConversionError(f"{out} exists and is not an empty folder: name another one, or remove it.")
    # In the nearest folder that is there: a rename stays on one disk, and a failure leaves no new parents behind.
    nearest = next(parent for parent in out.parents if parent.exists())
    stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=nearest))
    try:
        yield stage
        _open_to_others(stage)
        if out.exists():  # stays itself: it may be somebody's working directory, or a mounted disk
            for path in stage.iterdir():
                shutil.move(path, out / path.name)
            stage.rmdir()
        else:
            out.parent.mkdir(parents=True, exist_ok=True)
            stage.replace(out)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise


def _open_to_others(folder: Path):
    """The permissions of an ordinary folder with ordinary files: temporary ones, and safetensors', are private."""
    mask = os.umask(0)
    os.umask(mask)
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def save_folder(
    model: ElmoModel,
    tokenizer: ElmoTokenizer,
    folder: Path,
    dtype: str = "float32",
    origin: dict[str, Any] | None = None,
):
    """Writes config, safetensors, tokenizer and code files in the stored precision, and the origin if there is one."""
    if dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {', '.join(DTYPES)}, found {dtype!r}.")
    model.to(DTYPES[dtype])
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise ConversionError(f"{name} holds values too large for {dtype}: choose float32 or bfloat16.")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if origin is not None:
        write_provenance(folder, origin, dtype)


def load_tokenizer(vocab: str | os.PathLike | None, slots: int, words: int | None = None) -> ElmoTokenizer:
    """
    The tokenizer over a `vocab.txt`, or, without one, the one to which every word is unknown.

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


__all__ = ["ConversionError", "load_tokenizer", "save_folder", "staged_folder", "word_ids"]
