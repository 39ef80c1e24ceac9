# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Checks of everything that comes from outside: JSON files, weight files, downloads, and the tensors of a call.

A folder or repository may be damaged or malicious. Before its weights are loaded it must keep to this: safetensors
only, no file outside the folder, tensors of the shapes in its config, and the SHA-256 that the Hub published. An error
names the file or argument and says what to do.
"""

import hashlib
import json
import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import PureWindowsPath
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.utils import cached_file, has_file

try:  # a dependency of transformers; outside `try`, transformers would ask for it when it loads remote code
    from safetensors import SafetensorError, safe_open
except ImportError as error:
    raise ImportError("ELMo's weights need safetensors: pip install -U transformers") from error

# Weights that a file lacks are initialised (heads, the softmax of pretraining, word vectors), up to this size.
MAX_INITIALIZED_BYTES = 16 * 2**30
MAX_LABELS = 10**5  # of a head
WEIGHTS, INDEX = "model{}.safetensors", "model.safetensors.index{}.json"
PICKLES = "pytorch_model{}.bin", "pytorch_model.bin.index{}.json"
NO_PICKLE = (
    "A pickle can run any code, and is not read here. `elmo-hf convert` converts old ELMo checkpoints to safetensors; "
    "save other weights again with `save_pretrained`"
)
# The arguments of `from_pretrained` that say where files come from.
SOURCE_ARGUMENTS = ("subfolder", "revision", "token", "cache_dir", "force_download", "proxies", "local_files_only")


# ---- JSON, file names, dtypes and configs


def read_json_object(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file. Raises an `OSError` that names the file if it holds anything else."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, too many digits, nested too deeply
        raise OSError(
            f"{path} is not a valid JSON file ({error}): it is damaged, download or save it again."
        ) from error
    if not isinstance(content, dict):
        raise OSError(f"{path} should hold a JSON object, found {type(content).__name__}: download or save it again.")
    return content


def is_inner_path(name: Any) -> bool:
    """Whether `name` is a relative path that stays inside its folder, on every operating system."""
    path = PureWindowsPath(name) if isinstance(name, str) and name else None  # understands both separators
    return path is not None and not path.anchor and ".." not in path.parts


def is_weights_name(name: Any) -> bool:
    """Whether `name` is a relative path of a safetensors file that stays inside its folder."""
    return is_inner_path(name) and name.endswith(".safetensors")


def is_dtype(value: Any) -> bool:
    """Whether `value` is a torch dtype or the name of one, such as `float32`."""
    return isinstance(getattr(torch, value, None) if isinstance(value, str) else value, torch.dtype)


def check_extra_fields(config: PreTrainedConfig, fields: Mapping[str, Any]):
    """Refuses fields that the base class would accept without a check."""
    for name in fields:
        own = getattr(type(config), name, None)
        if name.startswith("__") or callable(own) or (isinstance(own, property) and own.fset is None):
            raise ValueError(f"`{name}` is not a field that can be set: remove it from the config.")
    labels = fields.get("num_labels")
    if labels is not None and (type(labels) is not int or labels > MAX_LABELS):
        raise ValueError(f"`num_labels` must be a number up to {MAX_LABELS}, found {labels!r:.60}.")
    for dtype in (config.dtype, fields.get("torch_dtype")):
        if dtype is not None and not is_dtype(dtype):
            raise ValueError(f"`dtype` must be the name of a torch type such as 'float32', found {dtype!r:.60}.")
    # transformers reads the weights from the file that this names.
    if (weights := fields.get("transformers_weights")) is not None and not is_weights_name(weights):
        raise ValueError(
            "`transformers_weights` must be the name of a .safetensors file in the model's folder, "
            f"found {weights!r:.200}."
        )
    kinds: dict[str, type] = {"attn_implementation": str, "experts_implementation": str, "model_type": str}
    kinds |= {"fusion_config": dict, "quantization_config": dict}
    for name, kind in kinds.items():
        value = fields.get(name)
        if isinstance(value, (bool, int, float, str, list, dict)) and not isinstance(value, kind):
            raise ValueError(f"`{name}` must be of type {kind.__name__}, found {value!r:.60}.")
    for name in ("attn_implementation", "_attn_implementation"):  # the base class takes both
        if "/" in str(fields.get(name)):
            raise ValueError(f"`{name}` names code on the Hub, but ELMo has no attention: remove it.")


# ---- Weight files, before anything is loaded


def check_weight_files(
    name: str | os.PathLike | None, variant: str | None = None, gguf_file: str | None = None, **arguments
):
    """
    Refuses a folder or repository whose weights are not safetensors files of its own.

    Args:
        name: The folder or repository, as passed to `from_pretrained`; so are the other arguments.
    """
    if gguf_file is not None:
        raise ValueError(f"There are no ELMo models in GGUF files: give a folder with safetensors, not {gguf_file}.")
    if name is None:
        return
    if os.path.isfile(os.path.join(arguments.get("subfolder") or "", name)):
        check_paths([os.fspath(name)])
        return
    source = _source(arguments)
    if cached_file(name, _file_name(WEIGHTS, variant), _raise_exceptions_for_missing_entries=False, **source) is None:
        index = cached_file(name, _file_name(INDEX, variant), _raise_exceptions_for_missing_entries=False, **source)
        if index is not None:
            check_index(index)


def check_index(path: str | os.PathLike):
    """Refuses an index of sharded weights that is malformed or names anything but safetensors files beside it."""
    index = read_json_object(path)
    files, metadata = index.get("weight_map"), index.get("metadata")
    if not isinstance(files, dict) or not files or not isinstance(metadata, dict):
        raise OSError(f"{path} is not an index of weights: it should hold objects `weight_map` and `metadata`.")
    for tensor, file in files.items():
        if not is_weights_name(file):
            raise ValueError(
                f"{path} places {tensor} in {file!r}: weights must be .safetensors files of the same folder. "
                f"{NO_PICKLE}."
            )
    if "dtype" in metadata and not is_dtype(metadata["dtype"]):
        raise OSError(f"{path} names a dtype that torch does not have: {metadata['dtype']!r}.")


@contextmanager
def weight_errors(name: str | os.PathLike | None, variant: str | None = None, **arguments) -> Generator[None]:
    """
    Adds the remedy to errors about weight files.

    Args:
        name: The folder or repository, as passed to `from_pretrained`; so are the other arguments.
    """
    try:
        yield
    except SafetensorError as error:
        raise OSError(f"A weight file of {name} is damaged ({error}): download or save it again.") from error
    except OSError as error:
        if name is not None and _has_only_pickles(name, variant, _source(arguments)):
            raise OSError(f"{name} holds no {_file_name(WEIGHTS, variant)}, but a pickle. {NO_PICKLE}.") from error
        raise


def _has_only_pickles(name: str | os.PathLike, variant: str | None, source: dict[str, Any]) -> bool:
    if source.pop("subfolder", None):  # `has_file` does not support it
        return False
    source.pop("force_download", None)
    with suppress(Exception):  # e.g. of the network: the first error is more useful
        has_safetensors, has_pickle = (
            any(has_file(name, _file_name(pattern, variant), **source) for pattern in patterns)
            for patterns in ((WEIGHTS, INDEX), PICKLES)
        )
        return has_pickle and not has_safetensors
    return False


def _source(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in SOURCE_ARGUMENTS if arguments.get(name) is not None}


def _file_name(pattern: str, variant: str | None) -> str:
    return pattern.format(f".{variant}" if variant else "")


# ---- Weight files, while the model is on the meta device and has no memory yet


def check_paths(files: Iterable[str], folder: str | os.PathLike | None = None):
    """
    Refuses weight files that are not safetensors, or whose path is outside `folder`. (Symbolic links are not followed:
    those of the Hub's cache point outside the folder.)
    """
    for file in files:
        if not file.endswith(".safetensors"):
            raise ValueError(f"{file} is not a .safetensors file. {NO_PICKLE}.")
        if folder is not None and not is_inner_path(os.path.relpath(file, folder)):
            raise ValueError(f"{file} is outside of the model's folder {folder}: weights must be inside.")


def tensor_shapes(files: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors in safetensors files. Only the headers are read."""
    shapes = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise OSError(
                f"{file} is not a safetensors file, or is damaged ({error}): download or save it again."
            ) from error
    return shapes


class MismatchedShapesError(ValueError, RuntimeError):
    """The weights have other shapes than the model. (transformers raises a `RuntimeError` in this case.)"""


def check_shapes(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], prefix: str, mismatches_are_fine: bool):
    """
    Refuses weights of other shapes than the model's, and a model that is far larger than its weights.

    Args:
        model: On the meta device.
        shapes: Shapes of the tensors in the files.
        prefix: The encoder's name in a head. An encoder's weights load into a head, and a head's into an encoder.
        mismatches_are_fine: Whether to initialise tensors of other shapes, like those that the files lack.
    """
    expected = dict([*model.named_parameters(), *model.named_buffers()])
    stored = {_name_in_model(name, expected, prefix): shape for name, shape in shapes.items()}
    initialized_bytes, mismatches = 0, []
    for name, tensor in expected.items():
        shape = tuple(getattr(tensor, "ds_shape", tensor.shape))  # DeepSpeed partitions tensors
        if name in stored and stored[name] != shape and not mismatches_are_fine:
            mismatches.append(f"{name} {stored[name]}, by the config {shape}")
        if stored.get(name) != shape and tensor.is_meta:
            initialized_bytes += tensor.numel() * tensor.element_size()
    if mismatches:
        more = f"; and {len(mismatches) - 3} more" if len(mismatches) > 3 else ""
        raise MismatchedShapesError(
            f"The weights have other shapes than the config says: {'; '.join(mismatches[:3])}{more}. They belong to "
            "another config; `ignore_mismatched_sizes=True` initialises such weights."
        )
    if initialized_bytes > MAX_INITIALIZED_BYTES:
        raise ValueError(
            f"The config asks for weights of {initialized_bytes / 2**30:,.0f} GiB that the file does not hold: more "
            f"than {MAX_INITIALIZED_BYTES >> 30} GiB are not initialised. Check the sizes in its config.json."
        )


