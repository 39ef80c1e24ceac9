"""The processes that torchrun or accelerate launched."""

import sys
import time
from datetime import timedelta

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import parse_flag_from_env

# The main process counts words and evaluates alone, which may take longer than torch waits by default.
PATIENCE = timedelta(days=1)


def on_cpu() -> bool:
    """Whether to compute on CPUs. Accelerate must be told: processes without a GPU would not find each other."""
    return not torch.cuda.is_available() or parse_flag_from_env("ACCELERATE_USE_CPU")


def this_process() -> PartialState:
    """This process among those of the run; the first call brings them together."""
    return PartialState(cpu=on_cpu(), timeout=PATIENCE)


def sum_over_processes(value: float, accelerator: Accelerator) -> float:
    """The sum of all processes' values; all of them must ask for it."""
    if accelerator.num_processes == 1:
        return value
    own = torch.tensor(value, dtype=torch.float64, device=accelerator.device)
    total = accelerator.reduce(own, "sum")
    # gloo's threads let go of the tensor after the result is there, and need Python's lock for it. A process group that
    # was taken down before would hold that lock and wait for its threads: for ever.
    while total.device.type == "cpu" and sys.getrefcount(total) > sys.getrefcount(own):
        time.sleep(0)
    return total.item()


def part(process: PartialState):
    """The end of what the processes do together; one that ends with gloo's threads alive may be aborted."""
    if process.num_processes > 1:
        process.wait_for_everyone()
        time.sleep(0.1)  # for the threads to let go of the last tensors, as above
        process.destroy_process_group()


__all__ = ["on_cpu", "part", "sum_over_processes", "this_process"]
