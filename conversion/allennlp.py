"""
AllenNLP: a state dict (`best.th`, `weights.th`), or a `model.tar.gz`, with an ELMo biLM somewhere inside; or an archive
of a language model that AllenNLP itself trained (`allennlp_lm.py`).

AllenNLP re-arranges the original: gates are i, f, j, o; the forget bias of 1 is added to the stored bias; the highway's
gate carries the input instead of the transform, so its weights are negated; both highway products are one matrix.
"""

import bz2
import gzip
import io
import json
import logging
import lzma
import os
import re
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

import torch

from elmo_hf.errors import ConversionError
from elmo_hf.modeling.configuration_elmo import ElmoConfig
from elmo_hf.modeling.modeling_elmo import ElmoModel
from elmo_hf.modeling.tokenization_elmo import ElmoTokenizer
from elmo_hf.runtime.staging import staged_folder

from .allennlp_lm import check_language_model, gates, is_language_model, language_model_of, read_language_model
from .arrays import Views, check_arrays, check_float, fill_views
from .bilm_hdf5 import count_parameters
from .folder import full_disk_errors, load_tokenizer, save_folder, word_ids
from .limits import check_memory
from .options import config_errors, parse_object, read_object
from .pickles import load_tensors
from .provenance import provenance

logger = logging.getLogger(__name__)

SCALAR_MIXES_FILE = "scalar_mixes.json"
# How archives are compressed, by their first bytes.
COMPRESSIONS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
CHAR_EMBEDDING = "_token_embedder._char_embedding_weights"
# The purpose of an archive's members, by the end of their names.
MEMBERS = {
    "weights": r"(^|/)(weights|best|model)[^/]*\.th$",
    "experiment": r"(^|/)config\.json$",
    "options": r"(options_file|(^|/)options[^/]*\.json)$",
    "vocabulary": r"(^|/)vocabulary/tokens\.txt$",
}


class Archive(NamedTuple):
    """The content of an AllenNLP file: the tensors, the experiment's config, the biLM's options, the words."""

    tensors: dict[str, torch.Tensor]
    experiment: dict[str, Any]
    options: dict[str, Any] | None
    vocabulary: bytes | None = None


def convert_allennlp(
    path: str | os.PathLike,
    out: str | os.PathLike,
    options: str | os.PathLike | None = None,
    vocab: str | os.PathLike | None = None,
    dtype: str = "float32",
) -> Path:
    """
    An AllenNLP state dict or `model.tar.gz` → a folder with config, safetensors and tokenizer. The first scalar mix
    becomes the model's mixer; all of them are written to `scalar_mixes.json` where there are several. A language model
    that AllenNLP itself trained becomes an [`ElmoForPreTraining`], with its softmax and its own vocabulary.

    AllenNLP keeps the forget bias plus one, rounded to fp32. The stored bias can therefore differ from the original
    file's in bits that the sum does not have; the sum, and with it every vector, is the same to the bit.

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
    with full_disk_errors(out), staged_folder(out) as stage:
        archive = _read(path, options)
        if _holds_language_model(archive, options, vocab, path):
            own = read_language_model(archive.experiment, archive.vocabulary, archive.tensors, path)
            trained = language_model_of(own, archive.tensors, path)
            origin = provenance("allennlp", count_parameters(trained.elmo), weights=path)
            save_folder(trained, own.tokenizer, stage, dtype, origin, Path(out).resolve().name)
            return Path(out)
        prefix, tensors = _bilm_tensors(archive, path)
        config, tokenizer = _read_settings(archive, tensors, path, vocab)
        model = model_of(config, tensors, path)
        mixes = scalar_mixes(archive.tensors, prefix, config.num_hidden_layers + 1, path)
        if mixes:
            weights, gamma = torch.tensor(mixes[0]["weights"]), torch.tensor([mixes[0]["gamma"]])
            model.load_state_dict({"mixer.weights": weights, "mixer.gamma": gamma}, strict=False)
        origin = provenance("allennlp", count_parameters(model), weights=path, options=options, vocab=vocab)
        save_folder(model, tokenizer, stage, dtype, origin, Path(out).resolve().name)
        if len(mixes) > 1:
            (stage / SCALAR_MIXES_FILE).write_text(json.dumps(mixes, indent=2) + "\n", "utf-8")
    return Path(out)


def describe_allennlp(
    path: str | os.PathLike, options: str | os.PathLike | None = None, vocab: str | os.PathLike | None = None
) -> tuple[ElmoConfig, bool]:
    """The config of what [`convert_allennlp`] converts, and whether it has a softmax; checks names and shapes."""
    archive = _read(path, options)
    if _holds_language_model(archive, options, vocab, path):
        own = read_language_model(archive.experiment, archive.vocabulary, archive.tensors, path)
        check_language_model(own, archive.tensors, path)
        return own.config, True
    _, tensors = _bilm_tensors(archive, path)
    config, _ = _read_settings(archive, tensors, path, vocab)
    with torch.device("meta"):
        check_arrays(allennlp_views(ElmoModel(config)), tensors, path)
    return config, False


def _read(path: str | os.PathLike, options: str | os.PathLike | None) -> Archive:
    """An archive, with the options that were given."""
    archive = read_archive(path)
    return archive if options is None else archive._replace(options=read_object(options))


def _holds_language_model(archive: Archive, options: Any, vocab: Any, path: str | os.PathLike) -> bool:
    """Whether this is a language model of AllenNLP's own training, which needs no other files."""
    if any(name.endswith(CHAR_EMBEDDING) for name in archive.tensors) or not is_language_model(archive.tensors):
        return False
    if options is not None or vocab is not None:
        raise ConversionError(
            f"{path} is a language model of AllenNLP's own training, which has its settings and words in the archive: "
            "leave out the options and the vocabulary."
        )
    return True


