"""
The original format: `options.json` and `weights.hdf5`, as bilm-tf writes them and AllenNLP reads them.

Every array of the file is a view on parameters of [`ElmoModel`], or several of them stacked (the input and recurrent
weights are one matrix there). The same views serve both ways, so that a round trip is exact to the bit.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig

from elmo_hf.errors import ConversionError
from elmo_hf.modeling.configuration_elmo import ElmoConfig
from elmo_hf.modeling.modeling_elmo import DIRECTIONS, ElmoModel
from elmo_hf.modeling.tokenization_elmo import ElmoTokenizer
from elmo_hf.runtime.extras import import_extra
from elmo_hf.runtime.hdf5_files import PatientFile
from elmo_hf.runtime.staging import staged_folder

from .arrays import Views, check_arrays, check_float, count_values, fill_views
from .folder import full_disk_errors, load_tokenizer, save_folder, word_ids
from .limits import check_memory
from .options import config_errors, read_object
from .provenance import provenance

OPTIONS_FILE, WEIGHTS_FILE = "options.json", "weights.hdf5"


def convert_bilm_hdf5(
    options: str | os.PathLike,
    weights: str | os.PathLike,
    out: str | os.PathLike,
    vocab: str | os.PathLike | None = None,
    dtype: str = "float32",
) -> Path:
    """
    Original options and weights → a folder with config, safetensors and tokenizer.

    Args:
        options: `options.json`, of training or of inference.
        weights: `weights.hdf5`
        out: The folder to write; new or empty.
        vocab: The original `vocab.txt`. Without it every word has the unknown id; the vectors are the same.
        dtype: Stored precision: `float32`, `float16` or `bfloat16`.

    Returns:
        `out`
    """
    with full_disk_errors(out), staged_folder(out) as stage:
        config, tokenizer = read_settings(options, vocab)
        model = read_bilm_hdf5(config, weights)
        origin = provenance("bilm-hdf5", count_parameters(model), weights=weights, options=options, vocab=vocab)
        save_folder(model, tokenizer, stage, dtype, origin, Path(out).resolve().name)
    return Path(out)


def describe_bilm_hdf5(
    options: str | os.PathLike, weights: str | os.PathLike, vocab: str | os.PathLike | None = None
) -> ElmoConfig:
    """The config of original files. The names and shapes of the weights are checked."""
    config, _ = read_settings(options, vocab)
    with torch.device("meta"):
        expected = bilm_views(ElmoModel(config))
    _read_arrays(weights, expected, only_check=True)
    return config


def read_settings(options: str | os.PathLike, vocab: str | os.PathLike | None) -> tuple[ElmoConfig, ElmoTokenizer]:
    """The config and the tokenizer of original options and, if given, of the original vocabulary."""
    stated = read_object(options)
    with config_errors(options):
        config = ElmoConfig.from_bilm_options(stated)
    if vocab is None and config.uses_words:
        raise ConversionError("A model with a word table needs its vocabulary: give the original vocab.txt.")
    tokenizer = load_tokenizer(vocab, config.max_characters_per_token, stated.get("n_tokens_vocab"))
    config.update(word_ids(tokenizer))
    return config, tokenizer


def export_bilm_hdf5(model: str | os.PathLike, out: str | os.PathLike) -> Path:
    """
    A saved model → a folder with `options.json`, `weights.hdf5` and `vocab.txt`. The format has no place for a mixer:
    it belongs to the task there, and stays behind.

    Args:
        model: A folder, or a name on the Hub.
        out: The folder to write; new or empty.

    Returns:
        `out`
    """
    with full_disk_errors(out), staged_folder(out) as stage:
        loaded, tokenizer = _load(model)
        write_bilm_hdf5(loaded, stage / OPTIONS_FILE, stage / WEIGHTS_FILE)
        tokenizer.save_vocabulary(str(stage))
    return Path(out)


def _load(model: str | os.PathLike) -> tuple[ElmoModel, ElmoTokenizer]:
    """A saved model and its tokenizer. Missing and unexpected weights are refused."""
    try:
        kind = PreTrainedConfig.get_config_dict(model)[0].get("model_type")
        if kind != ElmoConfig.model_type:
            raise ConversionError(f"{model} should hold a model of type elmo, found {kind}.")
        loaded, report = ElmoModel.from_pretrained(
            model, dtype=torch.float32, use_safetensors=True, ignore_mismatched_sizes=True, output_loading_info=True
        )
        tokenizer = ElmoTokenizer.from_pretrained(model)
    except ConversionError:
        raise
    except Exception as error:  # depending on the missing or damaged file: OSError, SafetensorError, TypeError ...
        raise ConversionError(f"{model} is no model folder or name on the Hub that can be loaded: {error}") from error
    if report["missing_keys"]:
        raise ConversionError(f"{model} lacks the weights {', '.join(sorted(report['missing_keys']))}.")
    if report["unexpected_keys"]:
        names = ", ".join(sorted(report["unexpected_keys"]))
        raise ConversionError(f"{model} holds the weights {names}, which its config.json does not describe.")
    for name, actual, expected in sorted(report["mismatched_keys"]):
        raise ConversionError(f"{model}: {name} should be {tuple(expected)} by config.json, found {tuple(actual)}.")
    if loaded.config.uses_words and loaded.config.vocab_size != tokenizer.vocab_size:
        raise ConversionError(
            f"{model}: the model has {loaded.config.vocab_size} words, its tokenizer {tokenizer.vocab_size}."
        )
    return loaded, tokenizer


def read_bilm_hdf5(config: ElmoConfig, weights: str | os.PathLike) -> ElmoModel:
    """The model of `config` with the weights of an original HDF5 file."""
    with torch.device("meta"):
        expected = bilm_views(ElmoModel(config))
    arrays = _read_arrays(weights, expected)
    model = ElmoModel(config)
    fill_views(bilm_views(model), arrays, weights)
    return model


def _read_arrays(weights: str | os.PathLike, expected: Views, only_check: bool = False) -> dict[str, torch.Tensor]:
    """All arrays of an HDF5 file as fp32, or none if only names, shapes and types are to be checked."""
    h5py = require_h5py()
    try:
        with h5py.File(weights, "r") as file:
            datasets = {}
            file.visititems(lambda name, item: datasets.update({name: item} if isinstance(item, h5py.Dataset) else {}))
            check_arrays(expected, datasets, weights)
            for name, dataset in datasets.items():
                if dataset.external or dataset.is_virtual:
                    raise ConversionError(f"{weights}: {name} is stored in another file, which is not read.")
                if dataset.dtype.kind != "f":
                    raise ConversionError(f"{weights}: {name} should hold floats, found {dataset.dtype}.")
            check_memory(sum(map(_memory, datasets.values())), os.path.getsize(weights), weights)
            if only_check:
                return {}
            return {name: torch.from_numpy(dataset.astype("float32")[()]) for name, dataset in datasets.items()}
    except ConversionError:
        raise
    except Exception as error:  # depending on the damage: OSError, RuntimeError, KeyError, ValueError ...
        raise ConversionError(f"{weights} cannot be read as HDF5 (missing, truncated or foreign): {error}") from error


def _memory(dataset: Any) -> int:
    """The memory for reading an HDF5 dataset. Chunks are read whole and may be larger than the dataset."""
    values = max(dataset.size, math.prod(dataset.chunks or (0,)))
    return values * max(dataset.dtype.itemsize, 4)


def write_bilm_hdf5(model: ElmoModel, options: str | os.PathLike, weights: str | os.PathLike):
    """Writes a model in the original format."""
    h5py = require_h5py()
    text = json.dumps(bilm_options(model.config), indent=2)
    with PatientFile(weights, "w+") as disk:
        with h5py.File(disk, "w") as file:
            for name, views in bilm_views(model).items():
                file[name] = torch.cat(views).float().cpu().numpy()
                disk.check()
        disk.check()
    Path(options).write_text(text + "\n", "utf-8")


def count_parameters(model: ElmoModel) -> int:
    """The number of values in the original format: without the mixer and the characters' padding row."""
    return count_values(bilm_views(model))


