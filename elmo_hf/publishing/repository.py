"""What a published model is made of."""

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..modeling_elmo import AUTO_MAP
from .card import CARD, is_made_here, read_metadata, write_card
from .metadata import check_metadata
from .records import CONVERSION, HISTORY, RESULTS, Records

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
CODE = sorted(Path(__file__).parent.parent.glob("*_elmo.py"))
# What of a folder is published. The files that describe a run name places on this machine, and stay here.
PUBLISHED = ["model*.safetensors", "model.safetensors.index.json", "tokenizer*.json", "special_tokens_map.json"]
PUBLISHED += ["*.svg", "*.png", "LICENSE*", "scalar_mixes.json", CONVERSION, HISTORY, RESULTS]
# What a new version of a model replaces: it goes if the new one has none of that name.
REPLACED = ["*_elmo.py", "*.safetensors", "*.safetensors.index.json"]
NEEDED = {
    CONFIG: "save a model there with save_pretrained",
    "*.safetensors": "save a model there with save_pretrained; a pickle is not published",
    TOKENIZER: "save its tokenizer there with save_pretrained",
    TOKENIZER_CONFIG: "save its tokenizer there with save_pretrained",
}


def complete_repository(folder: Path, stage: Path, name: str) -> dict[str, Path]:
    """
    All that a repository needs, from a model's folder: config with the full `auto_map`, weights, tokenizer, the code of
    all classes, and a card, which is made where there is none.

    Args:
        folder: The model's; it stays as it is.
        stage: Gets the files that are made or changed.
        name: The repository's.

    Returns:
        The files by their names in the repository.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    for pattern, remedy in NEEDED.items():
        if not any(fnmatch(found, pattern) for found in names):
            raise ModelError(f"{folder} holds no {pattern}: {remedy}.")
    files = {found: folder / found for found in names if any(fnmatch(found, pattern) for pattern in PUBLISHED)}
    files |= {path.name: path for path in CODE}
    changes = {
        CONFIG: {"AutoConfig": "configuration_elmo.ElmoConfig"} | AUTO_MAP,
        TOKENIZER_CONFIG: {"AutoTokenizer": ["tokenization_elmo.ElmoTokenizer", None]},
    }
    for changed, auto_map in changes.items():
        files[changed] = _with_auto_map(folder / changed, stage / changed, auto_map)
    return files | _card(folder, stage, name, files)


def _card(folder: Path, stage: Path, name: str, files: dict[str, Path]) -> dict[str, Path]:
    """The card as it was written by hand, or made for the repository; and its pictures."""
    if not is_made_here(folder):
        check_metadata(read_metadata(folder))
        return {CARD: folder / CARD}
    card_stage = stage / "card"
    card_stage.mkdir()
    for found, path in files.items():  # the card is made beside links to what it is about
        if not found.endswith((".py", ".svg", ".png")):
            (card_stage / found).symlink_to(path.resolve())
    if (folder / CARD).exists():  # what was said of the model is kept
        (card_stage / CARD).write_bytes((folder / CARD).read_bytes())
    write_card(card_stage, Records.of(folder), name=name)
    return {path.name: path for path in card_stage.iterdir() if not path.is_symlink()}


def _with_auto_map(path: Path, changed: Path, auto_map: dict[str, Any]) -> Path:
    try:
        values = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is no JSON: {error}") from error
    changed.write_text(json.dumps(values | {"auto_map": auto_map}, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return changed


__all__ = ["REPLACED", "complete_repository"]