def _bilm_tensors(archive: Archive, path: str | os.PathLike) -> tuple[str, dict[str, torch.Tensor]]:
    """The prefix of the names of the biLM's tensors, and these tensors."""
    prefix = _bilm_prefix(archive.tensors, path)
    return prefix, _below(prefix, archive.tensors, "_token_embedder.", "_elmo_lstm.")


def _read_settings(
    archive: Archive, tensors: dict[str, torch.Tensor], path: str | os.PathLike, vocab: str | os.PathLike | None
) -> tuple[ElmoConfig, ElmoTokenizer]:
    config = config_of(archive, tensors, path)
    tokenizer = load_tokenizer(vocab, config.max_characters_per_token, (archive.options or {}).get("n_tokens_vocab"))
    config.update(word_ids(tokenizer))
    return config, tokenizer


def read_archive(path: str | os.PathLike) -> Archive:
    """Reads a state dict or an archive. Archive members are read in place; none is written to disk."""
    path = Path(path)
    if not path.is_file():
        raise ConversionError(f"{path} is no file: give AllenNLP's best.th, weights.th or model.tar.gz.")
    try:
        data = path.read_bytes()
        decompress = next((opened for start, opened in COMPRESSIONS.items() if data.startswith(start)), None)
        if decompress is None and not tarfile.is_tarfile(io.BytesIO(data)):
            return Archive(load_tensors(data, path), {}, None)
        plain = io.BytesIO(data) if decompress is None else decompress(io.BytesIO(data))
        members = _read_members(_BoundedFile(plain, len(data), path), path)
    except ConversionError:
        raise
    except Exception as error:  # depending on the damage: OSError, TarError, EOFError, zlib.error ...
        raise ConversionError(f"{path} is no readable archive (truncated or damaged): {error}") from error
    weights, experiment, options, vocabulary = (members.get(use) for use in MEMBERS)
    if weights is None:
        raise ConversionError(f"{path} should hold weights (weights.th), found no such file in it.")
    return Archive(
        load_tensors(weights, f"{path}: weights"),
        parse_object(experiment, f"{path}: config.json") if experiment is not None else {},
        parse_object(options, f"{path}: biLM options") if options is not None else None,
        vocabulary,
    )


class _BoundedFile:
    """
    What `tarfile` reads of an archive, up to the size that its content may have. A read beyond it is refused before
    memory is allocated, whether it is of a member, of a long name or of any other header.

    Args:
        file: The archive, decompressed.
        size: Bytes of the archive as it is on disk.
        path: The archive, for the message.
    """

    def __init__(self, file: Any, size: int, path: Path):
        self._file, self._size, self._path = file, size, path

    def read(self, size: int) -> bytes:
        self._check(self._file.tell() + size)
        return self._file.read(size)

    def seek(self, place: int) -> int:
        self._check(place)
        return self._file.seek(place)

    def tell(self) -> int:
        return self._file.tell()

    def check_member(self, member: tarfile.TarInfo):
        """Refuses a member that is too large. A sparse member is larger when it is read than in the archive."""
        self._check(member.size)

    def _check(self, size: int):
        check_memory(size, self._size, self._path)


