"""A script in several processes, as torchrun starts them."""

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.conftest import ROOT

PATIENCE = 300  # seconds; a process group that hangs should not hold up all tests


def launch(processes: int, arguments: Sequence[object]) -> str:
    """Runs `python ARGUMENTS` in so many processes on CPUs; what they print. An error fails the test."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", processes]
    command = [str(part) for part in (sys.executable, *launcher, *arguments)]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
