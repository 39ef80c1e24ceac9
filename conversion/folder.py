"""What a conversion ends in: a complete folder, or nothing at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from elmo_hf.modeling_elmo import ElmoModel
from elmo_hf.tokenization_elmo import ElmoTokenizer

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class ConversionError(ValueError):
    """A checkpoint that cannot be converted; the message says what was expected and what was found."""


@contextmanager
def staged_folder(out: str | os.PathLike) -> Iterator[Path]:
    """
    A temporary folder beside `out` that takes its name when the block ends, and vanishes when the block fails.

    Args:
        out: The folder to make. It must not exist yet, or be empty.
    """
    out = Path(out).absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConversionError(f"{out} exists and is not an empty folder: name another one, or remove it.")
    out.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield stage
        stage.chmod(0o777 & ~_umask())
        stage.replace(out)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_folder(model: ElmoModel, tokenizer: ElmoTokenizer, folder: Path, dtype: str = "float32"):
    """Writes config, safetensors, tokenizer and code files; `dtype` is the stored precision."""
    model.to(DTYPES[dtype]).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def load_tokenizer(vocab: str | os.PathLike | None, slots: int) -> ElmoTokenizer:
    """The tokenizer over a `vocab.txt`, or, without one, the one to which every word is unknown."""
    try:
        return ElmoTokenizer(vocab_file=vocab and os.fspath(vocab), max_characters_per_token=slots)
    except (OSError, ValueError) as error:
        raise ConversionError(f"Vocabulary {vocab}: {error}") from error


__all__ = ["ConversionError", "load_tokenizer", "save_folder", "staged_folder"]
