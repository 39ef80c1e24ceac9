# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""Which precision matrix products run in."""

import torch


def product_dtype(weight: torch.Tensor) -> torch.dtype:
    """
    The precision for products with `weight`: its own, except that half-precision weights on a CPU are multiplied in
    fp32. There fp32 products are faster, and bf16 ones end the process (SIGILL) on machines that advertise AMX
    without being able to use it.
    """
    half = weight.dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if half and weight.device.type == "cpu" else weight.dtype


__all__ = ["product_dtype"]