def check_size(model: nn.Module, shapes: Mapping[str, tuple[int, ...]]):
    """Refuses a model with more weights than the files of a distributed checkpoint, which store parts of tensors."""
    stored = sum(torch.Size(shape).numel() for shape in shapes.values())
    needed = sum(tensor.numel() for tensor in model.state_dict().values())
    if needed > stored:
        raise ValueError(f"The config asks for {needed:,} weights, the files hold {stored:,}: save the model again.")


def _name_in_model(name: str, expected: Mapping[str, Any], prefix: str) -> str:
    """The parameter that a stored tensor is loaded into, as transformers resolves it."""
    inner, outer = name.removeprefix(f"{prefix}."), f"{prefix}.{name}"
    if inner in expected:
        return inner
    return outer if outer in expected else name


# ---- Downloads
#
# The Hub's cache stores a large file as `blobs/SHA256`, named after the checksum that the Hub publishes, and links the
# repository's file names to it. Nobody compares the content with that name: one wrong byte would change vectors
# silently.

SHA256 = re.compile(r"[0-9a-f]{64}")
VERIFIED = ".elmo-hf"  # a folder beside `blobs` with one record per file whose checksum was right


def check_downloads(files: Iterable[str | os.PathLike]):
    """
    Refuses files of the Hub's cache whose content differs from their published SHA-256, and removes them from the
    cache. A file is hashed once, and again if it has changed since. Files outside the cache are skipped, and so are
    small files, which the Hub stores without a SHA-256.

    Args:
        files: Paths as `from_pretrained` resolves them.
    """
    for file in files:
        if (blob := _blob_of(file)) is not None and not _is_verified(blob):
            _check_sha256(blob, os.fspath(file))
            _record_verified(blob)


