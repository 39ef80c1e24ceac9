"""
Optional packages: which feature needs which package, and how to install it. Commands check for them before they begin;
the code that uses a package imports it.
"""

import importlib
import importlib.util
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple


class Need(NamedTuple):
    """
    What a feature needs.

    Args:
        purpose: The feature, as the beginning of a sentence.
        modules: The modules, all of which are needed.
        extra: The extra of this package that installs them.
    """

    purpose: str
    modules: tuple[str, ...]
    extra: str


NEEDS = {
    "finetuning": Need("Training a head", ("sklearn", "seqeval"), "finetune"),
    "dataset": Need("Reading a dataset", ("datasets",), "embed"),
    "parquet": Need("Parquet", ("pyarrow",), "embed"),
    "arrow": Need("Arrow", ("pyarrow",), "embed"),
    "hdf5": Need("HDF5", ("h5py",), "embed"),
    "original weights": Need("HDF5 weights", ("h5py",), "convert"),
    "approximate index": Need("An approximate index (--exact does without)", ("usearch",), "index"),
    "picture": Need("A picture", ("matplotlib",), "picture"),
    "tensorboard": Need("The tracker tensorboard", ("tensorboard",), "pretrain"),
    "page": Need("The page", ("gradio", "h5py"), "space"),
    "onnx": Need("Export to ONNX", ("onnx", "onnxruntime"), "onnx"),
    "serving": Need("Serving", ("fastapi", "uvicorn", "prometheus_client", "orjson"), "serve"),
    "spacy": Need("A component for spaCy", ("spacy",), "spacy"),
    "jieba": Need('The segmenter "jieba"', ("jieba",), "chinese"),
}
# The names of packages that differ from those of their modules.
PACKAGES = {"sklearn": "scikit-learn", "prometheus_client": "prometheus-client"}


def require(*uses: str):
    """
    Raises an `ImportError` that says what to install if a package is missing.

    Args:
        uses: Names in `NEEDS`. Other names need nothing.
    """
    for use in uses:
        if message := missing(use):
            raise ImportError(message)


def missing(use: str) -> str | None:
    """The message that says what to install for a use; `None` if nothing is missing."""
    need = NEEDS.get(use)
    absent = [module for module in need.modules if not _is_installed(module)] if need else []
    return _message(use, absent) if absent else None


def import_extra(name: str, use: str) -> ModuleType:
    """
    Imports a module of an optional package.

    Args:
        name: The name of the module.
        use: The name in `NEEDS` of what it is needed for.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(_message(use, [name.partition(".")[0]])) from error


def _message(use: str, modules: Iterable[str]) -> str:
    packages = " and ".join(PACKAGES.get(module, module) for module in modules)
    return f'{NEEDS[use].purpose} needs {packages}: pip install "elmo-hf[{NEEDS[use].extra}]"'


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # `None` in sys.modules, as tests simulate it
        return False


__all__ = ["NEEDS", "import_extra", "missing", "require"]
