"""
Taggers that are stored without the biLM: the weights of the head in half precision, and a description that names the
biLM they belong to by the checksum of its weights.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from ..errors import ModelError
from ..modeling.checks_elmo import read_json_object
from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.modeling_elmo import ElmoModel
from ..modeling.modeling_heads_elmo import ElmoForTokenClassification

FOLDER = Path(__file__).with_name("heads")
DESCRIPTION, WEIGHTS, BILM_WEIGHTS = "head.json", "head.safetensors", "model.safetensors"
BILM = "elmo."


@dataclass
class StoredHead:
    """
    The description of a tagger that is stored without the biLM.

    Attributes:
        title: What it tags.
        bilm: The name of the biLM.
        bilm_sha256: The SHA-256 of the biLM's `model.safetensors`.
        labels: The labels.
        fields: The config fields of the head.
        data, license: The training data, and their licence, which is that of the weights too.
        results: Metrics on the test data.
    """

    title: str
    bilm: str
    bilm_sha256: str
    labels: list[str]
    fields: dict[str, Any]
    data: str
    license: str
    results: dict[str, float] = field(default_factory=dict)


def save_head(folder: Path, head: StoredHead, model: ElmoForTokenClassification):
    """Writes the description and the weights of a head. Existing files are replaced."""
    weights = {name: tensor.half() for name, tensor in model.state_dict().items() if not name.startswith(BILM)}
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise ModelError(f"{name} holds values too large for half precision.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS).write_bytes(save({name: tensor.contiguous() for name, tensor in weights.items()}))
    (folder / DESCRIPTION).write_text(json.dumps(asdict(head), indent=2, ensure_ascii=False) + "\n", "utf-8")


def load_stored_head(folder: Path, elmo: ElmoModel) -> ElmoForTokenClassification:
    """
    Loads a head on top of its biLM, which it shares with others.

    Args:
        folder: Written by [`save_head`].
        elmo: The biLM that the head was trained on.
    """
    head = read_head(folder)
    fields: dict[str, Any] = elmo.config.to_dict() | head.fields | {"id2label": dict(enumerate(head.labels))}
    with torch.device("meta"):  # the biLM that it would have of its own
        model = ElmoForTokenClassification(ElmoConfig(**fields))
    model.elmo = elmo
    weights = {name: tensor.float() for name, tensor in load_file(folder / WEIGHTS).items()}
    loaded = model.load_state_dict(weights, strict=False, assign=True)
    missing = [name for name in loaded.missing_keys if not name.startswith(BILM)]
    if missing or loaded.unexpected_keys:
        raise ModelError(f"{folder} is damaged: {', '.join([*missing, *loaded.unexpected_keys])}. Make it again.")
    return model.to(elmo.device).eval()


def read_head(folder: Path) -> StoredHead:
    """The description of a stored head."""
    return StoredHead(**read_json_object(folder / DESCRIPTION))


def stored_heads_of(model_folder: Path, heads: Path = FOLDER) -> list[Path]:
    """The folders of the stored heads that were trained on a model, in the order of their names."""
    weights = model_folder / BILM_WEIGHTS
    if not weights.is_file():
        return []
    digest = sha256(weights)
    folders = sorted(path.parent for path in heads.glob(f"*/{DESCRIPTION}"))
    return [folder for folder in folders if read_head(folder).bilm_sha256 == digest]


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


__all__ = ["FOLDER", "StoredHead", "load_stored_head", "read_head", "save_head", "sha256", "stored_heads_of"]
