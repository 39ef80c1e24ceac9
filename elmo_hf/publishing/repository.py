"""The files of a published model."""

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError

from ..errors import ModelError
from ..modeling.checks_elmo import check_index, check_shapes, read_json_object, tensor_shapes
from ..modeling.configuration_elmo import AUTO_MAP, MODELS, ElmoConfig
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.run_records import CONVERSION, FINETUNING, HISTORY, PRETRAINING, RESULTS, Records, malformed_files
from .card import CARD, is_made_here, read_metadata, write_card
from .metadata import check_metadata

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
WEIGHTS, INDEX = "model*.safetensors", "model.safetensors.index.json"
CODE = sorted((Path(__file__).parent.parent / "modeling").glob("*_elmo.py"))
CLASSES = {entry.name: entry for entry in MODELS}
# The files of sentence-transformers. The first lists its modules.
SENTENCES = ["modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"]
# The files of a model. They are published from its folder, and removed from the repository if a later model lacks them.
OF_THE_MODEL = [WEIGHTS, INDEX, CONVERSION, HISTORY, RESULTS, "scalar_mixes.json", "curve.svg", "mixes.svg", *SENTENCES]
# Other files that are published unchanged. All other files of a folder are not published.
AS_IT_IS = ["tokenizer*.json", "special_tokens_map.json", "*.svg", "*.png", "LICENSE*"]
REPLACED = [*OF_THE_MODEL, "*_elmo.py", "*.safetensors", PRETRAINING, FINETUNING]
NEEDED = {
    CONFIG: "save a model there with save_pretrained",
    WEIGHTS: "save a model there with save_pretrained; a pickle is not published",
    TOKENIZER: "save its tokenizer there with save_pretrained",
    TOKENIZER_CONFIG: "save its tokenizer there with save_pretrained",
}


def complete_repository(folder: Path, stage: Path, name: str) -> dict[str, Path]:
    """
    Collects the files of a repository from a model's folder: the config with the full `auto_map`, the weights, the
    tokenizer, the code of all classes, the records of how the model was made (without paths of this machine), and the
    card, which is generated unless it was written by hand.

    Args:
        folder: The model's folder. It is not changed.
        stage: A folder for the files that are generated or changed.
        name: The name of the repository.

    Returns:
        The files by their names in the repository.
    """
    names = _check_files(folder)
    check_model(folder)
    published = [*OF_THE_MODEL, *AS_IT_IS]
    files = {file: folder / file for file in names if any(fnmatch(file, pattern) for pattern in published)}
    if not _is_sentence_model(folder):
        files = {file: path for file, path in files.items() if file not in SENTENCES}
    files |= {path.name: path for path in CODE}
    config, settings = (read_json_object(folder / changed) for changed in (CONFIG, TOKENIZER_CONFIG))
    auto_map = {"AutoConfig": "configuration_elmo.ElmoConfig"} | AUTO_MAP
    tokenizer_map = {"AutoTokenizer": ["tokenization_elmo.ElmoTokenizer", None]}
    made = {CONFIG: config | {"auto_map": auto_map}, TOKENIZER_CONFIG: settings | {"auto_map": tokenizer_map}}
    with malformed_files(folder):
        made |= Records.of(folder).published()
    files |= {file: _write(stage / file, content) for file, content in made.items()}
    if is_made_here(folder):
        write_card(folder, name=name, out=stage)
        return files | {path.name: path for path in stage.iterdir()}
    check_metadata(read_metadata(folder))
    return files | {CARD: folder / CARD}


def _is_sentence_model(folder: Path) -> bool:
    """Whether sentence-transformers needs only files beside the model: modules in folders are not published."""
    try:
        return not any(module["path"] for module in json.loads((folder / SENTENCES[0]).read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def check_model(folder: Path):
    """Raises an error if the config, the weights or the tokenizer do not load, or do not fit each other."""
    try:
        kind = read_json_object(folder / CONFIG).get("model_type")
        if kind != ElmoConfig.model_type:
            raise ModelError(f"{folder} should hold a model of type elmo, found {kind}.")
        config = ElmoConfig.from_pretrained(folder)
        files = [str(path) for path in sorted(folder.glob(WEIGHTS))]
        if (folder / INDEX).exists():
            check_index(folder / INDEX)
            shards = {folder / file for file in read_json_object(folder / INDEX)["weight_map"].values()}
            if missing := sorted(path.name for path in shards if not path.exists()):
                raise ModelError(f"{folder} lacks {', '.join(missing)}, which {INDEX} names: save the model again.")
        _check_weights(config, tensor_shapes(files))
        ElmoTokenizer.from_pretrained(folder)
    except ModelError:
        raise
    except StrictDataclassError as error:  # its cause says what is wrong
        raise ModelError(f"{folder / CONFIG}: {error.__cause__ or error}") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder} does not load: {' '.join(str(error).split())}") from error


def _check_weights(config: ElmoConfig, shapes: dict[str, tuple[int, ...]]):
    """Compares the shapes of all weights with those of the saved class, without allocating memory."""
    name = (config.architectures or [MODELS[0].name])[0]
    if name not in CLASSES:
        raise ModelError(f"config.json says `architectures` {name}: it should be one of {', '.join(CLASSES)}.")
    with torch.device("meta"):
        model = CLASSES[name].model_class(config)
    check_shapes(model, shapes, model.base_model_prefix, mismatches_are_fine=False)
    if missing := sorted(model.state_dict().keys() - shapes.keys()):
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ModelError(f"The weights lack {', '.join(missing[:3])}{more}, which a {name} has: save the model again.")


def _check_files(folder: Path) -> list[str]:
    """The names of all files. Raises an error if a file that a repository needs is missing."""
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder: name one that holds a model.")
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    for pattern, remedy in NEEDED.items():
        if not any(fnmatch(file, pattern) for file in names):
            raise ModelError(f"{folder} holds no {pattern}: {remedy}.")
    return names


def _write(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return path


__all__ = ["REPLACED", "check_model", "complete_repository"]
