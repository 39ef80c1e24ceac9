# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""Which precision and which shapes matrix products run in."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from transformers.utils import logging

logger = logging.get_logger(__name__)

ROWS = 128

# Large enough for the kernels that real products use.
AMX_TRIAL = """
import torch
rows, weight = torch.ones(64, 512, dtype=torch.bfloat16), torch.ones(1024, 512, dtype=torch.bfloat16)
torch.nn.functional.linear(rows, weight)
"""


@functools.cache
def bf16_products() -> bool:
    """
    Whether this CPU multiplies bf16 matrices, and faster than fp32 ones: with AMX, or AVX512-BF16 on processors that do
    not claim to have AMX. Some virtual machines claim it and cannot use it: there a bf16 product ends the process, so
    a process of its own tries one, once.
    """
    if not (torch.backends.mkldnn.is_available() and torch.cpu._is_avx512_bf16_supported()):
        return False
    return not bf16_is_fatal()


@functools.cache
def bf16_is_fatal() -> bool:
    """Whether bf16 products would end the process."""
    return torch.cpu._is_amx_tile_supported() and not amx_works()


def amx_works(trial: str = AMX_TRIAL) -> bool:
    """Whether a bf16 product leaves a process alive (2 to 4 seconds, most of them to start it)."""
    if "python" not in os.path.basename(sys.executable or "").lower():
        logger.warning(
            "This processor has AMX. Python runs inside another program, so that AMX is not tried: bf16 "
            "weights are multiplied in fp32."
        )
        return False
    try:
        ended = subprocess.run([sys.executable, "-P", "-c", trial], capture_output=True, timeout=120).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        ended = error
    if ended == 0:
        return True
    reason = signal.Signals(-ended).name if isinstance(ended, int) and ended < 0 else ended
    logger.warning(
        f"This processor claims to have AMX, but a trial of it ended with {reason}: what is bf16 is multiplied in "
        "fp32. (With ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment, bf16 products of other models live too.)"
    )
    return False


def product_dtype(weight: torch.Tensor) -> torch.dtype:
    """
    The precision for products with `weight`: autocast's, where that is on; else the weight's own, except that
    half-precision weights on a CPU are multiplied in fp32. There fp32 products are faster, and bf16 ones end the
    process (SIGILL) on machines that advertise AMX without being able to use it.
    """
    if (dtype := autocast_dtype(weight.device)) is not None:
        return dtype
    half = weight.dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if half and weight.device.type == "cpu" else weight.dtype


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The precision that autocast asks for; `None` where it is off, and where it would end the process."""
    if not torch.is_autocast_enabled(device.type):
        return None
    dtype = torch.get_autocast_dtype(device.type)
    return None if device.type == "cpu" and dtype == torch.bfloat16 and bf16_is_fatal() else dtype


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager:
    """Within it autocast is off. Where it is off already, that costs nothing."""
    enabled = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if enabled else contextlib.nullcontext()


def packed_dtype(weight: torch.Tensor) -> torch.dtype:
    """The precision for products with a packed copy of `weight`: bf16 where that is asked for and pays, else fp32."""
    wants_bf16 = torch.bfloat16 in (weight.dtype, autocast_dtype(weight.device))
    return torch.bfloat16 if wants_bf16 and bf16_products() else torch.float32


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """
    `rows @ weight.T + bias` in the precision that [`product_dtype`] chooses. Autocast itself converts a weight once for
    several products.
    """
    if autocast_dtype(weight.device) is not None:
        return nn.functional.linear(rows, weight, bias)
    dtype = product_dtype(weight)
    with without_autocast(weight.device):
        return nn.functional.linear(rows.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


def matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right`, in autocast's precision where that is on and ends no process."""
    if autocast_dtype(left.device) is not None:
        return left @ right
    with without_autocast(left.device):
        return left @ right


def apply_module(module: nn.Module, inputs: torch.Tensor) -> Any:
    """`module(inputs)`, its products in the precision of [`product_dtype`]."""
    weight = next(module.parameters())
    dtype = product_dtype(weight)
    if autocast_dtype(weight.device) is not None:
        return module(inputs)
    with without_autocast(weight.device):
        if dtype == weight.dtype:
            return module(inputs)
        weights = {name: parameter.to(dtype) for name, parameter in module.named_parameters()}
        return functional_call(module, weights, (inputs.to(dtype),))


def round_up(number: int, weight: torch.Tensor) -> int:
    """
    How many rows a product with `weight` should get for `number` of them: a round number where the kernel for each new
    shape is compiled first, which takes longer than the product itself (bf16 on a CPU).
    """
    rounds = weight.device.type == "cpu" and product_dtype(weight) == torch.bfloat16
    return -(-number // ROWS) * ROWS if rounds else number


__all__ = [
    "apply_module",
    "autocast_dtype",
    "bf16_is_fatal",
    "bf16_products",
    "linear",
    "matmul",
    "packed_dtype",
    "product_dtype",
    "round_up",
    "without_autocast",
]
