"""Every benchmark can still be started: what it imports of the package is there."""

import importlib
from pathlib import Path

import pytest

import benchmarks

# They run in the environments of other packages, which they import.
OF_OTHERS = {"tokenizer_worker", "training_worker_tensorflow"}
MODULES = sorted(path.stem for path in Path(benchmarks.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", [name for name in MODULES if name not in OF_OTHERS])
def test_a_benchmark_imports_only_what_is_there(name):
    importlib.import_module(f"benchmarks.{name}")
