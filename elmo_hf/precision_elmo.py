# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""Which precision and which shapes matrix products run in."""

from typing import Any

import torch
from torch import nn
from torch.func import functional_call

ROWS = 128


def product_dtype(weight: torch.Tensor) -> torch.dtype:
    """
    The precision for products with `weight`: autocast's, where that is on; else the weight's own, except that
    half-precision weights on a CPU are multiplied in fp32. There fp32 products are faster, and bf16 ones end the
    process (SIGILL) on machines that advertise AMX without being able to use it.
    """
    if torch.is_autocast_enabled(weight.device.type):
        return torch.get_autocast_dtype(weight.device.type)
    half = weight.dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if half and weight.device.type == "cpu" else weight.dtype


def bf16_products(device: torch.device) -> bool:
    """Whether bf16 products are usable and fast there."""
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return device.type != "cuda" or torch.cuda.is_bf16_supported()


def apply_module(module: nn.Module, inputs: torch.Tensor) -> Any:
    """`module(inputs)`, its products in the precision of [`product_dtype`]."""
    weight = next(module.parameters())
    dtype = product_dtype(weight)
    if dtype == weight.dtype or torch.is_autocast_enabled(weight.device.type):
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


__all__ = ["apply_module", "bf16_products", "product_dtype", "round_up"]
