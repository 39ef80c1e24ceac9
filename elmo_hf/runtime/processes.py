"""The processes of a run that torchrun or accelerate has launched."""

import sys
import time
from datetime import timedelta

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import parse_flag_from_env

# The other processes wait while the main process counts words or evaluates. That may exceed torch's default timeout.
PATIENCE = timedelta(days=1)


def on_cpu() -> bool:
    """Whether to compute on CPUs. Accelerate must be told, or processes without a GPU do not find each other."""
    return not torch.accelerator.is_available() or parse_flag_from_env("ACCELERATE_USE_CPU")


def this_process() -> PartialState:
    """The state of this process in the run. The first call connects the processes."""
    return PartialState(cpu=on_cpu(), timeout=PATIENCE)


def sum_over_processes(value: float, accelerator: Accelerator) -> float:
    """The sum of a value over all processes. Every process must call it."""
    if accelerator.num_processes == 1:
        return value  # nothing in float64 on devices that do not have it: those run one process
    own = torch.tensor(value, dtype=torch.float64, device=accelerator.device)
    total = accelerator.reduce(own, "sum")
    # gloo's threads release the tensor after the result is available, and need the GIL for it. Destroying the process
    # group before that would hold the GIL and wait for these threads: a deadlock.
    while total.device.type == "cpu" and sys.getrefcount(total) > sys.getrefcount(own):
        time.sleep(0)
    return total.item()


def shut_down(process: PartialState):
    """Disconnects the processes. A process that ends while gloo's threads are alive may be aborted."""
    if process.num_processes > 1:
        process.wait_for_everyone()
        time.sleep(0.1)  # for the threads to release the last tensors, as above
        process.destroy_process_group()


__all__ = ["on_cpu", "shut_down", "sum_over_processes", "this_process"]