def bilm_views(model: ElmoModel) -> Views:
    """
    The parameters in each array of the original format, in its layout, stacked along the first dimension. They are
    views: writing into them fills the model.
    """
    check_float(model)
    encoder, views = model.token_encoder, {}
    if encoder.word_embeddings is not None:
        views["embedding"] = [encoder.word_embeddings.weight[: model.config.vocab_size]]
    if encoder.characters is not None:
        characters = encoder.characters
        views["char_embed"] = [characters.char_embeddings.weight[1:]]  # row 0, the padding, is not in the file
        for index, convolution in enumerate(characters.convolutions):
            views[f"CNN/W_cnn_{index}"] = [convolution.weight.permute(2, 1, 0).unsqueeze(0)]  # (1, width, in, out)
            views[f"CNN/b_cnn_{index}"] = [convolution.bias]
        for index, highway in enumerate(characters.highways):
            views[f"CNN_high_{index}/W_carry"] = [highway.carry.weight.t()]
            views[f"CNN_high_{index}/b_carry"] = [highway.carry.bias]
            views[f"CNN_high_{index}/W_transform"] = [highway.transform.weight.t()]
            views[f"CNN_high_{index}/b_transform"] = [highway.transform.bias]
    if encoder.projection is not None:
        views["CNN_proj/W_proj"] = [encoder.projection.weight.t()]
        views["CNN_proj/b_proj"] = [encoder.projection.bias]
    for place, direction in enumerate(DIRECTIONS[model.config.directions]):
        for index, layer in enumerate(model.layers):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell"
            views[f"{cell}/W_0"] = [layer.input_weight[place], layer.recurrent_weight[place]]  # rows [x; h]
            views[f"{cell}/B"] = [layer.bias[place]]
            if layer.projection_weight is not None:
                views[f"{cell}/W_P_0"] = [layer.projection_weight[place]]
    return {name: [view.detach() for view in tensors] for name, tensors in views.items()}


