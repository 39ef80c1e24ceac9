"""Tiny texts, models and runs for the tests of pretraining: a step takes milliseconds."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.modeling.tokenizer_files_elmo import write_vocabulary
from elmo_hf.pretraining import Corpus, Pretrainer, PretrainingSettings
from elmo_hf.publishing import read_history

TEXT_WORDS = "the a cat dog bird fish sees hears likes meets big small old red and near river bank house tree"
VOCABULARY = ["<S>", "</S>", "<UNK>", *TEXT_WORDS.split()]
REPETITIVE = [["the cat sees the dog", "a bird hears the fish", "the dog likes a tree"]] * 6
# All that is drawn at random in a step: dropout, words of the softmax, resets of the state.
FIELDS = {
    "char_embedding_size": 3,
    "char_filters": [[1, 4], [2, 4]],
    "num_highway_layers": 1,
    "cell_size": 8,
    "projection_size": 4,
    "dropout": 0.2,
    "softmax_type": "sampled",
    "softmax_samples": 6,
}
SETTINGS = {
    "batch_size": 2,
    "window": 5,
    "epochs": None,
    "learning_rate": 0.02,
    "warmup_steps": 0,
    "mixed_precision": "no",
    "log_every": 1,
}


def random_documents(lengths: Sequence[int], seed: int = 0) -> list[list[str]]:
    """Documents of so many sentences, of known words and a few that are not."""
    generator = random.Random(seed)
    words = [*VOCABULARY[3:], "zebra"]
    return [
        [" ".join(generator.choices(words, k=generator.randint(1, 8))) for _ in range(length)] for length in lengths
    ]


def count_targets(documents: list[list[str]]) -> int:
    """Words, and a boundary for each sentence."""
    return sum(len(sentence.split()) + 1 for document in documents for sentence in document)


def write_text(path: Path, documents: list[list[str]]) -> Path:
    """A file with blank lines between documents."""
    path.write_text("\n\n".join("\n".join(document) for document in documents) + "\n", "utf-8")
    return path


def write_words(path: Path, words: Sequence[str] = VOCABULARY) -> Path:
    """A vocabulary file."""
    write_vocabulary(words, path)
    return path


def tiny_language_model(seed: int = 0, **fields) -> ElmoForPreTraining:
    """A biLM of a handful of cells over `VOCABULARY`."""
    torch.manual_seed(seed)
    return ElmoForPreTraining(ElmoConfig(**({"vocab_size": len(VOCABULARY)} | FIELDS | fields)))


def tiny_tokenizer() -> ElmoTokenizer:
    """The one of `VOCABULARY`."""
    return ElmoTokenizer(vocab=VOCABULARY)


def tiny_settings(**changes) -> PretrainingSettings:
    """`SETTINGS` with changes."""
    return PretrainingSettings(**(SETTINGS | changes))


def tiny_pretrainer(
    folder: Path,
    text: Path | Sequence[Path],
    *,
    heldout: Path | None = None,
    model: ElmoForPreTraining | None = None,
    total_steps: int | None = None,
    tracker: str | None = None,
    show_progress: bool = False,
    **changes,
) -> Pretrainer:
    """A loop over a text; without a model, one of `FIELDS`."""
    folder.mkdir(parents=True, exist_ok=True)
    return Pretrainer(
        model or tiny_language_model(),
        tiny_tokenizer(),
        Corpus(text),
        tiny_settings(**changes),
        folder,
        heldout=None if heldout is None else Corpus(heldout),
        pretokenized=True,
        total_steps=total_steps,
        show_progress=show_progress,
        tracker=tracker,
    )


def command_line(text: Path | Sequence[Path], vocab: Path, out: Path, **changes) -> list[str]:
    """The arguments of `elmo-hf` for a run like that of [`tiny_pretrainer`]; `changes` are settings and fields."""
    texts = [text] if isinstance(text, Path) else text
    values = FIELDS | SETTINGS | changes
    # The text is read again until the steps are done; else it is read once.
    epochs = values.pop("epochs") or 1
    limit = ["--steps", values.pop("steps")] if "steps" in values else ["--epochs", epochs]
    options = [part for name, value in values.items() for part in ("--set", f"{name}={json.dumps(value)}")]
    return [*map(str, ["pretrain", *texts, "--vocab", vocab, "--out", out, "--pretokenized", *limit]), *options]


def recorded_losses(folder: Path) -> dict[int, float]:
    """Step → loss, every bit of it."""
    return {record["step"]: record["loss"] for record in read_history(folder / "history.jsonl") if "loss" in record}
