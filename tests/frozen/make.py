"""
Freezes repositories as this version publishes them, with the values that they compute:

    python -m tests.frozen.make 2026-11-18-heads

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
    ElmoForCoreference,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoles,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
)
from elmo_hf.publishing.repository import complete_repository
from tests.frozen.numbers import numbers_of
from tests.models import TINY

FOLDER = Path(__file__).parent
LABELS = {0: "O", 1: "B-PER", 2: "I-PER"}
ROLES = {0: "O", 1: "B-A0", 2: "I-A0", 3: "B-A1", 4: "I-A1"}
MODELS = {
    "bilm": (
        ElmoForPreTraining,
        {"softmax_type": "adaptive", "softmax_cutoffs": [8], "sentence_layers": [0, 2], "sentence_size": 3},
    ),
    "tagger": (
        ElmoForTokenClassification,
        {
            "id2label": LABELS,
            "label2id": {label: label_id for label_id, label in LABELS.items()},
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
    "esim": (
        ElmoForSequenceClassification,
        {"text_pairs": True, "pair_attention": "esim", "elmo_places": "both", "task_layer_size": 4, "num_labels": 3},
    ),
    "roles": (
        ElmoForSemanticRoles,
        {
            "id2label": ROLES,
            "label2id": {label: label_id for label_id, label in ROLES.items()},
            "task_lstm_type": "alternating",
            "num_task_layers": 2,
            "task_layer_size": 4,
            "predicate_size": 3,
        },
    ),
    "coreference": (
        ElmoForCoreference,
        {"task_layer_size": 4, "span_size": 5, "max_span_width": 3, "span_ratio": 1.0, "max_antecedents": 4},
    ),
    "questions": (ElmoForQuestionAnswering, {"task_layer_size": 4, "allow_no_answer": True}),
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
            for tensor in [*model.parameters(), *model.buffers()]:  # biases, mixes and poolings too
                tensor.data += 0.1 * torch.randn_like(tensor)
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
