"""
AllenNLP: a state dict (`best.th`, `weights.th`), or a `model.tar.gz`, with an ELMo biLM somewhere inside.

AllenNLP re-arranges the original: gates are i, f, j, o; the forget bias of 1 is added to the stored bias; the highway's
gate carries the input instead of the transform, so its weights are negated; both highway products are one matrix.
"""

import io
import json
import os
import pickle
import re
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_hf.configuration_elmo import ElmoConfig
from elmo_hf.modeling_elmo import ElmoModel

from .folder import ConversionError, load_tokenizer, save_folder, staged_folder

SCALAR_MIXES_FILE = "scalar_mixes.json"
CHAR_EMBEDDING = "_token_embedder._char_embedding_weights"


class Archive(NamedTuple):
    """What an AllenNLP file holds of use: the tensors, the experiment's config, the biLM's options."""

    tensors: dict[str, torch.Tensor]
    experiment: dict[str, Any]
    options: dict[str, Any] | None


def convert_allennlp(
    path: str | os.PathLike,
    out: str | os.PathLike,
    options: str | os.PathLike | None = None,
    vocab: str | os.PathLike | None = None,
    dtype: str = "float32",
) -> Path:
    """
    An AllenNLP state dict or `model.tar.gz` → a folder with config, safetensors and tokenizer. The first scalar mix
    becomes the model's mixer; all of them are written to `scalar_mixes.json` where there are several.

    Args:
        path: The file.
        out: The folder to write; new or empty.
        options: The biLM's `options.json`: clipping, skip connections and activation are not in a state dict. Default:
            the archive's own, else what all released models have.
        vocab: A `vocab.txt` for word ids.
        dtype: Stored precision: `float32`, `float16` or `bfloat16`.

    Returns:
        `out`
    """
    with staged_folder(out) as stage:
        archive = read_archive(path)
        if options is not None:
            archive = archive._replace(options=_parse_json(Path(options).read_bytes(), options))
        prefix = _bilm_prefix(archive.tensors, path)
        mixes = scalar_mixes(archive.tensors, prefix)
        config = config_of(archive, prefix)
        tokenizer = load_tokenizer(vocab, config.max_characters_per_token)
        config.vocab_size = config.pad_token_id = tokenizer.vocab_size
        model = model_of(config, archive.tensors, prefix)
        if mixes:
            model.mixer.weights.data.copy_(torch.tensor(mixes[0]["weights"]))
            model.mixer.gamma.data.fill_(mixes[0]["gamma"])
        save_folder(model, tokenizer, stage, dtype)
        if len(mixes) > 1:
            (stage / SCALAR_MIXES_FILE).write_text(json.dumps(mixes, indent=2) + "\n", "utf-8")
    return Path(out)


def read_archive(path: str | os.PathLike) -> Archive:
    """Reads a state dict or an archive. Archive members are read in place; none is written to disk."""
    path = Path(path)
    if not path.is_file():
        raise ConversionError(f"{path} is no file: give AllenNLP's best.th, weights.th or model.tar.gz.")
    if not tarfile.is_tarfile(path):
        return Archive(_load_tensors(path.read_bytes(), path), {}, None)
    try:
        with tarfile.open(path) as tar:
            members = {member.name: member for member in tar if member.isreg()}

            def read(pattern: str) -> tuple[str, bytes] | None:
                names = sorted(name for name in members if re.search(pattern, name))
                return (names[0], tar.extractfile(members[names[0]]).read()) if names else None

            weights, experiment = read(r"(^|/)(weights|best|model)[^/]*\.th$"), read(r"(^|/)config\.json$")
            options = read(r"options_file$|options[^/]*\.json$")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ConversionError(f"{path} is no readable archive (truncated?): {error}") from error
    if weights is None:
        raise ConversionError(f"{path} holds no weights (*.th); found {', '.join(sorted(members)) or 'nothing'}.")
    return Archive(
        _load_tensors(weights[1], f"{path}:{weights[0]}"),
        _parse_json(experiment[1], f"{path}:config.json") if experiment else {},
        _parse_json(options[1], f"{path}:{options[0]}") if options else None,
    )


