"""Chooses the precision of training: whether bf16 is faster on this machine."""

import subprocess
import sys

import torch
from transformers.utils import logging

from ..modeling.products_elmo import bf16_is_fast

logger = logging.get_logger(__name__)

# Runs in a separate process, since on some machines the first bf16 product kills the process.
PROBE = """
import time, torch
def seconds(dtype):
    left, right = torch.ones(256, 512, dtype=dtype), torch.ones(512, 2048, dtype=dtype)
    left @ right
    start = time.perf_counter()
    for _ in range(30):
        left @ right
    return time.perf_counter() - start
raise SystemExit(0 if seconds(torch.bfloat16) < 0.6 * seconds(torch.float32) else 1)
"""


def choose_precision(precision: str) -> str:
    """
    Resolves "auto" to "bf16" if bf16 products are fast on this machine, else to "no". A GPU is asked whether it
    supports bf16; on a CPU a trial of a few seconds decides. Other values are returned unchanged, with a warning if
    bf16 is slow here.
    """
    if precision == "bf16" and not torch.accelerator.is_available() and not bf16_is_fast():
        logger.warning("This processor has no fast bf16 products: training is not faster here in bf16 than in fp32.")
    if precision != "auto":
        return precision
    if torch.accelerator.is_available():
        return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"
    return "bf16" if subprocess.run([sys.executable, "-c", PROBE], capture_output=True).returncode == 0 else "no"


__all__ = ["choose_precision"]
