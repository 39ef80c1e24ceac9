"""Whether bf16 pays on this machine."""

import subprocess
import sys

import torch
from transformers.utils import logging

from ..modeling.products_elmo import bf16_is_fast

logger = logging.get_logger(__name__)

# In a process of its own: on some machines the first bf16 product ends the process.
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


def choose_precision(wanted: str) -> str:
    """
    "no", "bf16" or "fp16" for `wanted`; "auto" is bf16 where the machine has fast products in it: on a GPU if it says
    so, on a CPU if a trial of a few seconds does. Whoever asks for bf16 gets it, and is told where it is slow.
    """
    if wanted == "bf16" and not torch.cuda.is_available() and not bf16_is_fast():
        logger.warning("This processor has no fast bf16 products: training is not faster here in bf16 than in fp32.")
    if wanted != "auto":
        return wanted
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported() else "no"
    return "bf16" if subprocess.run([sys.executable, "-c", PROBE], capture_output=True).returncode == 0 else "no"


__all__ = ["choose_precision"]
