"""transformers' test modules from its source distribution, which leaves some of them out."""

import importlib
import importlib.abc
import importlib.machinery
import sys
import unittest
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
import transformers

import elmo_hf
from tests.conftest import find_data
from tests.mixins.fetch import FOLDER

PACKAGE = "transformers_tests"
# What the tests read of modules that are left out. Of all else there they only take classes to inherit from.
LEFT_OUT = {
    # Values other than the defaults, for every argument that all configs have.
    "config_common_kwargs": {
        "return_dict": False,
        "output_hidden_states": True,
        "dtype": "float16",
        "chunk_size_feed_forward": 5,
        "architectures": ["ElmoModel"],
        "id2label": {0: "label"},
        "label2id": {"label": 0},
        "problem_type": "regression",
    },
}


class _LeftOut(ModuleType):
    """A module that is not in the distribution."""

    __path__: list[str] = []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return LEFT_OUT.get(name) or type(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what is in no file below the package."""

    def find_spec(self, fullname, path=None, target=None):
        return importlib.machinery.ModuleSpec(fullname, self) if fullname.startswith(f"{PACKAGE}.") else None

    def create_module(self, spec):
        return _LeftOut(spec.name)

    def exec_module(self, module):
        pass


def find_source() -> Path:
    """The folder of the test modules. A module that asks is skipped where there is none."""
    pytest.importorskip("parameterized")
    try:
        return find_data(FOLDER, "tests")
    except pytest.skip.Exception:
        pytest.skip("transformers' tests are not here: run `make mixins`", allow_module_level=True)


def stock_tests(name: str) -> ModuleType:
    """A test module of transformers, by its name."""
    folder = find_source()
    if PACKAGE not in sys.modules:
        package = ModuleType(PACKAGE)
        package.__path__ = [str(folder)]
        sys.modules[PACKAGE] = package
        sys.meta_path.append(_Finder())
    # In its place transformers' own modules would be run a second time.
    with mock.patch("transformers.utils.direct_transformers_import", return_value=_Names()):
        return importlib.import_module(f"{PACKAGE}.{name}")


class _Names:
    """transformers' public names, and ours beside them."""

    def __getattr__(self, name: str):
        return getattr(elmo_hf if hasattr(elmo_hf, name) else transformers, name)


def leave_out(tests: type[unittest.TestCase], reasons: dict[str, str]):
    """
    Skips tests that cannot apply.

    Args:
        tests: A class with mixins.
        reasons: Why, by the names of tests or patterns of them (`test_flash_*`). Each must be that of a test.
    """
    for pattern, reason in reasons.items():
        names = [name for name in dir(tests) if fnmatch(name, pattern) and callable(getattr(tests, name))]
        if not names:
            raise ValueError(f"There is no test {pattern} to leave out.")
        for name in names:
            setattr(tests, name, unittest.skip(reason)(lambda self: None))


__all__ = ["find_source", "leave_out", "stock_tests"]
