# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Matrix products with weights that stay as they are, on a CPU: inference.

PyTorch lays a weight out anew in every product, which with few rows takes longer than the product itself. oneDNN, which
PyTorch carries, keeps weights in the layout of its kernels: at 4 to 64 rows that is 1.5 to 3 times as fast.
"""

import contextlib
import ctypes
import mmap
import threading
from collections.abc import Callable, Sequence

import torch

from .precision_elmo import packed_dtype

# A kernel is made, and kept, for each new number of rows: so there are few such numbers. Large ones are blocks of this
# size, the rest is filled up to a multiple of 4, or of 16 above 64.
ROWS_PER_BLOCK = 256
MADV_PAGEOUT = 21  # Linux 5.4
MAX_MOVES = 3


class PackedMatrix:
    """
    A weight in oneDNN's layout, for products on its left.

    Args:
        weight (`torch.Tensor` of shape `(outputs, inputs)`): In fp32 or bf16, the precision of the products.
    """

    def __init__(self, weight: torch.Tensor):
        self.dtype = weight.dtype
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())

    def __call__(self, rows: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """
        Args:
            rows: `(rows, inputs)`
            bias: `(outputs,)`

        Returns:
            `rows @ weight.T + bias`, `(rows, outputs)`, in fp32.
        """
        bias = None if bias is None else bias.to(self.dtype)
        return in_blocks(
            lambda block: torch.ops.mkldnn._linear_pointwise(block, self.packed, bias, "none", [], ""),
            rows.to(self.dtype),
        ).float()

    def add(self, total: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """`total + rows @ weight.T`, `(rows, outputs)`."""
        return self(rows).add_(total)


class DenseMatrix:
    """
    The same for weights as they are, one for each direction, on any device.

    Args:
        weight (`torch.Tensor` of shape `(directions, inputs, outputs)`): In the precision of the products.
    """

    def __init__(self, weight: torch.Tensor):
        self.weight = weight

    def __call__(self, rows: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`(directions, rows, inputs)`, `(directions, 1, outputs)` → `(directions, rows, outputs)`"""
        rows = rows.to(self.weight.dtype)
        if bias is None:
            return torch.bmm(rows, self.weight)
        return torch.baddbmm(bias.to(self.weight.dtype), rows, self.weight)

    def add(self, total: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """As [`PackedMatrix.add`]; in the memory of `total`."""
        return total.baddbmm_(rows.to(self.weight.dtype), self.weight)


def in_blocks(product: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
    """
    `product(rows)`, each row by itself, with few different numbers of rows at once.

    Args:
        product: `(rows, inputs)` → `(rows, outputs)`
        rows: `(rows, inputs)`
    """
    number = len(rows)
    if number > ROWS_PER_BLOCK:
        return torch.cat([in_blocks(product, block) for block in rows.split(ROWS_PER_BLOCK)])
    if missing := -number % (4 if number <= 64 else 16):
        rows = torch.nn.functional.pad(rows, (0, 0, 0, missing))
    return product(rows)[:number]


class PackedWeight:
    """
    A parameter's packed matrix, made when it is first asked for, and again when the parameter has changed. It belongs
    to the module that has the parameter; a copy of the module makes its own.

    Attributes:
        enabled (`bool`): Whether to pack at all. Packed matrices are a second copy of the weights, and what they are
            made from is given back to the system where it can be read from its file again.
    """

    def __init__(self, enabled: bool = True):
        self.enabled = enabled
        self._lock = threading.Lock()
        self._state: tuple | None = None
        self._matrices: list[PackedMatrix] = []
        self._moves = 0  # how often the same values came at another address

    def __deepcopy__(self, memo) -> "PackedWeight":
        return PackedWeight(self.enabled)

    def __reduce__(self):
        return PackedWeight, (self.enabled,)

    def matrices(
        self, weight: torch.Tensor, rows: torch.Tensor, split: Callable[[torch.Tensor], Sequence[torch.Tensor]]
    ) -> list[PackedMatrix] | None:
        """
        Args:
            weight: The parameter.
            rows: What it is to be multiplied with.
            split: The parameter → matrices `(outputs, inputs)`.

        Returns:
            The packed matrices; `None` where there is nothing to gain, or no way to do so.
        """
        if not self.enabled or not can_pack(weight, rows):
            return None
        dtype = packed_dtype(weight)
        state = weight_state(weight, dtype)
        with self._lock:
            if not same_weight(state, self._state):
                self._moves += self._state is not None and torch.equal(state[-1], self._state[-1])
                if self._moves > MAX_MOVES:  # offloaded, and brought for each call: a copy would stay in its place
                    self._matrices, self._state = [], None
                    return None
                self._matrices = [PackedMatrix(matrix) for matrix in split(weight.detach().to(dtype))]
                self._state = state
                give_back(weight)
            return self._matrices

    def clear(self):
        """Frees the packed matrices."""
        with self._lock:
            self._matrices, self._state = [], None


def needs_gradient(*tensors: torch.Tensor | None) -> bool:
    """Whether what is computed from these will be asked for its gradient."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def can_pack(weight: torch.Tensor, rows: torch.Tensor) -> bool:
    """Whether `rows` can be multiplied with a packed copy of `weight`: on a CPU, and without a gradient."""
    return (
        not needs_gradient(weight, rows)
        and weight.device.type == "cpu"
        and type(weight) in (torch.Tensor, torch.nn.Parameter)  # not a part of one, nor a stand-in for one
        and weight.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and not (torch.compiler.is_compiling() or torch.jit.is_tracing())
        and torch.backends.mkldnn.is_available()
        and bool(torch.backends.mkldnn.enabled)
    )


def weight_state(weight: torch.Tensor, dtype: torch.dtype) -> tuple:
    """
    What tells that a weight is still the same. Changes through `weight.data` leave its version as it is, so some of
    its values are compared too: in few places, as every place brings back pages that were given to the system.
    """
    flat = weight.detach().reshape(-1)
    places = 16 if len(flat) > 2**16 else 1
    sample = flat[: len(flat) // places * places].view(places, -1)[:, :16].clone()
    version = None if weight.is_inference() else weight._version
    return dtype, weight.data_ptr(), weight.shape, version, sample


def same_weight(state: tuple, other: tuple | None) -> bool:
    """Whether two states of [`weight_state`] are of the same weight with the same values."""
    return other is not None and state[:-1] == other[:-1] and torch.equal(state[-1], other[-1])


def give_back(weight: torch.Tensor):
    """
    Lets the system take the memory of a weight that will not be needed soon. What came from a file is read from there
    again when it is needed; what did not stays where it is, unless there is swap space.
    """
    page = mmap.PAGESIZE
    first = -(-weight.data_ptr() // page) * page
    last = (weight.data_ptr() + weight.nbytes) // page * page
    if hasattr(mmap, "MADV_DONTNEED") and last > first and weight.is_contiguous():
        with contextlib.suppress(OSError, AttributeError):  # another system: the memory stays
            ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), MADV_PAGEOUT)


__all__ = [
    "DenseMatrix",
    "PackedMatrix",
    "PackedWeight",
    "can_pack",
    "give_back",
    "in_blocks",
    "needs_gradient",
    "same_weight",
    "weight_state",
]