def _load_tensors(data: bytes, source) -> dict[str, torch.Tensor]:
    try:
        tensors = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConversionError(f"{source} is no state dict that can be read safely: {reason}") from error
    if not isinstance(tensors, dict) or not all(isinstance(value, torch.Tensor) for value in tensors.values()):
        raise ConversionError(f"{source} is no state dict: a dictionary of tensors was expected.")
    return tensors


def _parse_json(data: bytes, source) -> dict[str, Any]:
    try:
        return json.loads(data)
    except ValueError as error:
        raise ConversionError(f"{source} is no JSON: {error}") from error


def _bilm_prefix(tensors: dict[str, torch.Tensor], path) -> str:
    """What stands before the names of the biLM's tensors."""
    prefixes = [name.removesuffix(CHAR_EMBEDDING) for name in tensors if name.endswith(CHAR_EMBEDDING)]
    if not prefixes:
        raise ConversionError(
            f"{path} holds no ELMo biLM: no tensor is named …{CHAR_EMBEDDING} among its {len(tensors)} tensors."
        )
    if len(prefixes) > 1:
        raise ConversionError(
            f"{path} holds {len(prefixes)} biLMs ({', '.join(prefixes)}): save a state dict with one of them."
        )
    return prefixes[0]


def scalar_mixes(tensors: dict[str, torch.Tensor], prefix: str) -> list[dict[str, Any]]:
    """All scalar mixes of the ELMo module around the biLM: `{"name", "weights", "gamma"}` each."""
    module = prefix.removesuffix("_elmo_lstm.")
    mixes = []
    while f"{module}scalar_mix_{len(mixes)}.gamma" in tensors:
        name = f"{module}scalar_mix_{len(mixes)}"
        count = sum(key.startswith(f"{name}.scalar_parameters.") for key in tensors)
        weights = [tensors[f"{name}.scalar_parameters.{index}"].item() for index in range(count)]
        mixes.append({"name": name, "weights": weights, "gamma": tensors[f"{name}.gamma"].item()})
    return mixes


def config_of(archive: Archive, prefix: str) -> ElmoConfig:
    """Sizes from the tensors' shapes; what shapes do not tell from the options, else as in the released models."""
    tensors = archive.tensors
    embedding = tensors[f"{prefix}{CHAR_EMBEDDING}"]
    filters, layers, highways = [], 0, 0
    while (name := f"{prefix}_token_embedder.char_conv_{len(filters)}.weight") in tensors:
        filters.append([tensors[name].shape[2], tensors[name].shape[0]])
    while f"{prefix}_elmo_lstm.forward_layer_{layers}.input_linearity.weight" in tensors:
        layers += 1
    while f"{prefix}_token_embedder._highways._layers.{highways}.weight" in tensors:
        highways += 1
    projection = tensors.get(f"{prefix}_elmo_lstm.forward_layer_0.state_projection.weight")
    if not filters or projection is None:
        raise ConversionError(f"The biLM under {prefix!r} lacks its convolutions or its recurrent layers.")
    sizes = {
        "char_vocab_size": embedding.shape[0],
        "char_embedding_size": embedding.shape[1],
        "char_filters": filters,
        "num_highway_layers": highways,
        "num_hidden_layers": layers,
        "cell_size": projection.shape[1],
        "projection_size": projection.shape[0],
        "token_projection": True,  # AllenNLP always has one
        "mixer_layer_norm": _layer_norm(archive.experiment),
    }
    try:
        if archive.options is None:
            return ElmoConfig(**sizes, dropout=0.0)
        stated = ElmoConfig.from_bilm_options(archive.options)
        _check_agreement(stated, sizes)
        return ElmoConfig.from_bilm_options(archive.options, **sizes)
    except ConversionError:
        raise
    except ValueError as error:
        raise ConversionError(f"Options of the biLM: {error.__cause__ or error}") from error


