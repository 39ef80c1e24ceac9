"""`torch.compile` for what is no matrix product in a training step."""

from collections.abc import Generator
from contextlib import contextmanager

import torch

from ..modeling import lstm_autograd_elmo, softmax_elmo

# Functions without side effects, the modules that call them, and whether the shapes they meet vary: an LSTM's are those
# of the batch, and code for one shape is several times as fast as code for all.
KERNELS = (
    (lstm_autograd_elmo, "cell_step", False),
    (lstm_autograd_elmo, "cell_step_backward", False),
    (softmax_elmo, "cross_entropy", True),
)


@contextmanager
def compiled_kernels(wanted: bool = True) -> Generator[None]:
    """
    Within, the element-by-element parts of LSTM and softmax are compiled when they first run: one pass over memory
    instead of many. Needs a C++ compiler on a CPU.
    """
    plain = [getattr(module, name) for module, name, _ in KERNELS]
    try:
        for (module, name, dynamic), function in zip(KERNELS, plain, strict=True):
            setattr(module, name, torch.compile(function, dynamic=dynamic) if wanted else function)
        yield
    finally:
        for (module, name, _), function in zip(KERNELS, plain, strict=True):
            setattr(module, name, function)
