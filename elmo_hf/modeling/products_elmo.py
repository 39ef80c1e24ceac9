# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Matrix products: the precision they run in, and weights packed for inference on a CPU.

PyTorch reorders a weight inside every product. With few rows that takes longer than the product itself, so inference
stores weights in the layout of oneDNN's kernels: 1.5 to 3 times as fast at 4 to 64 rows.
"""

import contextlib
import ctypes
import functools
import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn
from transformers.utils import logging

logger = logging.get_logger(__name__)

# oneDNN compiles and caches one kernel per number of rows. Larger products are split into blocks, so that the number of
# kernels is bounded.
ROWS_PER_BLOCK = 256
BF16_ROWS = 128  # the same for PyTorch's own bf16 products
# glibc retains freed memory up to twice the size of the largest block that was freed, for blocks up to 32 MB.
LARGEST_LEARNED_BLOCK = 32 * 2**20 - 2**16
MADV_PAGEOUT = 21  # Linux 5.4
SAMPLE_BYTES = 64  # of a weight, compared to detect changes

# A product large enough for the kernels of real models.
AMX_TRIAL = """
import torch
rows, weight = torch.ones(64, 512, dtype=torch.bfloat16), torch.ones(1024, 512, dtype=torch.bfloat16)
torch.nn.functional.linear(rows, weight)
"""

Packed = TypeVar("Packed")


# ---- precision


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype of autocast on a device; `None` if autocast is off, or if its products would kill the process."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return None
    dtype = torch.get_autocast_dtype(device.type)
    return None if device.type == "cpu" and dtype == torch.bfloat16 and bf16_is_fatal() else dtype


def product_dtype(weight_dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """
    The dtype for products with a weight: autocast's if that is on, else the weight's own. Half-precision weights on a
    CPU are multiplied in fp32: that is faster there, and bf16 products kill the process (SIGILL) on machines that
    advertise AMX without supporting it.

    Args:
        weight_dtype: Stored dtype of the weight.
        device: Device of the *activations*: an offloaded weight has no device of its own yet.
    """
    if (dtype := autocast_dtype(device)) is not None:
        return dtype
    is_half = weight_dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if is_half and device.type == "cpu" else weight_dtype


def packed_dtype(weight_dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype for products with a packed weight: bf16 if asked for and supported, else fp32."""
    wants_bf16 = torch.bfloat16 in (weight_dtype, autocast_dtype(device))
    return torch.bfloat16 if wants_bf16 and bf16_is_fast() else torch.float32


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager:
    """A context in which autocast is off. It takes no time if autocast is off already."""
    enabled = device.type != "meta" and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if enabled else contextlib.nullcontext()


@functools.cache
def bf16_is_fast() -> bool:
    """Whether this CPU multiplies bf16 matrices faster than fp32 ones: with AMX, or with AVX512-BF16 where AMX is not
    advertised."""
    if not (torch.backends.mkldnn.is_available() and torch.cpu._is_avx512_bf16_supported()):
        return False
    return not bf16_is_fatal()


@functools.cache
def bf16_is_fatal() -> bool:
    """Whether bf16 products would kill the process. Some virtual machines advertise AMX but do not support it."""
    return torch.cpu._is_amx_tile_supported() and not amx_works()


def amx_works(trial: str = AMX_TRIAL) -> bool:
    """Tries one bf16 product in a separate process, which takes 2 to 4 seconds."""
    if "python" not in os.path.basename(sys.executable or "").lower():
        logger.warning(
            "This processor has AMX. Python is embedded in another program, so AMX cannot be tested: bf16 weights are "
            "multiplied in fp32."
        )
        return False
    try:
        outcome = subprocess.run([sys.executable, "-P", "-c", trial], capture_output=True, timeout=120).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        outcome = error
    if outcome == 0:
        return True
    reason = signal.Signals(-outcome).name if isinstance(outcome, int) and outcome < 0 else outcome
    logger.warning(
        f"This processor advertises AMX, but a test of it ended with {reason}: bf16 weights are multiplied in fp32. "
        "(Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment to make bf16 products of other models safe.)"
    )
    return False