def _check_agreement(stated: ElmoConfig, sizes: dict[str, Any]):
    for field in ("char_embedding_size", "char_filters", "num_highway_layers", "num_hidden_layers"):
        if getattr(stated, field) != sizes[field]:
            raise ConversionError(
                f"The options say {field} = {getattr(stated, field)}, the weights have {sizes[field]}."
            )
    found = sizes["cell_size"], sizes["projection_size"]
    if (stated.cell_size, stated.output_size) != found:
        raise ConversionError(
            f"The options say cell_size, projection_size = {stated.cell_size}, {stated.output_size}, "
            f"the weights have {found[0]}, {found[1]}."
        )


def _layer_norm(experiment: Any) -> bool:
    """Whether an ELMo embedder anywhere in an experiment's config normalises its layers."""
    if isinstance(experiment, dict):
        own = experiment.get("type") == "elmo_token_embedder" and experiment.get("do_layer_norm", False)
        return bool(own) or any(_layer_norm(value) for value in experiment.values())
    return isinstance(experiment, list) and any(_layer_norm(value) for value in experiment)


def model_of(config: ElmoConfig, tensors: dict[str, torch.Tensor], prefix: str) -> ElmoModel:
    """The model with AllenNLP's tensors in our arrangement."""
    model = ElmoModel(config)

    def fill(name: str, *views: torch.Tensor):
        """Copies a tensor into the views that it holds, stacked along its first dimension."""
        tensor = tensors.get(prefix + name)
        shape = (sum(len(view) for view in views), *views[0].shape[1:])
        if tensor is None or tuple(tensor.shape) != shape:
            found = "nothing" if tensor is None else tuple(tensor.shape)
            raise ConversionError(f"{prefix}{name} should be {shape}, found {found}.")
        if not tensor.is_floating_point() or not tensor.isfinite().all():
            raise ConversionError(f"{prefix}{name} holds values that are not finite floats.")
        for view, part in zip(views, tensor.split([len(view) for view in views]), strict=True):
            view.copy_(part)

    with torch.no_grad():
        _fill_token_encoder(model, fill)
        for index, layer in enumerate(model.layers):
            for place, direction in enumerate(("forward", "backward")):
                name = f"_elmo_lstm.{direction}_layer_{index}"
                i, j, f, o = range(4)
                gates = layer.bias[place].chunk(4)
                inputs = layer.input_weight[place].t().chunk(4)
                recurrent = layer.recurrent_weight[place].t().chunk(4)
                fill(f"{name}.state_linearity.bias", *(gates[gate] for gate in (i, f, j, o)))
                fill(f"{name}.input_linearity.weight", *(inputs[gate] for gate in (i, f, j, o)))
                fill(f"{name}.state_linearity.weight", *(recurrent[gate] for gate in (i, f, j, o)))
                fill(f"{name}.state_projection.weight", layer.projection_weight[place].t())
                gates[f].sub_(config.forget_bias)
    return model


def _fill_token_encoder(model: ElmoModel, fill):
    encoder, characters = model.token_encoder, model.token_encoder.characters
    fill(CHAR_EMBEDDING, characters.char_embeddings.weight)
    for index, convolution in enumerate(characters.convolutions):
        fill(f"_token_embedder.char_conv_{index}.weight", convolution.weight)
        fill(f"_token_embedder.char_conv_{index}.bias", convolution.bias)
    for index, highway in enumerate(characters.highways):
        name = f"_token_embedder._highways._layers.{index}"
        fill(f"{name}.weight", highway.transform.weight, highway.carry.weight)
        fill(f"{name}.bias", highway.transform.bias, highway.carry.bias)
        highway.carry.weight.neg_()
        highway.carry.bias.neg_()
    fill("_token_embedder._projection.weight", encoder.projection.weight)
    fill("_token_embedder._projection.bias", encoder.projection.bias)


__all__ = ["convert_allennlp", "read_archive"]