def bilm_options(config: ElmoConfig) -> dict[str, Any]:
    """The original's options for a config. Settings that they cannot express are refused."""
    _check_expressible(config)
    options: dict[str, Any] = {
        "bidirectional": config.directions == "both",
        "dropout": config.dropout,
        "lstm": {
            "cell_clip": config.cell_clip,
            "dim": config.cell_size,
            "n_layers": config.num_hidden_layers,
            "proj_clip": config.projection_clip,
            "projection_dim": config.output_size,
            "use_skip_connections": config.skip_connections,
        },
    }
    if config.uses_characters:
        options["char_cnn"] = {
            "activation": config.char_activation,
            "embedding": {"dim": config.char_embedding_size},
            "filters": config.char_filters,
            "max_characters_per_token": config.max_characters_per_token,
            "n_characters": config.char_vocab_size,
            "n_highway": config.num_highway_layers,
        }
    else:
        options["n_tokens_vocab"] = config.vocab_size
    return options


def _check_expressible(config: ElmoConfig):
    obstacles = {
        "token_inputs": config.token_inputs == "both",
        "directions": config.directions == "backward",
        "forget_bias": config.forget_bias != 1,
        "char_vocab_size": config.uses_characters and config.char_vocab_size != 262,
        "char_pad_id": config.uses_characters and config.char_pad_id != 261,
        # The original has a projection if and only if the sizes differ.
        "token_projection": config.token_projection != (config.feature_size != config.output_size),
        "projection_size": config.projection_size == config.cell_size,
        "word_embedding_size": config.uses_words and config.word_embedding_size != config.output_size,
    }
    for field, is_obstacle in obstacles.items():
        if is_obstacle:
            raise ConversionError(f"The original format has no place for `{field}={getattr(config, field)!r}`.")


def require_h5py():
    """The package h5py. If it is missing, the error names the remedy."""
    try:
        return import_extra("h5py", "original weights")
    except ImportError as error:
        raise ConversionError(str(error)) from error


__all__ = [
    "bilm_options",
    "bilm_views",
    "convert_bilm_hdf5",
    "count_parameters",
    "describe_bilm_hdf5",
    "export_bilm_hdf5",
    "read_bilm_hdf5",
    "read_settings",
    "require_h5py",
    "write_bilm_hdf5",
]
