"""How much of a program's time is inside matrix products: PyTorch's functions for them are timed at each call."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional as F

# Whatever is missing here counts as time outside.
PRODUCTS = [
    *((torch, name) for name in ("mm", "bmm", "addmm", "baddbmm", "matmul")),
    *((F, name) for name in ("linear", "conv1d")),
    (torch.ops.mkldnn, "_linear_pointwise"),
    (torch.ops.onednn, "qlinear_pointwise"),
]


class TimedProducts:
    """
    Within it products are timed. That costs less than a microsecond a call; PyTorch's profiler, which sees all other
    operations too, would slow a run of many short ones by a hundredth and more.

    Attributes:
        seconds (`float`): Inside products so far.
    """

    def __init__(self):
        self.seconds = 0.0
        self._patches = ExitStack()

    def __enter__(self) -> "TimedProducts":
        for place, name in PRODUCTS:
            if hasattr(place, name):
                self._patches.enter_context(patch.object(place, name, _Timed(getattr(place, name), self._add)))
        return self

    def __exit__(self, *error):
        self._patches.close()

    def _add(self, seconds: float):
        self.seconds += seconds


class _Timed:
    """A function, or an operator with its overloads."""

    def __init__(self, function: Callable[..., Any], add: Callable[[float], object]):
        self._function, self._add = function, add

    def __call__(self, *args, **kwargs) -> Any:
        begin = time.perf_counter()
        try:
            return self._function(*args, **kwargs)
        finally:
            self._add(time.perf_counter() - begin)

    def __getattr__(self, name: str) -> "_Timed":
        return _Timed(getattr(self._function, name), self._add)