def _read_members(file: _BoundedFile, path: Path) -> dict[str, bytes]:
    """The contents of the `MEMBERS`. Links, devices and files with a path outside the archive are skipped."""
    contents = {}
    with tarfile.open(fileobj=cast(BinaryIO, file), mode="r:") as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            if not member.isreg() or name.is_absolute() or ".." in name.parts:
                continue
            for use, pattern in MEMBERS.items():
                if re.search(pattern, member.name):
                    if use in contents:
                        raise ConversionError(f"{path} should hold one file of {use}, found another: {member.name}.")
                    file.check_member(member)
                    contents[use] = tar.extractfile(member).read()
        while file.read(2**20):  # to the end, where the checksum is
            pass
    return contents


def _bilm_prefix(tensors: dict[str, torch.Tensor], path) -> str:
    """The prefix of the names of the biLM's tensors."""
    prefixes = [name.removesuffix(CHAR_EMBEDDING) for name in tensors if name.endswith(CHAR_EMBEDDING)]
    if not prefixes:
        raise ConversionError(
            f"{path} holds no ELMo biLM: none of its tensors ({len(tensors)}) is named …{CHAR_EMBEDDING}."
        )
    if len(prefixes) > 1:
        raise ConversionError(
            f"{path} holds {len(prefixes)} biLMs ({', '.join(prefixes)}): save a state dict with one of them."
        )
    return prefixes[0]


def _below(prefix: str, tensors: dict[str, torch.Tensor], *parts: str) -> dict[str, torch.Tensor]:
    """The tensors whose names continue with one of `parts` after the prefix, by the rest of their names."""
    names = tuple(prefix + part for part in parts)
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(names)}


def scalar_mixes(tensors: dict[str, torch.Tensor], prefix: str, num_layers: int, source) -> list[dict[str, Any]]:
    """All scalar mixes of the ELMo module around the biLM: `{"name", "weights", "gamma"}` each."""
    module = prefix.removesuffix("_elmo_lstm.")
    mixes = []
    while mix_tensors := _below(module, tensors, f"scalar_mix_{len(mixes)}."):
        name = f"scalar_mix_{len(mixes)}"
        weights, gamma = torch.empty(num_layers), torch.empty(1)
        views = {f"{name}.scalar_parameters.{layer}": [weights[layer : layer + 1]] for layer in range(num_layers)}
        fill_views(views | {f"{name}.gamma": [gamma]}, mix_tensors, source)
        mixes.append({"name": module + name, "weights": weights.tolist(), "gamma": gamma.item()})
    return mixes


def config_of(archive: Archive, tensors: dict[str, torch.Tensor], source) -> ElmoConfig:
    """The config: sizes from the tensors' shapes, the rest from the options, or else as in the released models."""

    def count(pattern: str) -> int:
        return next(index for index in range(len(tensors) + 1) if pattern.format(index) not in tensors)

    def shape(name: str, *axes: str) -> dict[str, int]:
        if name not in tensors or tensors[name].ndim != len(axes):
            actual = tuple(tensors[name].shape) if name in tensors else "nothing"
            raise ConversionError(f"{source}: {name} should have shape ({', '.join(axes)}), found {actual}.")
        return dict(zip(axes, tensors[name].shape, strict=True))

    convolution = "_token_embedder.char_conv_{}.weight"
    filters = [
        shape(convolution.format(index), "filters", "characters", "width") for index in range(count(convolution))
    ]
    derived: dict[str, Any] = {
        "token_inputs": "characters",
        "directions": "both",
        **shape(CHAR_EMBEDDING, "char_vocab_size", "char_embedding_size"),
        "char_filters": [[sizes["width"], sizes["filters"]] for sizes in filters],
        "num_highway_layers": count("_token_embedder._highways._layers.{}.weight"),
        "num_hidden_layers": count("_elmo_lstm.forward_layer_{}.input_linearity.weight"),
        **shape("_elmo_lstm.forward_layer_0.state_projection.weight", "projection_size", "cell_size"),
    }
    always = {"token_projection": True, "mixer_layer_norm": _layer_norm(archive.experiment)}
    if archive.options is None:
        with config_errors(source):
            config = ElmoConfig(**derived, **always, dropout=0.0)
        logger.warning(
            f"{source} has no biLM options: as in all released models, cell_clip={config.cell_clip}, "
            f"projection_clip={config.projection_clip}, skip_connections={config.skip_connections}, "
            f"char_activation={config.char_activation} are assumed. Give the options file if this one differs."
        )
        return config
    with config_errors(f"{source}: options of the biLM"):
        stated = ElmoConfig.from_bilm_options(archive.options)
        _check_agreement(stated, derived)
        return ElmoConfig.from_bilm_options(archive.options, **derived, **always)


