"""State dicts in pickles: read only with `weights_only=True`, in both of torch's containers."""

import io
import re
import warnings
import zipfile

import torch

from elmo_hf.errors import ConversionError

from .limits import check_memory

ZIP = b"PK\x03\x04"


def load_tensors(data: bytes, source) -> dict[str, torch.Tensor]:
    """
    The state dict in `data`, on the CPU.

    Args:
        data: The content of a file of `torch.save`.
        source: The file, for messages.
    """
    try:
        if data.startswith(ZIP):
            _check_container(data, source)
        with warnings.catch_warnings(action="ignore"):
            tensors = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except ConversionError:
        raise
    except Exception as error:  # by the place of the damage: UnpicklingError, RuntimeError, EOFError, struct.error ...
        raise ConversionError(
            f"{source} is no state dict that can be read safely: {_unpickling_reason(error)}"
        ) from error
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in tensors.items()
    ):
        raise ConversionError(f"{source} is no state dict: a dictionary of tensors was expected.")
    # A tensor may be larger than its storage, or have none.
    check_memory(sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()), len(data), source)
    return tensors


def _check_container(data: bytes, source):
    """Refuses a zip file, as torch writes them since 1.6, with a wrong checksum: torch does not look at them."""
    with zipfile.ZipFile(io.BytesIO(data)) as container:
        check_memory(sum(member.file_size for member in container.infolist()), len(data), source)
        if (damaged := container.testzip()) is not None:
            raise ConversionError(f"{source} is damaged: the checksum of {damaged} is wrong. Fetch it again.")


def _unpickling_reason(error: Exception) -> str:
    """Why torch would not load a file, without its advice to load it unsafely."""
    if called := re.search(r"GLOBAL (\S+)", str(error)):
        return f"it wants to run {called[1]}."
    if "Weights only load failed" in str(error) or not str(error):
        return "it is no pickle of tensors, or damaged."
    return str(error).splitlines()[0]


__all__ = ["load_tensors"]
