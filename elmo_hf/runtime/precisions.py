"""
The precisions in which a model can be loaded. They are in a module of their own so that the command line can import
them without torch.
"""

from typing import Literal

Precision = Literal["fp32", "bf16", "int8"]

__all__ = ["Precision"]
