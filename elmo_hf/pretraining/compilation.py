"""`torch.compile` for the element-wise parts of a training step."""

from collections.abc import Generator
from contextlib import contextmanager

import torch

from ..modeling import lstm_autograd_elmo, softmax_elmo

# The functions, the modules that call them, and whether to compile them for dynamic shapes. The shapes of an LSTM are
# those of the batch, and code for a fixed shape is several times as fast.
KERNELS = (
    (lstm_autograd_elmo, "cell_step", False),
    (lstm_autograd_elmo, "cell_step_backward", False),
    (softmax_elmo, "cross_entropy", True),
)


@contextmanager
def compiled_kernels(enabled: bool = True) -> Generator[None]:
    """
    Inside the `with` block, the element-wise parts of the LSTM and the softmax are compiled when they first run: one
    pass over memory instead of many. On a CPU this needs a C++ compiler.
    """
    plain = [getattr(module, name) for module, name, _ in KERNELS]
    try:
        for (module, name, dynamic), function in zip(KERNELS, plain, strict=True):
            setattr(module, name, torch.compile(function, dynamic=dynamic) if enabled else function)
        yield
    finally:
        for (module, name, _), function in zip(KERNELS, plain, strict=True):
            setattr(module, name, function)
