# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Matrix products with weights that stay as they are, on a CPU: inference.

PyTorch lays a weight out anew in every product, which with few rows takes longer than the product itself. oneDNN, which
PyTorch carries, keeps weights in the layout of its kernels: at 4 to 64 rows that is 1.5 to 3 times as fast.
"""

import copy
import ctypes
import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from .memory_elmo import give_back, is_mapped

# A kernel is made, and kept, for each new number of rows: so there are few such numbers. Large ones are blocks of this
# size, the rest is filled up to a multiple of 2 above 8, of 4 above 32, or of 16 above 64.
ROWS_PER_BLOCK = 256
MOST_FILLED = 16
MAX_MOVES = 3
SMALL_WEIGHT = 2**16
PLACES, VALUES = 4, 64  # of a larger weight that are compared
COLUMNS_APART = 37  # so that these places are not all in the same columns
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)  # not a part of one, nor a stand-in for one

Packed = TypeVar("Packed")
Total = torch.Tensor | Sequence[torch.Tensor]  # (directions, rows, outputs), or (rows, outputs) of each direction


class Matrix(Protocol):
    """A weight, ready for products on its left: one of the classes below, or [`Int8Matrix`]."""

    def __getitem__(self, directions: slice) -> "Matrix":
        """That of some directions."""
        ...

    def __call__(self, rows: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`rows @ weight + bias`"""
        ...

    def add(self, total: Total, rows: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """`total + rows @ weight`; the memory of `total` may be used for it, or that which is given."""
        ...


class DenseMatrix:
    """
    A weight as it is, one for each direction, on any device.

    Args:
        weight (`torch.Tensor` of shape `(directions, inputs, outputs)`): In the precision of the products.
    """

    def __init__(self, weight: torch.Tensor):
        self.weight = weight

    def __getitem__(self, directions: slice) -> "DenseMatrix":
        """That of some directions."""
        return DenseMatrix(self.weight[directions])

    def __call__(self, rows: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """
        `rows @ weight + bias`

        Args:
            rows: `(directions, rows, inputs)`
            bias: `(directions, 1, outputs)`

        Returns:
            `(directions, rows, outputs)`
        """
        if rows.dtype != self.weight.dtype:
            rows = rows.to(self.weight.dtype)
        if bias is None:
            return torch.bmm(rows, self.weight)
        return torch.baddbmm(bias.to(self.weight.dtype), rows, self.weight)

    def alone(self, rows: torch.Tensor) -> torch.Tensor:
        """Of a single direction, in the precision of the weight: `(rows, inputs)` → `(rows, outputs)`."""
        return torch.mm(rows, self.weight[0])

    def add(self, total: Total, rows: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """`total + rows @ weight`; the memory of `total` may be used for it, or that which is given."""
        # Not in place: where the directions lie apart, each would be a product of its own, and half as fast.
        dtype = self.weight.dtype
        if rows.dtype != dtype:
            rows = rows.to(dtype)
        out = memory if memory is not None and memory.dtype == dtype else None
        return torch.baddbmm(together(total), rows, self.weight, out=out)


def together(total: Total) -> torch.Tensor:
    """`(directions, rows, outputs)`"""
    return total if isinstance(total, torch.Tensor) else torch.stack(list(total))


class PackedMatrix:
    """
    The same in oneDNN's layout, for products in fp32 or bf16 whose results are fp32.

    Args:
        weight (`torch.Tensor` of shape `(directions, inputs, outputs)`): In the precision of the products.
        reorder (`bool`): Whether to make that layout. A weight that will be another soon stays as it is: not as
            fast, but without the copy.
    """

    def __init__(self, weight: torch.Tensor, reorder: bool = True):
        self.dtype = weight.dtype
        self.packed = [_reordered(matrix.T) if reorder else matrix.T for matrix in weight]

    @classmethod
    def of_gates(cls, weight: torch.Tensor) -> "PackedMatrix":
        """The candidate's part [`stretched`]."""
        packed = cls(weight, reorder=False)
        packed.packed = [_reordered(stretched(_transposed(matrix), dim=0)) for matrix in weight]
        return packed

    def __getitem__(self, directions: slice) -> "PackedMatrix":
        """That of some directions."""
        chosen = copy.copy(self)
        chosen.packed = self.packed[directions]
        return chosen

    def __call__(self, rows: torch.Tensor, bias: torch.Tensor | None = None, activation: str = "none") -> torch.Tensor:
        """As [`DenseMatrix.__call__`]; an activation ("relu", "sigmoid") is a part of the product."""
        products = self.apart(rows, bias, activation)
        return products[0].unsqueeze(0) if len(products) == 1 else torch.stack(products)

    def apart(
        self, rows: torch.Tensor, bias: torch.Tensor | None = None, activation: str = "none"
    ) -> list[torch.Tensor]:
        """The same, one `(rows, outputs)` a direction: nothing is copied to one place."""
        biases = [None] * len(self.packed) if bias is None else bias.to(self.dtype).squeeze(1).unbind()
        return [
            self._product(some, packed, of_direction, activation)
            for some, packed, of_direction in zip(rows.unbind(), self.packed, biases, strict=True)
        ]

    def alone(self, rows: torch.Tensor) -> torch.Tensor:
        """As [`DenseMatrix.alone`]. A kernel is kept for each number of rows: give few different ones."""
        return torch.ops.mkldnn._linear_pointwise(rows, self.packed[0], None, "none", [], "")

    def add(self, total: Total, rows: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """As [`DenseMatrix.add`]."""
        number = rows.shape[1]
        if len(self.packed) == 1 and filled(number) == number <= ROWS_PER_BLOCK and self.dtype == total[0].dtype:
            product = torch.ops.mkldnn._linear_pointwise.binary
            return product(rows[0], total[0], self.packed[0], None, "add").unsqueeze(0)
        found = together(total) if memory is None else memory
        for given, product, place in zip(total, self.apart(rows), found.unbind(), strict=True):
            torch.add(given, product, out=place)
        return found

    def _product(
        self, rows: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None = None, activation: str = "none"
    ) -> torch.Tensor:
        """One direction's, `(rows, inputs)` → `(rows, outputs)`."""
        return in_blocks(
            lambda block: torch.ops.mkldnn._linear_pointwise(block, packed, bias, activation, [], ""),
            rows.to(self.dtype),
        ).float()


def _reordered(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())


def _transposed(weight: torch.Tensor) -> torch.Tensor:
    """In memory of its own."""
    return weight.T.clone(memory_format=torch.contiguous_format)


class SmallMatrix:
    """
    The recurrent weight of a small layer, its candidate's part [`stretched`], in both layouts: the packed one, and the
    plain one for a row or two, where both directions in one product are faster.

    Args:
        weight (`torch.Tensor` of shape `(directions, inputs, outputs)`): fp32.
    """

    def __init__(self, weight: torch.Tensor):
        self.packed, self.dense = PackedMatrix.of_gates(weight), DenseMatrix(stretched(weight.clone()))

    def __getitem__(self, directions: slice) -> "SmallMatrix":
        """That of some directions."""
        chosen = copy.copy(self)
        chosen.packed, chosen.dense = self.packed[directions], self.dense[directions]
        return chosen

    def for_rows(self, number: int) -> DenseMatrix | PackedMatrix:
        """The layout that is faster for so many."""
        return self.dense if number <= 2 else self.packed


class GateMatrix:
    """
    The weights of an LSTM's input and of its recurrence in one, packed in fp32, the candidate's part [`stretched`],
    with the sigmoids of the gates as a part of the product: nothing is written and read again between. For many rows at
    once; a few spend their time on reading weights, of which this reads both at every step.

    Args:
        input_weight (`torch.Tensor` of shape `(directions, inputs, 4 * cells)`): Gates i, j, f, o; j is the candidate.
        recurrent_weight (`torch.Tensor` of shape `(directions, size, 4 * cells)`)
    """

    def __init__(self, input_weight: torch.Tensor, recurrent_weight: torch.Tensor):
        weights = zip(input_weight, recurrent_weight, strict=True)
        self.packed = [
            _reordered(stretched(torch.cat([matrix.T for matrix in both], dim=1), dim=0)) for both in weights
        ]

    def __getitem__(self, directions: slice) -> "GateMatrix":
        """That of some directions."""
        chosen = copy.copy(self)
        chosen.packed = self.packed[directions]
        return chosen

    def __call__(self, rows: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """
        For a single direction.

        Args:
            rows: `(rows, inputs + size)`, as many as [`filled`] says, of one block.
            bias: `(4 * cells,)`, stretched.

        Returns:
            `(rows, 4 * cells)`: the sigmoids of i, -2j, f, o.
        """
        (packed,) = self.packed
        return torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "sigmoid", [], "")


def stretched(gates: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The second quarter along `dim`, the candidate's, times -2, in place: then a sigmoid serves for its tanh."""
    gates.chunk(4, dim)[1].mul_(-2)
    return gates


def filled(number: int) -> int:
    """How many rows a kernel gets for so many of a block; at most `MOST_FILLED` - 1 more."""
    return number + -number % (1 if number <= 8 else 2 if number <= 32 else 4 if number <= 64 else MOST_FILLED)


def blocks(rows: torch.Tensor) -> Sequence[torch.Tensor]:
    """`(rows, columns)` in blocks of at most `ROWS_PER_BLOCK`."""
    return rows.split(ROWS_PER_BLOCK) if len(rows) > ROWS_PER_BLOCK else (rows,)


def in_blocks(product: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
    """
    `product(rows)`, each row by itself, block by block, with few different numbers of rows at once.

    Args:
        product: `(rows, inputs)` → `(rows, outputs)`
        rows: `(rows, inputs)`
    """
    if filled(len(rows)) == len(rows) <= ROWS_PER_BLOCK:
        return product(rows)
    products = []
    for block in blocks(rows):
        number = len(block)
        if missing := filled(number) - number:
            block = torch.nn.functional.pad(block, (0, 0, 0, missing))
        products.append(product(block)[:number] if missing else product(block))
    return products[0] if len(products) == 1 else torch.cat(products)


class PackedWeight:
    """
    What a parameter's products run on, made when it is first asked for, and again when the parameter has changed. It
    belongs to the module that has the parameter; a copy of the module makes its own.

    Attributes:
        enabled (`bool`): Whether to pack at all. What is packed is a second copy of the weight, and the first one is
            given back to the system where it can be read from its file again.
    """

    def __init__(self, enabled: bool = True):
        self.enabled = enabled
        self._lock = threading.Lock()
        self._state: list[WeightState] | None = None
        self._packed: Any = None
        self._moves = 0  # how often the same values came at another address

    def __deepcopy__(self, memo) -> "PackedWeight":
        return PackedWeight(self.enabled)

    def __reduce__(self):
        return PackedWeight, (self.enabled,)

    def get(
        self, rows: torch.Tensor, dtype: torch.dtype, pack: Callable[..., Packed], *weights: torch.Tensor
    ) -> Packed | None:
        """
        Args:
            rows: What is to be multiplied.
            dtype: Precision of the product.
            pack: Makes what is kept from the weights, in that precision.
            weights: The parameter; or several that are packed together.

        Returns:
            What `pack` has made; `None` where nothing may be kept.
        """
        if not self.enabled or not can_pack(rows, *weights):
            self.clear()  # where a weight learns it will be another soon, and elsewhere the copy is of no use
            return None
        with self._lock:
            if not self._is_of(weights, dtype):
                state = [weight_state(weight, dtype) for weight in weights]
                self._moves = self._moves + 1 if self._is_moved(state) else 0
                if self._moves > MAX_MOVES:  # offloaded, and brought for each call: a copy would stay in its place
                    self._packed, self._state = None, state
                    return None
                self._packed, self._state = pack(*(weight.detach().to(dtype) for weight in weights)), state
                for weight in filter(is_mapped, weights):
                    give_back(weight)
            return self._packed

    def _is_of(self, weights: Sequence[torch.Tensor], dtype: torch.dtype) -> bool:
        known = self._state or []
        return len(known) == len(weights) and all(map(WeightState.is_of, known, weights, itertools.repeat(dtype)))

    def _is_moved(self, state: list["WeightState"]) -> bool:
        known = self._state or []
        return len(known) == len(state) and all(new.is_moved(old) for new, old in zip(state, known, strict=True))

    def clear(self):
        """Forgets what was packed."""
        with self._lock:
            self._packed = self._state = None
            self._moves = 0


def needs_gradient(*tensors: torch.Tensor | None) -> bool:
    """Whether what is computed from these will be asked for its gradient."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def can_pack(rows: torch.Tensor, *weights: torch.Tensor) -> bool:
    """Whether `rows` can be multiplied with packed copies of `weights`: on a CPU, and without a gradient."""
    return (
        not needs_gradient(rows, *weights)
        and has_onednn()
        and all(
            weight.is_cpu
            and type(weight) in PLAIN_TENSORS
            and weight.dtype in (torch.float32, torch.bfloat16, torch.float16)
            for weight in weights
        )
    )


def has_onednn() -> bool:
    """Whether oneDNN's products may be called."""
    return (
        torch.backends.mkldnn.is_available()
        and bool(torch.backends.mkldnn.enabled)
        and not (torch.compiler.is_compiling() or torch.jit.is_tracing())
    )


class WeightState(NamedTuple):
    """
    What tells that a weight is still the same. Some changes leave its version as it is, through `weight.data` or by
    fused optimisers, so values are compared too: of a small weight all, of a large one some, in few places, as every
    place brings back pages that were given to the system.
    """

    address: int
    dtypes: tuple[torch.dtype, ...]
    shape: torch.Size
    version: int | None
    values: bytes

    def is_moved(self, other: "WeightState") -> bool:
        """Whether this is another weight with the same values, or the same one at another place."""
        return self[1:] == other[1:]

    def is_of(self, weight: torch.Tensor, *dtypes: torch.dtype) -> bool:
        """Whether `weight_state(weight, *dtypes)` is this one. Asked at every product: most often it is."""
        seen = weight.data_ptr(), dtypes, weight.shape, _version(weight)
        return seen == self[:4] and _sample(weight) == self.values


def weight_state(weight: torch.Tensor, *dtypes: torch.dtype) -> WeightState:
    """
    Args:
        weight: Any tensor with memory.
        dtypes: What else must be the same: the precisions of its products.
    """
    return WeightState(weight.data_ptr(), dtypes, weight.shape, _version(weight), _sample(weight))


def _version(weight: torch.Tensor) -> int | None:
    return None if weight.is_inference() else weight._version


def _sample(weight: torch.Tensor) -> bytes:
    """The values that are compared."""
    starts, length = _places(weight.numel())
    if type(weight) in PLAIN_TENSORS and weight.is_cpu and weight.is_contiguous() and (address := weight.data_ptr()):
        # Straight from its memory: calls of PyTorch's for that take several times as long, at every product.
        size = weight.element_size()
        return b"".join([ctypes.string_at(address + start * size, length * size) for start in starts])
    places = torch.cat([torch.arange(start, start + length, device=weight.device) for start in starts])
    return weight.detach().take(places).cpu().view(torch.uint8).numpy().tobytes()


@functools.cache
def _places(size: int) -> tuple[list[int], int]:
    """Where the values that are compared start, and how many there are from each start on."""
    if size <= SMALL_WEIGHT:
        return [0], size
    return [place * (size // PLACES + COLUMNS_APART) for place in range(PLACES)], VALUES


__all__ = [
    "MOST_FILLED",
    "ROWS_PER_BLOCK",
    "DenseMatrix",
    "GateMatrix",
    "Matrix",
    "PackedMatrix",
    "PackedWeight",
    "SmallMatrix",
    "Total",
    "WeightState",
    "blocks",
    "can_pack",
    "filled",
    "has_onednn",
    "in_blocks",
    "needs_gradient",
    "stretched",
    "together",
    "weight_state",
]