def _blob_of(file: str | os.PathLike) -> str | None:
    """The target of a link in the cache, if it is named after its SHA-256."""
    if not os.path.islink(file):
        return None
    # Follow one link only: the blob may itself be a link to a file that several repositories share.
    target = os.path.normpath(os.path.join(os.path.dirname(file), os.readlink(file)))
    folder, name = os.path.split(target)
    return target if os.path.basename(folder) == "blobs" and SHA256.fullmatch(name) else None


def _check_sha256(blob: str, file: str):
    with open(blob, "rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() == os.path.basename(blob):
            return
    content = os.path.realpath(blob)
    try:
        os.remove(content)
        remedy = "It was removed from the cache: load the model again."
    except OSError:
        remedy = f"Remove {content} and load the model again."
    raise OSError(
        f"{os.path.basename(file)} is damaged, its SHA-256 is not the one that it was published with. {remedy}"
    )


def _record_path(blob: str) -> str:
    folder, name = os.path.split(blob)
    return os.path.join(os.path.dirname(folder), VERIFIED, name)


def _size_and_time(blob: str) -> str:
    """Changes when the file changes."""
    status = os.stat(blob)
    return f"{status.st_size} {status.st_mtime_ns}\n"


def _is_verified(blob: str) -> bool:
    try:
        with open(_record_path(blob), encoding="ascii") as file:
            return file.read() == _size_and_time(blob)
    except (OSError, ValueError):
        return False


def _record_verified(blob: str):
    """Does nothing where the cache is read-only."""
    path = _record_path(blob)
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(_size_and_time(blob))


# ---- Tensors of a call


def check_shape(name: str, tensor: torch.Tensor, expected: tuple[int | str, ...]):
    """Refuses a tensor of another shape. A string in `expected` stands for any size."""
    fits = tensor.ndim == len(expected) and all(
        isinstance(want, str) or want == size for want, size in zip(expected, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(map(str, expected))
        raise ValueError(f"`{name}` must have shape ({wanted}), found {tuple(tensor.shape)}.")


def check_integers(name: str, ids: torch.Tensor):
    """Refuses floating-point and complex tensors."""
    if ids.is_floating_point() or ids.is_complex():
        raise ValueError(f"`{name}` must be integers, found {ids.dtype}.")


def check_segments(token_type_ids: torch.Tensor | None, mask: torch.Tensor):
    """Refuses segments that do not fit the words, `(batch, words)` both."""
    if token_type_ids is not None:
        check_shape("token_type_ids", token_type_ids, tuple(mask.shape))
        check_integers("token_type_ids", token_type_ids)


def check_range(name: str, ids: torch.Tensor, size: int):
    """Refuses ids that are not integers between 0 and `size - 1`."""
    check_integers(name, ids)
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < size:
        raise ValueError(
            f"`{name}` must be between 0 and {size - 1} for this model, found {int(ids.min())} to {int(ids.max())}."
        )


def check_labels(labels: torch.Tensor, num_labels: int):
    """Refuses labels that are neither between 0 and `num_labels - 1` nor -100."""
    if bool((((labels < 0) & (labels != -100)) | (labels >= num_labels)).any()):
        raise ValueError(f"`labels` must be between 0 and {num_labels - 1}, or -100.")


def refuse_attentions(output_attentions: bool | None):
    """Callers of stock models pass the argument on; only `True` asks for something."""
    if output_attentions:
        raise ValueError("`output_attentions=True` asks for attentions, but ELMo has no attention layers.")


__all__ = [
    "MAX_LABELS",
    "MismatchedShapesError",
    "check_downloads",
    "check_extra_fields",
    "check_index",
    "check_integers",
    "check_labels",
    "check_paths",
    "check_range",
    "check_segments",
    "check_shape",
    "check_shapes",
    "check_size",
    "check_weight_files",
    "is_dtype",
    "is_inner_path",
    "is_weights_name",
    "read_json_object",
    "refuse_attentions",
    "tensor_shapes",
    "weight_errors",
]
