"""The sides of the benchmarks: this package's model in its precisions, and the peers, all with the same weights."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from benchmarks.peers import SIMPLE_ELMO, Peer, Worker, our_pins
from benchmarks.texts import character_ids
from elmo_hf import ElmoConfig, ElmoModel
from elmo_hf.conversion.bilm_hdf5 import write_bilm_hdf5

SIZES = {"full": {}, "small": {"cell_size": 1024, "projection_size": 128, "num_highway_layers": 1}}
TOLERANCE = 1e-5

# AllenNLP's ELMo, vendored on the package index, needs no more than these.
ALLENNLP = Peer("allennlp", our_pins("torch", "numpy", "h5py"), ("simple-elmo-pytorch==0.2",))


@dataclass(frozen=True)
class Side:
    """
    Attributes:
        label: Its name in tables.
        model: `"ours"`, `"allennlp"` or `"tensorflow"`: a class of `benchmarks.worker`.
        options: What that class is made with.
        peer: The environment it runs in; `None` is this one.
        exact: Whether its vectors must equal those of fp32 to 1e-5.
    """

    label: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    peer: Peer | None = None
    exact: bool = True

    def start(self, module: str = "benchmarks.worker") -> Worker:
        """A worker in the side's environment, which is made at the first time."""
        python = sys.executable if self.peer is None else self.peer.interpreter()
        return Worker(self.label, python, module, self.model, json.dumps(self.options))


# Our fp32 first: the others are compared with it. "Warm": every word of the text is in the side's word cache.
SIDES = {
    "fp32": Side("fp32", "ours"),
    "warm": Side("fp32, warm", "ours", {"cached_words": 2**16}),
    "unpacked": Side("fp32, not packed", "ours", {"packs": False}),
    "bf16": Side("bf16", "ours", {"dtype": "bfloat16"}, exact=False),
    "int8": Side("int8", "ours", {"quantize": True}, exact=False),
    "allennlp": Side("AllenNLP", "allennlp", peer=ALLENNLP),
    "allennlp-warm": Side("AllenNLP, warm", "allennlp", {"caches_words": True}, peer=ALLENNLP),
    "tensorflow": Side("TensorFlow", "tensorflow", peer=SIMPLE_ELMO),
}


def write_model(folder: Path, size: str, sentences: Sequence[Sequence[str]] = ()) -> ElmoConfig:
    """
    Random weights, the same in our format and in the original's, and the words of the sentences, by which batches are
    numbered.
    """
    logging.disable_progress_bar()
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**SIZES[size]))
    model.save_pretrained(folder)
    write_bilm_hdf5(model, folder / "options.json", folder / "weights.hdf5")
    words = dict.fromkeys(word for sentence in sentences for word in sentence)
    (folder / "words.json").write_text(json.dumps(["@@PADDING@@", *words]))  # AllenNLP's name for number 0
    return model.config


def write_batches(folder: Path, name: str, batches: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    """The files of the batches, as [`benchmarks.worker.Batch`] reads them; `folder` is that of [`write_model`]."""
    word_id = {word: index for index, word in enumerate(json.loads((folder / "words.json").read_text()))}
    files = []
    for index, sentences in enumerate(batches):
        word_ids = np.zeros((len(sentences), max(map(len, sentences))), dtype=np.int64)
        for row, words in zip(word_ids, sentences, strict=True):
            row[: len(words)] = [word_id[word] for word in words]
        files.append(str(folder / f"{name}-{index}.npz"))
        np.savez(
            files[-1],
            char_ids=character_ids(sentences, boundaries=True),
            bare_char_ids=character_ids(sentences, boundaries=False),
            word_ids=word_ids,
        )
    return files


def in_batches(sentences: Sequence[list[str]], size: int) -> list[Sequence[list[str]]]:
    """So many sentences per batch, in their order."""
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def by_tokens(sentences: Sequence[list[str]], tokens: int) -> list[list[list[str]]]:
    """The sentences sorted by length, in batches of at most so many tokens, boundaries included (one at least)."""
    return list(_by_tokens(sorted(sentences, key=len), tokens))


def _by_tokens(sentences: Sequence[list[str]], tokens: int) -> Iterator[list[list[str]]]:
    batch, batch_tokens = [], 0
    for words in sentences:
        length = len(words) + 2
        if batch and batch_tokens + length > tokens:
            yield batch
            batch, batch_tokens = [], 0
        batch.append(words)
        batch_tokens += length
    if batch:
        yield batch


def largest_difference(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """Over all batches' layers; infinite where a shape differs or a number is not one."""
    pairs = [(np.load(our), np.load(their)) for our, their in zip(ours, theirs, strict=True)]
    if any(our.shape != their.shape for our, their in pairs):
        return float("inf")
    difference = float(np.max([np.abs(our - their).max() for our, their in pairs]))  # NaN if any is
    return difference if np.isfinite(difference) else float("inf")


def smallest_cosine(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """Of the vectors of a word in a layer, over all words and layers."""
    pairs = [(np.load(our), np.load(their)) for our, their in zip(ours, theirs, strict=True)]
    cosines = [
        (our * their).sum(-1) / (np.linalg.norm(our, axis=-1) * np.linalg.norm(their, axis=-1)) for our, their in pairs
    ]
    return float(np.min([cosine.min() for cosine in cosines]))