def _check_agreement(stated: ElmoConfig, derived: dict[str, Any]):
    for field, value in derived.items():
        # AllenNLP has a projection even if the sizes are equal.
        said = stated.output_size if field == "projection_size" else getattr(stated, field)
        if said != value:
            raise ValueError(f"they say {field} = {said}, the weights have {value}.")


def _layer_norm(experiment: dict[str, Any]) -> bool:
    """Whether an ELMo embedder anywhere in an experiment's config normalises its layers."""
    pending: list[Any] = [experiment]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            # Other modules, without an options file, have a `do_layer_norm` too.
            if (item.get("type") == "elmo_token_embedder" or "options_file" in item) and item.get("do_layer_norm"):
                return True
            pending.extend(item.values())
    return False


def model_of(config: ElmoConfig, tensors: dict[str, torch.Tensor], source) -> ElmoModel:
    """The model with AllenNLP's tensors in our arrangement."""
    with torch.device("meta"):
        check_arrays(allennlp_views(ElmoModel(config)), tensors, source)
    model = ElmoModel(config)
    fill_views(allennlp_views(model), tensors, source)
    with torch.no_grad():
        for highway in model.token_encoder.characters.highways:
            highway.carry.weight.neg_()
            highway.carry.bias.neg_()
        for layer in model.layers:
            _, _, forget, _ = layer.bias.chunk(4, dim=-1)
            forget.sub_(config.forget_bias)
    return model


def allennlp_views(model: ElmoModel) -> Views:
    """The parameters in each tensor of AllenNLP's biLM; signs and the forget bias differ."""
    check_float(model)
    encoder, characters = model.token_encoder, model.token_encoder.characters
    views = {
        CHAR_EMBEDDING: [characters.char_embeddings.weight],
        "_token_embedder._projection.weight": [encoder.projection.weight],
        "_token_embedder._projection.bias": [encoder.projection.bias],
    }
    for index, convolution in enumerate(characters.convolutions):
        views[f"_token_embedder.char_conv_{index}.weight"] = [convolution.weight]
        views[f"_token_embedder.char_conv_{index}.bias"] = [convolution.bias]
    for index, highway in enumerate(characters.highways):
        name = f"_token_embedder._highways._layers.{index}"
        views[f"{name}.weight"] = [highway.transform.weight, highway.carry.weight]
        views[f"{name}.bias"] = [highway.transform.bias, highway.carry.bias]
    views |= {f"_elmo_lstm.{name}": parts for name, parts in recurrent_views(model).items()}
    return {name: [view.detach() for view in tensors] for name, tensors in views.items()}


def recurrent_views(model: ElmoModel) -> dict[str, list[torch.Tensor]]:
    """The parameters in each tensor of AllenNLP's recurrent layers; the forget bias differs."""
    views = {}
    for index, layer in enumerate(model.layers):
        for place, direction in enumerate(("forward", "backward")):
            name = f"{direction}_layer_{index}"
            views[f"{name}.input_linearity.weight"] = gates(layer.input_weight[place].t())
            views[f"{name}.state_linearity.weight"] = gates(layer.recurrent_weight[place].t())
            views[f"{name}.state_linearity.bias"] = gates(layer.bias[place])
            views[f"{name}.state_projection.weight"] = [layer.projection_weight[place].t()]
    return views


__all__ = ["convert_allennlp", "describe_allennlp", "read_archive", "recurrent_views"]
