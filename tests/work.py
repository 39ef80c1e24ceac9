"""
Counts the work of a model instead of its time: matrix products, and copies of weights.

`torch.utils.flop_counter` does not see products in place, nor those on packed and on int8 weights.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operators that multiply matrices, and the place of the rows among their arguments.
PRODUCTS = {
    "aten.mm": 0,
    "aten.addmm": 1,
    "aten.addmm_": 1,
    "aten.bmm": 0,
    "aten.baddbmm": 1,
    "aten.baddbmm_": 1,
    "aten.linear": 0,
    "aten.matmul": 0,
    "mkldnn._linear_pointwise": 0,
    "onednn.qlinear_pointwise": 0,
    "quantized.linear_dynamic": 0,
}
BATCHED = {"aten.bmm", "aten.baddbmm", "aten.baddbmm_"}
# These read rows of a table; what they give is no copy of it, however large.
LOOKUPS = {"aten.embedding", "aten.index", "aten.index_select", "aten.take"}


class Product(NamedTuple):
    """`(rows, inputs) x (inputs, outputs)`"""

    inputs: int
    outputs: int
    rows: int

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.inputs * self.outputs


class WorkCounter(TorchDispatchMode):
    """
    Sees every operator that runs under it.

    Args:
        model: Whose weights are watched.

    Attributes:
        products: In their order; those of both directions in one operator are two.
        copies: The operators that wrote a weight, or one direction's part of it, somewhere else.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.products: list[Product] = []
        self.copies: list[str] = []
        weights = [weight for name, weight in model.named_parameters() if not name.endswith("bias")]
        self._weights = {_memory(weight): weight.numel() for weight in weights}

    @property
    def flops(self) -> int:
        return sum(product.flops for product in self.products)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = str(func).rpartition(".")[0]
        if name in PRODUCTS:
            rows = args[PRODUCTS[name]]
            directions = rows.shape[0] if name in BATCHED else 1
            product = Product(rows.shape[-1], result.shape[-1], rows.numel() // rows.shape[-1] // directions)
            self.products += [product] * directions
        elif name not in LOOKUPS and self._copies_weight(tree_leaves((args, kwargs)), tree_leaves(result)):
            self.copies.append(name)
        return result

    def _copies_weight(self, given: Iterable, results: Iterable) -> bool:
        # A direction's part is half of a weight; less is a look at some values.
        sizes = [value.numel() for value in given if 2 * _size(value) >= self._weights.get(_memory(value), torch.inf)]
        made = [
            value.numel()
            for value in results
            if isinstance(value, torch.Tensor) and _memory(value) not in self._weights
        ]
        return bool(sizes and made) and max(made) >= min(sizes)


def _size(value) -> int:
    return value.numel() if isinstance(value, torch.Tensor) and value.ndim > 1 else 0


def _memory(value) -> int | None:
    """Where a tensor's memory begins; `None` for all else, and for a layout that hides it."""
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        return value.untyped_storage().data_ptr()
    return None
