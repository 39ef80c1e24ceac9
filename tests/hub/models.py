"""Tiny models to publish."""

from pathlib import Path

import torch

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from tests.models import TINY

WORDS = ["the cat sat on the mat ."]


def tiny_tokenizer() -> ElmoTokenizer:
    """Knows a handful of words."""
    return ElmoTokenizer().train_new_from_iterator(WORDS, vocab_size=20)


def save_tiny(folder: Path, model_class=ElmoModel, **fields) -> Path:
    """Saves a model and its tokenizer."""
    tokenizer = tiny_tokenizer()
    torch.manual_seed(0)
    model_class(ElmoConfig(**(TINY | {"vocab_size": tokenizer.vocab_size} | fields))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_tagger(folder: Path) -> Path:
    """A tagger with three labels."""
    names = {0: "O", 1: "B-PER", 2: "I-PER"}
    return save_tiny(
        folder,
        ElmoForTokenClassification,
        id2label=names,
        label2id={name: label_id for label_id, name in names.items()},
        tag_decoder="crf",
    )
