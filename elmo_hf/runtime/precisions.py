"""The precisions in which a model can be loaded. A module of its own, which the command line imports without torch."""

from typing import Literal

Precision = Literal["fp32", "bf16", "int8"]

__all__ = ["Precision"]
