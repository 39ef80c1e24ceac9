"""
Freezes repositories as this version publishes them, with the values that they compute:

    python -m tests.frozen.make 2026-11-18

Do this when what is published has changed. Existing archives are never made again.
"""

import argparse
import json
import tarfile
import tempfile
from pathlib import Path

import torch

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
)
from elmo_hf.publishing.repository import complete_repository
from tests.frozen.numbers import numbers_of
from tests.models import TINY

FOLDER = Path(__file__).parent
LABELS = {0: "O", 1: "B-PER", 2: "I-PER"}
MODELS = {
    "bilm": (ElmoForPreTraining, {"softmax_type": "adaptive", "softmax_cutoffs": [8]}),
    "tagger": (
        ElmoForTokenClassification,
        {
            "id2label": LABELS,
            "label2id": {label: number for number, label in LABELS.items()},
            "tag_decoder": "crf",
            "elmo_places": "both",
            "word_vector_size": 3,
            "task_layer_size": 5,
        },
    ),
    "classifier": (
        ElmoForSequenceClassification,
        {"text_pairs": True, "pair_attention": True, "pooling": "attention", "task_layer_size": 4},
    ),
}


def freeze(path: Path):
    """Writes an archive with all models and `numbers.json`. Its compression stores the code of all models once."""
    if path.exists():
        raise FileExistsError(f"{path} is there, and must stay as it is: give another name.")
    tokenizer = ElmoTokenizer().train_new_from_iterator(["the cat sat on the mat . 我 在"], vocab_size=20)
    with tempfile.TemporaryDirectory() as temporary:
        stage = Path(temporary)
        for seed, (name, (model_class, fields)) in enumerate(MODELS.items()):
            torch.manual_seed(seed)
            model = model_class(ElmoConfig(**(TINY | {"vocab_size": tokenizer.vocab_size} | fields)))
            for parameter in model.parameters():  # biases and mixes too are worth looking at
                parameter.data += 0.1 * torch.randn_like(parameter)
            model.save_pretrained(stage / "saved" / name)
            tokenizer.save_pretrained(stage / "saved" / name)
            (stage / "made" / name).mkdir(parents=True)
            published = complete_repository(stage / "saved" / name, stage / "made" / name, f"me/{name}")
            (stage / "published" / name).mkdir(parents=True)
            for file, source in published.items():
                (stage / "published" / name / file).write_bytes(source.read_bytes())
        numbers = numbers_of(stage / "published", trust_remote_code=False)
        (stage / "published" / "numbers.json").write_text(json.dumps(numbers))
        with tarfile.open(path, "x:xz") as archive:
            for file in sorted((stage / "published").rglob("*"), key=lambda file: (file.name, file)):
                if file.is_file():
                    archive.add(file, file.relative_to(stage / "published"), filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the user and the time, which are of no interest."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.frozen.make", description=__doc__.split("\n\n")[0])
    parser.add_argument("name")
    freeze(FOLDER / f"{parser.parse_args().name}.tar.xz")
