"""Detection of a checkpoint's format by its files and their first bytes, and the plan of its conversion."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_hf.errors import ConversionError
from elmo_hf.modeling.configuration_elmo import ElmoConfig
from elmo_hf.modeling.modeling_elmo import ElmoForPreTraining, ElmoModel

from .allennlp import convert_allennlp, describe_allennlp
from .bilm_checkpoint import STATE_FILE, convert_bilm_checkpoint, describe_bilm_checkpoint, find_checkpoint
from .bilm_hdf5 import OPTIONS_FILE, convert_bilm_hdf5, describe_bilm_hdf5
from .elmoformanylangs import (
    CONFIG_FILE,
    ENCODER_FILE,
    TOKEN_EMBEDDER_FILE,
    convert_elmoformanylangs,
    describe_elmoformanylangs,
)
from .folder import DTYPES
from .options import parse_object

HDF5 = b"\x89HDF\r\n\x1a\n"
HDF5_ENDINGS, ALLENNLP_ENDINGS = (".hdf5", ".h5"), (".th", ".tar.gz")
ALLENNLP_NAMES = ("model.tar.gz", "best.th", "weights.th")  # the first one may hold the options too
PICKLES = (TOKEN_EMBEDDER_FILE, ENCODER_FILE)
VOCAB_FILE = "vocab.txt"
# The config fields that are shown for every model.
SHOWN = ("token_inputs", "vocab_size", "token_projection", "num_hidden_layers", "cell_size", "projection_size")
SHOWN += ("cell_clip", "projection_clip", "forget_bias", "skip_connections", "directions", "dropout")
KNOWN = (
    "options.json and weights.hdf5 (bilm-hdf5), model.ckpt-N.index and its data (bilm-checkpoint), best.th, "
    f"weights.th or model.tar.gz (allennlp), or {CONFIG_FILE}, {' and '.join(PICKLES)} (elmoformanylangs)"
)


class Detected(NamedTuple):
    """
    What was found.

    Attributes:
        format: Its name, which is that of the command.
        files: The files that say so, by their use.
        also: Other formats that are there too, and are not used.
    """

    format: str
    files: dict[str, Path]
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = ", ".join(f"{use} {path}" for use, path in self.files.items())
        also = f"; also there, and not used: {', '.join(self.also)}" if self.also else ""
        return f"{self.format} ({names}){also}"


class Plan(NamedTuple):
    """
    What a conversion would write.

    Attributes:
        detected: What was found.
        config: The config of the model.
        model_class: [`ElmoForPreTraining`] if there is a softmax.
        parameters: The number of parameters in each part of the model.
        size: Bytes of the weights.
        files: Names of the files, without those of the code.
    """

    detected: Detected
    config: ElmoConfig
    model_class: type
    parameters: dict[str, int]
    size: int
    files: list[str]

    @property
    def fields(self) -> dict[str, Any]:
        """The config fields that describe the model, without those of heads and training."""
        config = self.config
        names = [*SHOWN]
        if config.uses_characters:
            names += ["max_characters_per_token", "num_highway_layers"]
            names += [name for name in config.__dataclass_fields__ if name.startswith("char_")]
        if config.uses_words:
            names.append("word_embedding_size")
        if self.model_class is ElmoForPreTraining:
            names += ["softmax_type"] + (["softmax_samples"] if config.softmax_type == "sampled" else [])
        return {name: getattr(config, name) for name in sorted(names)}


def detect(
    path: str | os.PathLike, options: str | os.PathLike | None = None, vocab: str | os.PathLike | None = None
) -> Detected:
    """
    Detects the format of a folder, of one of its files, or of the files that share a prefix.

    Args:
        path: Where to look.
        options: The biLM's options, if they are elsewhere.
        vocab: Its vocabulary, if it is elsewhere.
    """
    path = Path(path)
    named = {use: Path(file) for use, file in (("options", options), ("vocab", vocab)) if file is not None}
    if path.is_dir():
        return _in_folder(path, named)
    if path.with_name(path.name + ".index").is_file() or path.name.endswith((".index", ".meta")):
        return _checkpoint(path, named)
    if not path.is_file():
        raise ConversionError(f"{path} does not exist: give a folder with {KNOWN}.")
    if ".data-" in path.name and "-of-" in path.name:
        return _checkpoint(path, named)
    if path.name in (*PICKLES, CONFIG_FILE, STATE_FILE) or path.suffix == ".dic":
        return _in_folder(path.parent, named)
    start = _start(path)
    if start.startswith(HDF5):
        return _hdf5(path, named)
    if path.suffix == ".json" and _has(path, "lstm"):
        weights = [file for file in sorted(path.parent.iterdir()) if file.suffix in HDF5_ENDINGS]
        if not weights and any(path.parent.glob("*.index")):
            return _checkpoint(path.parent, {"options": path} | named)
        return _hdf5(_only(weights, path.parent, "HDF5 weights"), {"options": path} | named)
    if path.name.endswith(ALLENNLP_ENDINGS) or start.startswith((b"\x80", b"\x1f\x8b")):
        return Detected("allennlp", {"weights": path} | named)
    if start.startswith((b"PK\x03\x04", b"BZh", b"\xfd7zXZ")):
        raise ConversionError(f"{path} is a packed folder: unpack it, and give the folder.")
    raise ConversionError(f"{path} is not a known kind of file: {KNOWN}.")


def _many_langs(folder: Path, files: dict[str, Path], named: dict[str, Path]) -> Detected:
    if named:
        raise ConversionError(
            f"{folder} is a model of ELMoForManyLangs, which has its settings and words in the folder: leave out the "
            f"{' and the '.join(named)}."
        )
    return Detected("elmoformanylangs", files)


def _in_folder(folder: Path, named: dict[str, Path]) -> Detected:
    """The format in a folder that holds most of the model."""
    names = sorted(path for path in folder.iterdir() if path.is_file())
    finders: dict[str, Callable[[], Detected]] = {}
    if (folder / CONFIG_FILE).is_file() and all((folder / name).is_file() for name in PICKLES):
        files = {"config": folder / CONFIG_FILE, **{name.removesuffix(".pkl"): folder / name for name in PICKLES}}
        finders["elmoformanylangs"] = lambda: _many_langs(folder, files, named)
    if any(path.suffix == ".index" for path in names):
        finders["bilm-checkpoint"] = lambda: _checkpoint(folder, named)
    if weights := [path for path in names if path.suffix in HDF5_ENDINGS]:
        finders["bilm-hdf5"] = lambda: _hdf5(_only(weights, folder, "HDF5 weights"), named)
    if states := [path for path in names if path.name.endswith(ALLENNLP_ENDINGS)]:
        best = [folder / name for name in ALLENNLP_NAMES if folder / name in states]
        finders["allennlp"] = lambda: Detected(
            "allennlp", {"weights": _only(best[:1] or states, folder, "state dicts")} | named
        )
    if not finders:
        if _has(folder / CONFIG_FILE, "model_type"):
            raise ConversionError(f"{folder} is a folder of transformers already: from_pretrained loads it.")
        raise ConversionError(f"{folder} holds no known ELMo checkpoint: {KNOWN}.")
    chosen, *also = finders
    return finders[chosen]()._replace(also=tuple(also))


def _checkpoint(path: Path, named: dict[str, Path]) -> Detected:
    files = find_checkpoint(path, named.get("options"), named.get("vocab"))
    index = files.prefix.with_name(files.prefix.name + ".index")
    return Detected("bilm-checkpoint", {"checkpoint": index, "options": files.options, "vocab": files.vocab})


def _hdf5(weights: Path, named: dict[str, Path]) -> Detected:
    """The weights, and the options and the vocabulary in the same folder."""
    files = {"weights": weights}
    if "options" not in named:
        folder = weights.parent
        candidates = [path for path in sorted(folder.glob("*.json")) if "options" in path.name]
        if (folder / OPTIONS_FILE).is_file():
            candidates = [folder / OPTIONS_FILE]
        files["options"] = _only(candidates, folder, "options files")
    vocab = weights.with_name(VOCAB_FILE)
    if "vocab" not in named and vocab.is_file():
        files["vocab"] = vocab
    return Detected("bilm-hdf5", files | named)


def _only(paths: Sequence[Path], folder: Path, what: str) -> Path:
    if len(paths) != 1:
        names = f": {', '.join(path.name for path in paths)}. Give the one to take" if paths else ""
        raise ConversionError(f"{folder} should hold one of {what}, found {len(paths)}{names}.")
    return paths[0]


def _start(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(16)
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}.") from error


def _has(path: Path, field: str) -> bool:
    """Whether this is a JSON object with a field."""
    try:
        return field in parse_object(path.read_bytes(), path)
    except (OSError, ConversionError):
        return False


# ---- Conversion


def convert_path(
    path: str | os.PathLike,
    out: str | os.PathLike,
    options: str | os.PathLike | None = None,
    vocab: str | os.PathLike | None = None,
    dtype: str = "float32",
) -> Path:
    """
    Converts a checkpoint of any known format.

    Args:
        path, options, vocab: As in [`detect`].
        out: The folder to write; new or empty.
        dtype: Stored precision: `float32`, `float16` or `bfloat16`.

    Returns:
        `out`
    """
    detected = detect(path, options, vocab)
    return _converters()[detected.format][0](detected.files, out, dtype)


def plan_conversion(
    path: str | os.PathLike,
    options: str | os.PathLike | None = None,
    vocab: str | os.PathLike | None = None,
    dtype: str = "float32",
) -> Plan:
    """What [`convert_path`] would write. Names and shapes are checked, numbers are not, and nothing is written."""
    detected = detect(path, options, vocab)
    config, has_softmax = _converters()[detected.format][1](detected.files)
    model_class = ElmoForPreTraining if has_softmax else ElmoModel
    with torch.device("meta"):
        model = model_class(config)
    parameters: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = name.removeprefix("elmo.").split(".")[0]
        parameters[part] = parameters.get(part, 0) + parameter.numel()
    size = sum(parameters.values()) * DTYPES[dtype].itemsize
    files = ["README.md", "config.json", "conversion.json", "model.safetensors", "tokenizer.json"]
    return Plan(detected, config, model_class, parameters, size, [*files, "tokenizer_config.json"])


def _converters() -> dict[str, tuple[Callable[..., Path], Callable[..., tuple[ElmoConfig, bool]]]]:
    """Per format: a function that converts its files, and one that reads its config and whether it has a softmax."""

    def chosen(files: dict[str, Path], *names: str) -> dict[str, Any]:
        return {name: files.get(name) for name in names}

    return {
        "bilm-hdf5": (
            lambda files, out, dtype: convert_bilm_hdf5(
                files["options"], files["weights"], out, files.get("vocab"), dtype
            ),
            lambda files: (describe_bilm_hdf5(files["options"], files["weights"], files.get("vocab")), False),
        ),
        "allennlp": (
            lambda files, out, dtype: convert_allennlp(
                files["weights"], out, **chosen(files, "options", "vocab"), dtype=dtype
            ),
            lambda files: describe_allennlp(files["weights"], **chosen(files, "options", "vocab")),
        ),
        "bilm-checkpoint": (
            lambda files, out, dtype: convert_bilm_checkpoint(
                files["checkpoint"], out, files["options"], files["vocab"], dtype
            ),
            lambda files: (
                describe_bilm_checkpoint(files["checkpoint"], files["options"], files["vocab"]),
                True,
            ),
        ),
        "elmoformanylangs": (
            lambda files, out, dtype: convert_elmoformanylangs(files["config"].parent, out, dtype),
            lambda files: describe_elmoformanylangs(files["config"].parent),
        ),
    }


__all__ = ["Detected", "Plan", "convert_path", "detect", "plan_conversion"]
