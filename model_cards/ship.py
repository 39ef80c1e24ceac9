"""
From a finished run to the folder of a model that comes with this package:

    python -m elmo_hf.model_cards.ship RUN model_cards/elmo-english-compact

The weights are stored in half precision and load as fp32. No code files: publishing adds them. The card is written by
hand; the picture of the training curve is drawn from the run's records.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from elmo_hf.embedding import SENTENCE_FILES, write_sentence_files
from elmo_hf.publishing import draw_curve, read_history

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", *SENTENCE_FILES)


def ship(run: Path, folder: Path):
    """
    Writes config, weights, tokenizer and curve of a run's model.

    Args:
        run: The folder of a run that has ended.
        folder: Is made; files of the same names are replaced, others (the card) stay.
    """
    model = ElmoForPreTraining.from_pretrained(run).to(torch.float16)
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise ValueError(f"{name} holds values too large for half precision.")
    with tempfile.TemporaryDirectory(prefix=".ship-", dir=folder.parent) as temporary:
        stage = Path(temporary)
        model.save_pretrained(stage)
        ElmoTokenizer.from_pretrained(run).save_pretrained(stage)
        write_sentence_files(stage)
        _change_json(stage / "config.json", dtype="float32")
        _change_json(stage / "tokenizer_config.json")
        (stage / "curve.svg").write_text(draw_curve(read_history(run / "history.jsonl")), encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for name in (*FILES, "curve.svg"):
            shutil.copyfile(stage / name, folder / name)


def _change_json(path: Path, **changes: Any):
    """Sets values, and takes out the pointer to code files."""
    values = json.loads(path.read_text("utf-8")) | changes
    values.pop("auto_map", None)
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m elmo_hf.model_cards.ship", description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    ship(options.run, options.folder)
    sizes = {path.name: path.stat().st_size for path in sorted(options.folder.iterdir())}
    print("\n".join(f"{name:<24}{size:>12,}" for name, size in sizes.items()))
    print(f"{'all':<24}{sum(sizes.values()):>12,} bytes")


if __name__ == "__main__":
    main()
