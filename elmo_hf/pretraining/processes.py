"""The processes that torchrun or accelerate launched."""

from datetime import timedelta

import torch
from accelerate import PartialState
from accelerate.utils import parse_flag_from_env

# The main process counts words and evaluates alone, which may take longer than torch waits by default.
PATIENCE = timedelta(days=1)


def on_cpu() -> bool:
    """Whether to compute on CPUs. Accelerate must be told: processes without a GPU would not find each other."""
    return not torch.cuda.is_available() or parse_flag_from_env("ACCELERATE_USE_CPU")


def this_process() -> PartialState:
    """This process among those of the run; the first call brings them together."""
    return PartialState(cpu=on_cpu(), timeout=PATIENCE)


__all__ = ["on_cpu", "this_process"]
