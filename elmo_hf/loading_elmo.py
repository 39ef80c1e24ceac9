# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
What a folder or repository must keep to before its weights are loaded: safetensors only, no file outside of it, and
tensors of the shapes that its config says. Whoever made it may mean harm.
"""

import json
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import PureWindowsPath
from typing import Any

import torch
from torch import nn
from transformers.utils import cached_file, has_file

try:  # comes with transformers, which asks remote code for a package of its own otherwise
    from safetensors import SafetensorError, safe_open
except ImportError as error:
    raise ImportError("ELMo's weights need safetensors: pip install -U transformers") from error

# What may be made anew where a file lacks it: heads, the softmax layer of pretraining, a vocabulary's vectors.
MAX_FRESH_BYTES = 16 * 2**30
WEIGHTS, INDEX = "model{}.safetensors", "model.safetensors.index{}.json"
PICKLES = "pytorch_model{}.bin", "pytorch_model.bin.index{}.json"
NO_PICKLE = (
    "A pickle can run any code, and is not read here. `elmo-hf convert` makes a safetensors folder of an old ELMo "
    "checkpoint; other weights are to be saved again with `save_pretrained`"
)
# The arguments of `from_pretrained` that say where files come from.
SOURCE_ARGUMENTS = ("subfolder", "revision", "token", "cache_dir", "force_download", "proxies", "local_files_only")


def read_json_object(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file; what is none is refused by the file's name."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, numbers or nesting without end
        raise OSError(
            f"{path} is not a valid JSON file ({error}): it is damaged, download or save it again."
        ) from error
    if not isinstance(found, dict):
        raise OSError(f"{path} should hold a JSON object, found {type(found).__name__}: download or save it again.")
    return found


def is_inner_path(name: Any) -> bool:
    """Whether a name is of a file in the folder that names it, on every system."""
    path = PureWindowsPath(name) if isinstance(name, str) and name else None  # knows both kinds of separators
    return path is not None and not path.anchor and ".." not in path.parts


def is_weights_name(name: Any) -> bool:
    """Whether a name is of a safetensors file in the folder that names it."""
    return is_inner_path(name) and name.endswith(".safetensors")


def is_dtype(value: Any) -> bool:
    """Whether a value is a torch type, or the name of one, such as `float32`."""
    return isinstance(getattr(torch, value, None) if isinstance(value, str) else value, torch.dtype)


# ---- before anything is loaded


def check_weight_files(
    name: str | os.PathLike | None, variant: str | None = None, gguf_file: str | None = None, **arguments
):
    """
    Refuses a folder or repository whose weights are something else than its own safetensors files.

    Args:
        name: As given to `from_pretrained`, and the rest too.
    """
    if gguf_file is not None:
        raise ValueError(f"There are no ELMo models in GGUF files: give a folder with safetensors, not {gguf_file}.")
    if name is None:
        return
    if os.path.isfile(os.path.join(arguments.get("subfolder") or "", name)):
        check_paths([os.fspath(name)])
        return
    source = _source(arguments)
    if cached_file(name, _named(WEIGHTS, variant), _raise_exceptions_for_missing_entries=False, **source) is None:
        index = cached_file(name, _named(INDEX, variant), _raise_exceptions_for_missing_entries=False, **source)
        if index is not None:
            check_index(index)


def check_index(path: str | os.PathLike):
    """Refuses an index of several weight files that is malformed, or names what is no safetensors file beside it."""
    index = read_json_object(path)
    files, metadata = index.get("weight_map"), index.get("metadata")
    if not isinstance(files, dict) or not files or not isinstance(metadata, dict):
        raise OSError(f"{path} is no index of weights: it should hold objects `weight_map` and `metadata`.")
    for tensor, file in files.items():
        if not is_weights_name(file):
            raise ValueError(
                f"{path} places {tensor} in {file!r}: weights must be .safetensors files of the same folder. "
                f"{NO_PICKLE}."
            )
    if "dtype" in metadata and not is_dtype(metadata["dtype"]):
        raise OSError(f"{path} names a type that there is not: {metadata['dtype']!r}.")


@contextmanager
def weight_errors(name: str | os.PathLike | None, variant: str | None = None, **arguments) -> Generator[None]:
    """
    Turns errors about the weights that do not say what to do into ones that do.

    Args:
        name: As given to `from_pretrained`, and the rest too.
    """
    try:
        yield
    except SafetensorError as error:
        raise OSError(f"A weight file of {name} is damaged ({error}): download or save it again.") from error
    except OSError as error:
        if name is not None and _has_only_pickles(name, variant, _source(arguments)):
            raise OSError(f"{name} holds no {_named(WEIGHTS, variant)}, but a pickle. {NO_PICKLE}.") from error
        raise


def _has_only_pickles(name: str | os.PathLike, variant: str | None, source: dict[str, Any]) -> bool:
    if source.pop("subfolder", None):  # `has_file` knows none
        return False
    source.pop("force_download", None)
    with suppress(Exception):  # of the network, say: the first error tells more
        safe, pickled = (
            any(has_file(name, _named(pattern, variant), **source) for pattern in patterns)
            for patterns in ((WEIGHTS, INDEX), PICKLES)
        )
        return pickled and not safe
    return False


def _source(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in SOURCE_ARGUMENTS if arguments.get(name) is not None}


def _named(pattern: str, variant: str | None) -> str:
    return pattern.format(f".{variant}" if variant else "")


# ---- between the model on the meta device and its memory


def check_paths(files: Iterable[str], folder: str | os.PathLike | None = None):
    """
    Refuses weight files that are none of safetensors, or lie outside of a folder. (A link may lead anywhere: those of
    the Hub's cache do.)
    """
    for file in files:
        if not file.endswith(".safetensors"):
            raise ValueError(f"{file} is no .safetensors file. {NO_PICKLE}.")
        if folder is not None and not is_inner_path(os.path.relpath(file, folder)):
            raise ValueError(f"{file} is outside of the model's folder {folder}: weights must be inside.")


def tensor_shapes(files: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors in safetensors files, by their headers alone."""
    shapes = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise OSError(f"{file} is no safetensors file, or damaged ({error}): download or save it again.") from error
    return shapes


class MismatchedShapesError(ValueError, RuntimeError):
    """Weights of other shapes than the model's. (transformers raises a `RuntimeError`.)"""


def check_shapes(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], prefix: str, mismatches_are_fine: bool):
    """
    Refuses weights that are not the model's, and a model that is far larger than its weights.

    Args:
        model: On the meta device: it has no memory yet.
        shapes: Of the tensors in the file.
        prefix: The encoder's name in a head. An encoder's weights become a head's, and a head's an encoder's.
        mismatches_are_fine: Tensors of other shapes are made anew, as are those that the file lacks.
    """
    expected = {
        name: tensor for tensors in (model.named_parameters(), model.named_buffers()) for name, tensor in tensors
    }
    stored = {_name_in_model(name, expected, prefix): shape for name, shape in shapes.items()}
    fresh, differing = 0, []
    for name, tensor in expected.items():
        shape = tuple(getattr(tensor, "ds_shape", tensor.shape))  # DeepSpeed keeps it elsewhere
        if name in stored and stored[name] != shape and not mismatches_are_fine:
            differing.append(f"{name} {stored[name]}, by the config {shape}")
        if stored.get(name) != shape and tensor.is_meta:
            fresh += tensor.numel() * tensor.element_size()
    if differing:
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise MismatchedShapesError(
            f"The weights have other shapes than the config says: {'; '.join(differing[:3])}{more}. They belong to "
            "another config; `ignore_mismatched_sizes=True` makes such weights anew."
        )
    if fresh > MAX_FRESH_BYTES:
        raise ValueError(
            f"The config asks for weights of {fresh / 2**30:,.0f} GiB that the file does not hold: more than "
            f"{MAX_FRESH_BYTES >> 30} GiB are not made anew. Check the sizes in its config.json."
        )


def check_size(model: nn.Module, shapes: Mapping[str, tuple[int, ...]]):
    """Refuses a model with more numbers than parts of its tensors in files, as several processes save them."""
    held = sum(torch.Size(shape).numel() for shape in shapes.values())
    asked = sum(tensor.numel() for tensor in model.state_dict().values())
    if asked > held:
        raise ValueError(
            f"The config asks for {asked:,} weights, the files hold {held:,}: they do not belong together."
        )


def _name_in_model(name: str, expected: Mapping[str, Any], prefix: str) -> str:
    """As transformers finds it."""
    inner, outer = name.removeprefix(f"{prefix}."), f"{prefix}.{name}"
    if inner in expected:
        return inner
    return outer if outer in expected else name


__all__ = [
    "MismatchedShapesError",
    "check_index",
    "check_paths",
    "check_shapes",
    "check_size",
    "check_weight_files",
    "is_dtype",
    "is_inner_path",
    "is_weights_name",
    "read_json_object",
    "tensor_shapes",
    "weight_errors",
]
