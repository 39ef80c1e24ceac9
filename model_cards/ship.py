"""
From a finished run to the folder of a model that comes with this package:

    python -m elmo_hf.model_cards.ship RUN model_cards/elmo-english-compact --sentences english-000.txt.xz

The weights are stored in half precision and load as fp32. The sentence pooling is estimated from the given text, one
sentence per line with spaces between its words. No code files: publishing adds them. The card is written by hand; the
picture of the training curve is drawn from the run's records.
"""

import argparse
import itertools
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from elmo_hf.data.tables import numbered_lines
from elmo_hf.embedding import SENTENCE_FILES, ElmoEmbedder, write_sentence_files
from elmo_hf.publishing import draw_curve, read_history

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", *SENTENCE_FILES)
NUM_SENTENCES, MIN_WORDS = 40_000, 3  # for the sentence pooling


def ship(run: Path, folder: Path, sentences: Sequence[str] = ()):
    """
    Writes config, weights, tokenizer and curve of a run's model.

    Args:
        run: The folder of a run that has ended.
        folder: Is made; files of the same names are replaced, others (the card) stay.
        sentences: Files of sentences to estimate the sentence pooling from: every fifth one, up to `NUM_SENTENCES`.
    """
    model, tokenizer = ElmoForPreTraining.from_pretrained(run), ElmoTokenizer.from_pretrained(run)
    if sentences:
        _fit_sentence_pooling(model, tokenizer, sentences)
    model.to(torch.float16)
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise ValueError(f"{name} holds values too large for half precision.")
    with tempfile.TemporaryDirectory(prefix=".ship-", dir=folder.parent) as temporary:
        stage = Path(temporary)
        model.save_pretrained(stage)
        tokenizer.save_pretrained(stage)
        write_sentence_files(stage, "sentence" if sentences else "mean")
        _change_json(stage / "config.json", dtype="float32")
        _change_json(stage / "tokenizer_config.json")
        (stage / "curve.svg").write_text(draw_curve(read_history(run / "history.jsonl")), encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for name in (*FILES, "curve.svg"):
            shutil.copyfile(stage / name, folder / name)


def read_sentences(files: Sequence[str], most: int) -> list[list[str]]:
    """Every fifth sentence of the files, up to `most`: neighbouring sentences resemble each other."""
    lines = (line.split() for file in files for _, line in numbered_lines(file))
    chosen = itertools.islice((words for words in lines if len(words) >= MIN_WORDS), 0, None, 5)
    return list(itertools.islice(chosen, most))


def _fit_sentence_pooling(model: ElmoForPreTraining, tokenizer: ElmoTokenizer, files: Sequence[str]):
    """Adds a sentence pooling to the model's encoder."""
    ElmoEmbedder(model.elmo, tokenizer).fit_sentence_pooling(read_sentences(files, NUM_SENTENCES))
    model.config.sentence_layers = model.elmo.config.sentence_layers
    model.config.sentence_size = model.elmo.config.sentence_size


def _change_json(path: Path, **changes: Any):
    """Sets values, and removes the reference to code files."""
    values = json.loads(path.read_text("utf-8")) | changes
    values.pop("auto_map", None)
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m elmo_hf.model_cards.ship", description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", nargs="*", default=[], help="text to estimate the sentence pooling from")
    options = parser.parse_args()
    ship(options.run, options.folder, options.sentences)
    sizes = {path.name: path.stat().st_size for path in sorted(options.folder.iterdir())}
    print("\n".join(f"{name:<24}{size:>12,}" for name, size in sizes.items()))
    print(f"{'all':<24}{sum(sizes.values()):>12,} bytes")


if __name__ == "__main__":
    main()
