"""
Packages that come with an extra of this one: which are needed for what, and how they are installed. Commands look for
them before they begin; where they are used they are imported.
"""

import importlib
import importlib.util
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple


class Need(NamedTuple):
    """
    Args:
        purpose: As the beginning of a sentence.
        modules: All are needed.
        extra: Of this package, that brings them.
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
    "jieba": Need('The segmenter "jieba"', ("jieba",), "chinese"),
}
# The names under which packages are known where their modules have another.
PACKAGES = {"sklearn": "scikit-learn"}


def require(*uses: str):
    """
    Refuses with an `ImportError` that says what to install, before anything is done.

    Args:
        uses: Names in `NEEDS`; others need nothing.
    """
    for use in uses:
        if message := missing(use):
            raise ImportError(message)


def missing(use: str) -> str | None:
    """What is to be installed for a use; `None` if nothing is."""
    need = NEEDS.get(use)
    absent = [module for module in need.modules if not _is_installed(module)] if need else []
    return _message(use, absent) if absent else None


def import_extra(name: str, use: str) -> ModuleType:
    """
    Args:
        name: Of the module.
        use: What it is needed for, in `NEEDS`.
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
