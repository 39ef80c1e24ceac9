"""Every benchmark can still be started: what it imports of the package is there."""

import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks

# They run in the environments of other packages, which they import.
OF_OTHERS = {"tokenizer_worker", "training_worker_tensorflow"}
MODULES = sorted(path.stem for path in Path(benchmarks.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.medium
def test_every_benchmark_imports_only_what_is_there():
    lines = [f"import benchmarks.{name}" for name in MODULES if name not in OF_OTHERS]
    # In a process of its own: some of them change settings of transformers and torch when they are imported.
    result = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