# ---- products in that precision


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`rows @ weight.T + bias` in the precision of [`product_dtype`]."""
    if autocast_dtype(rows.device) is not None:  # autocast converts a weight once for several products
        return nn.functional.linear(rows, weight, bias)
    dtype = product_dtype(weight.dtype, rows.device)
    with without_autocast(rows.device):
        return nn.functional.linear(rows.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


def matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right`, in autocast's precision if that is on."""
    if autocast_dtype(left.device) is not None:
        return left @ right
    with without_autocast(left.device):
        return left @ right


def at_least_fp32(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in fp32, unless it is in float64."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def round_up_rows(rows: int, weight_dtype: torch.dtype, device: torch.device) -> int:
    """
    The number of rows to pad a product to. PyTorch compiles a bf16 kernel on a CPU for every new shape, which takes
    longer than the product.
    """
    rounds = device.type == "cpu" and product_dtype(weight_dtype, device) == torch.bfloat16
    return -(-rows // BF16_ROWS) * BF16_ROWS if rounds else rows


# ---- packed weights


class PackedMatrix:
    """
    A weight in oneDNN's layout. Products run in fp32 or bf16; results are fp32.

    Args:
        weight (`torch.Tensor` of shape `(inputs, outputs)`): fp32 or bf16, on the CPU.
        reorder (`bool`): Whether to make that layout. A weight that changes before the next call, in training, is
            multiplied as it is: slower, but without the copy.
    """

    def __init__(self, weight: torch.Tensor, reorder: bool = True):
        self.dtype = weight.dtype
        transposed = weight.T
        self.weight = torch.ops.mkldnn._reorder_linear_weight(transposed.contiguous()) if reorder else transposed

    def __call__(self, rows: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`rows @ weight + bias`: `(rows, inputs)` → `(rows, outputs)`; the bias is `(outputs,)`."""
        bias = None if bias is None else bias.to(self.dtype)
        return in_blocks(lambda block: self.product(block, bias), rows.to(self.dtype)).float()

    def add(self, rows: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        """`total + rows @ weight`; the memory of `total` may be reused."""
        if self.dtype == total.dtype and len(rows) <= ROWS_PER_BLOCK:
            return torch.ops.mkldnn._linear_pointwise.binary(rows, total, self.weight, None, "add")
        return total.add_(self(rows))

    def product(self, rows: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """The product of all rows in one call, in the weight's dtype. oneDNN caches a kernel for their number."""
        return torch.ops.mkldnn._linear_pointwise(rows, self.weight, bias, "none", [], "")


def in_blocks(product: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
    """
    `product(rows)`, in blocks of at most `ROWS_PER_BLOCK` rows.

    Args:
        product: `(rows, inputs)` → `(rows, outputs)`, each row independent of the others.
        rows: `(rows, inputs)`
    """
    if len(rows) <= ROWS_PER_BLOCK:
        return product(rows)
    return torch.cat([product(block) for block in rows.split(ROWS_PER_BLOCK)])


class WeightKey(NamedTuple):
    """Identifies the values of a weight: it differs if the weight was replaced or, with few exceptions, written to."""

    address: int
    version: int
    sample: bytes
    dtype: torch.dtype


class PackedWeights:
    """
    Packed copies of a module's weights, by name. They are made at the first use, and again after a weight has changed,
    as shown by its address, its version counter or its first values. Writes through `weight.data` (PEFT merges adapters
    in this way) do not change address and version: call `model.pack_weights()` after one that changes only some values.

    The module owns this object; a copy of the module makes its own packed copies.

    Attributes:
        enabled (`bool`): Whether to pack at all.
    """

    def __init__(self, enabled: bool = True):
        self.enabled = enabled
        self._lock = threading.Lock()
        self._packed: dict[str, tuple[WeightKey, Any]] = {}

    def __deepcopy__(self, memo) -> "PackedWeights":
        return PackedWeights(self.enabled)

    def __reduce__(self):
        return PackedWeights, (self.enabled,)

    def usable(self, module: nn.Module, *weights: torch.Tensor) -> bool:
        """
        Whether inference may run on packed copies of `weights` of `module`: on a CPU with oneDNN, unless Accelerate
        offloads the module, since a copy would take the memory that offloading saves.
        """
        return (
            self.enabled
            and has_onednn()
            and getattr(module, "_hf_hook", None) is None
            and all(type(weight) in (torch.Tensor, nn.Parameter) and weight.is_cpu for weight in weights)
            and all(weight.dtype in (torch.float32, torch.bfloat16, torch.float16) for weight in weights)
        )

    def get(
        self, name: str, dtype: torch.dtype, pack: Callable[[torch.Tensor], Packed], weight: torch.Tensor
    ) -> Packed:
        """
        Args:
            name: The name of the copy.
            dtype: Precision of the products.
            pack: Makes the packed copy from the weight in that precision.
            weight: The weight.
        """
        key = weight_key(weight, dtype)
        with self._lock:
            if name not in self._packed or self._packed[name][0] != key:
                retain_freed_memory()
                self._packed[name] = key, pack(weight.detach().to(dtype))
                page_out(weight)
            return self._packed[name][1]

    def clear(self):
        """Drops all packed copies."""
        with self._lock:
            self._packed = {}


def packed_weights(module: nn.Module) -> Iterator[PackedWeights]:
    """The [`PackedWeights`] of a module and all its submodules."""
    for submodule in module.modules():
        if isinstance(packed := getattr(submodule, "packed", None), PackedWeights):
            yield packed


def needs_gradient(*tensors: torch.Tensor | None) -> bool:
    """Whether autograd will record what is computed from these tensors."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def uses_plain_engine() -> bool:
    """
    Whether only plain PyTorch runs: nothing packed, no gradients by hand. That is the case while PyTorch compiles or
    traces, and with `ELMO_HF_ENGINE=plain` in the environment, for debugging.
    """
    engine = os.environ.get("ELMO_HF_ENGINE", "fast")
    if engine not in ("fast", "plain"):
        raise ValueError(f"The environment variable ELMO_HF_ENGINE must be `fast` or `plain`, found {engine!r:.60}.")
    return engine == "plain" or torch.compiler.is_compiling() or torch.jit.is_tracing()


def has_onednn() -> bool:
    """Whether oneDNN's operators may be called."""
    return torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled) and not uses_plain_engine()


def weight_key(weight: torch.Tensor, dtype: torch.dtype) -> WeightKey:
    """
    Args:
        dtype: Precision of the products with the weight.
    """
    address = weight.data_ptr()
    # Read from memory directly: a slice and a comparison would take several times as long.
    has_values = address and weight.is_contiguous()
    sample = ctypes.string_at(address, min(weight.nbytes, SAMPLE_BYTES)) if has_values else b""
    return WeightKey(address, -1 if weight.is_inference() else weight._version, sample, dtype)


# ---- memory


@functools.cache
def retain_freed_memory():
    """
    Makes glibc retain up to 64 MB of freed memory for the next call: freeing one large block raises glibc's own
    threshold. See docs/decisions/retained-memory.md.
    """
    torch.empty(LARGEST_LEARNED_BLOCK, dtype=torch.uint8, device="cpu")


def page_out(weight: torch.Tensor):
    """
    Lets the system reclaim the memory of a weight that is mapped from a file (safetensors); the weight is read again
    when it is needed. Has no effect on other memory, and none outside Linux.
    """
    if not _is_mapped(weight):
        return
    page = mmap.PAGESIZE
    first = -(-weight.data_ptr() // page) * page
    last = (weight.data_ptr() + weight.nbytes) // page * page
    if last > first and weight.is_contiguous():
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), MADV_PAGEOUT)


def _is_mapped(weight: torch.Tensor) -> bool:
    """Whether a weight's memory is mapped from a file. Only Linux tells; elsewhere the answer is no."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        bounds, *_, name = line.split(maxsplit=5)
        first, last = (int(bound, 16) for bound in bounds.split("-"))
        if first <= weight.data_ptr() < last:
            return name.startswith("/")
    return False


__all__ = [
    "ROWS_PER_BLOCK",
    "PackedMatrix",
    "PackedWeights",
    "WeightKey",
    "at_least_fp32",
    "autocast_dtype",
    "bf16_is_fast",
    "bf16_is_fatal",
    "has_onednn",
    "in_blocks",
    "linear",
    "matmul",
    "needs_gradient",
    "packed_dtype",
    "packed_weights",
    "page_out",
    "product_dtype",
    "round_up_rows",
    "uses_plain_engine",
    "weight_key",
    "without_autocast",
]
