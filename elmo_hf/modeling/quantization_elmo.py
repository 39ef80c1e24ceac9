# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
8-bit weights for inference on a CPU: integer products, and the quantizer that transformers loads the weights with.

A weight has one scale per output. A row of activations has one scale, computed at run time: no calibration is needed,
and the result of a row does not depend on the other rows. The products are PyTorch's oneDNN operators. torchao only
quantizes `nn.Linear`, and its int8 products, unless compiled, were 15 times (32 rows) to 80 times (1 row) slower.
"""

import functools
import threading
from typing import Any

import torch
from torch import nn
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING, register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from .products_elmo import in_blocks, uses_plain_engine

METHOD = "elmo_int8"
LARGEST = 127  # the largest integer of a weight; they are symmetric around 0
SMALLEST_SCALE = 1e-30  # for weights and rows that are all zeros
NO_TRAINING = (
    "The biLM's weights are int8 and cannot be trained. Call `freeze_bilm()` to train a head on top of it, or load the "
    "weights without `quantization_config`, train them, and quantise the result."
)
NO_OFFLOADING = "int8 weights themselves cannot be offloaded: leave out `offload_buffers`."
NO_OFFLOADED_WEIGHTS = (
    "Weights that `device_map` offloads cannot be turned into int8: load the model without `device_map`, save it with "
    "`save_pretrained`, and load the int8 folder."
)

_packing = threading.Lock()


# ---- products


def has_int8_products(device: torch.device) -> bool:
    """Whether fast integer products are available: oneDNN's on an x86 processor."""
    if uses_plain_engine() or device.type != "cpu" or torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        return False
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.onednn, "qlinear_pointwise")


def integer_product(
    integers: torch.Tensor, levels: int, packed: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor
) -> torch.Tensor:
    """
    oneDNN's product, `(rows, outputs)` in fp32.

    Args:
        integers: `(rows, inputs)`, uint8, whose zero is `levels + 1`. (Signed ones are a hundred times slower.)
        levels: The integer, relative to zero, that represents 1.0.
        packed: The packed weight. The operator reads past the end of a weight that is not packed.
        scales: `(outputs,)`, the weight's scales, fp32.
        zeros: `(outputs,)`, the weight's zero points, int64.
    """
    zero = levels + 1
    return torch.ops.onednn.qlinear_pointwise(
        integers, 1 / levels, zero, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


@functools.cache
def activation_levels() -> int:
    """
    The largest distance of an activation's integer from its zero: 127, or 63 on processors without VNNI. These add two
    products in 16 bits, which overflow if both factors have 8 bits. A trial product tells which it is, since oneDNN can
    also be configured not to use VNNI.
    """
    with torch.device("cpu"):  # the default may be another device
        ones, weight = torch.full((8, 64), 255, dtype=torch.uint8), torch.full((32, 64), LARGEST, dtype=torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(weight, None)
        scales, zeros = torch.full((32,), 1 / LARGEST), torch.zeros(32, dtype=torch.int64)
        product = integer_product(ones, 127, packed, scales, zeros)
    is_exact = torch.allclose(product, torch.full_like(product, 64.0))
    return 127 if is_exact and torch.cpu._is_vnni_supported() else 63


def quantize_rows(rows: torch.Tensor, digits: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Args:
        rows: `(..., rows, inputs)`, fp32.
        digits: 1, or 2 to also return the rounding errors of the first integers as integers.

    Returns:
        uint8 `(..., digits * rows, inputs)`, whose zero is [`activation_levels`] plus one, and the absolute maximum of
        each row, `(..., rows, 1)`, fp32.
    """
    levels = activation_levels()
    maxima = rows.abs().amax(dim=-1, keepdim=True)
    scaled = (rows * (levels / maxima.clamp_min(SMALLEST_SCALE))).add_(levels + 1)
    integers = (scaled + 0.5).to(torch.uint8)  # rounds: all values are positive
    if digits == 2:
        rest = scaled.sub_(integers).mul_(2 * levels).add_(levels + 1.5)
        integers = torch.cat([integers, rest.to(torch.uint8)], dim=-2)
    return integers, maxima


class Int8Matrix:
    """
    An int8 weight in the layout of the processor's integer products, with the interface of [`PackedMatrix`].

    Args:
        weight (`torch.Tensor` of shape `(outputs, inputs)`): int8.
        scales (`torch.Tensor` of shape `(outputs,)`): fp32.
        columns (`torch.Tensor` of shape `(inputs,)`, *optional*): Factors that the activations are multiplied with.
            The activations then have two digits.
    """

    def __init__(self, weight: torch.Tensor, scales: torch.Tensor, columns: torch.Tensor | None = None):
        self.scales, self.columns, self.digits = scales, columns, 1 if columns is None else 2
        self.zeros = torch.zeros_like(scales, dtype=torch.int64)
        self.packed = torch.ops.onednn.qlinear_prepack(weight, None)

    def __call__(self, rows: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`rows @ weight.T + bias`: `(rows, inputs)`, fp32 → `(rows, outputs)`, fp32; the bias is `(outputs,)`."""
        product, maxima = self._product(rows)
        return product.mul_(maxima) if bias is None else torch.addcmul(bias, product, maxima)

    def add(self, rows: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        """`total + rows @ weight.T`, in the memory of `total`."""
        return total.addcmul_(*self._product(rows))

    def _product(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The product of the rows divided by their maxima `(rows, outputs)`, and these maxima `(rows, 1)`."""
        integers, maxima = quantize_rows(rows if self.columns is None else rows * self.columns, self.digits)
        levels = activation_levels()
        product = in_blocks(
            lambda block: integer_product(block, levels, self.packed, self.scales, self.zeros), integers
        )
        if self.digits == 2:
            first, second = product.chunk(2)
            product = first.add_(second, alpha=1 / (2 * levels))
        return product, maxima

    def unpacked(self) -> torch.Tensor:
        """The weight, `(outputs, inputs)`, int8."""
        return self.packed.to_dense().t()


# ---- weights of modules


class ElmoInt8Weight(nn.Module):
    """
    Replaces the float weight of a module, for one or more directions.

    After its first product on a CPU, only the packed layout is in memory. `values` is then a tensor on the meta device,
    and is restored when the module is saved, copied or moved.

    Args:
        weight (`torch.Tensor` of shape `(directions, outputs, inputs)`): Of any float type.
        fine (`bool`): More precise, for inputs of which a few are always large. The scale of each input's weights is
            moved to the activations, which then have 16 bits.

    Attributes:
        values (`torch.Tensor` of shape `(directions, outputs, inputs)`): int8.
        scales (`torch.Tensor` of shape `(directions, outputs)`): fp32.
        columns (`torch.Tensor` of shape `(directions, inputs)`): fp32, only if `fine`. The weight is the product of
            values, scales and columns.
    """

    values: torch.Tensor
    scales: torch.Tensor
    columns: torch.Tensor | None

    def __init__(self, weight: torch.Tensor, fine: bool = False):
        super().__init__()
        weight = weight.detach().float()
        columns = weight.square().mean(dim=1).sqrt().clamp_min(SMALLEST_SCALE) if fine else None
        if columns is not None:
            weight = weight / columns.unsqueeze(1)
        largest = weight.abs().amax(dim=-1, keepdim=True)
        if not largest.is_meta and not largest.isfinite().all():
            raise ValueError("A weight is not finite: it cannot be quantised.")
        scales = (largest / LARGEST).clamp_min(SMALLEST_SCALE)
        self.register_buffer("values", (weight / scales).round_().to(torch.int8).contiguous())
        self.register_buffer("scales", scales.squeeze(-1))
        self.register_buffer("columns", columns)
        self._matrices: list[Int8Matrix] | None = None

    def initialize(self):
        """Refuses to initialise weights that a file lacks."""
        if any(buffer.is_meta for buffer in self.buffers()):
            raise ValueError(NO_OFFLOADING)
        if not all(getattr(buffer, "_is_hf_initialized", False) for buffer in self.buffers()):
            raise ValueError(
                "The config says that the weights are int8, but the file lacks some of them: download or save it again."
            )

    def matrices(self) -> list[Int8Matrix]:
        """The weights for integer products, one per direction."""
        if (matrices := self._matrices) is not None:  # without the lock: another model may be packing its weights
            return matrices
        with _packing:
            if self._matrices is None:
                if self.values.is_meta:
                    raise ValueError(NO_OFFLOADING)
                columns = [None] * len(self.values) if self.columns is None else self.columns
                self._matrices = [Int8Matrix(*part) for part in zip(self.values, self.scales, columns, strict=True)]
                self.values = torch.empty_like(self.values, device="meta")
            return self._matrices

    def dequantize(self) -> torch.Tensor:
        """The weight as floats, `(directions, outputs, inputs)`, fp32."""
        weight = self._unpacked() * self.scales.unsqueeze(-1)
        return weight if self.columns is None else weight * self.columns.unsqueeze(1)

    def _unpacked(self) -> torch.Tensor:
        if self._matrices is None:
            return self.values
        return torch.stack([matrix.unpacked() for matrix in self._matrices])

    def _unpack(self):
        with _packing:
            self.values, self._matrices = self._unpacked(), None

    def _apply(self, fn, recurse=True):
        self._unpack()
        scales, columns = self.scales, self.columns
        super()._apply(fn, recurse)
        if self.scales.dtype != torch.float32:  # scales stay in fp32 in a model of lower precision
            device = self.scales.device
            self.scales, self.columns = scales.to(device), None if columns is None else columns.to(device)
        return self

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        with _packing:
            destination[f"{prefix}values"] = self._unpacked()

    def _load_from_state_dict(self, *args):
        self._unpack()
        super()._load_from_state_dict(*args)

    def __getstate__(self) -> dict[str, Any]:
        self._unpack()
        return self.__dict__.copy()

    def check(self, name: str):
        """Refuses buffers from a file that have the wrong type or are not finite."""
        for part, buffer in self.named_buffers():
            dtype = torch.int8 if part == "values" else torch.float32
            if buffer.dtype != dtype or not (buffer.is_meta or buffer.isfinite().all()):
                raise ValueError(f"{name}.{part} should be finite and of type {dtype}, found {buffer.dtype}.")


def quantize_weight(module: nn.Module, name: str, weight: torch.Tensor, fine: bool = False):
    """Replaces a parameter by its int8 weight; `weight` is the parameter as `(directions, outputs, inputs)`."""
    quantized = ElmoInt8Weight(weight, fine)
    delattr(module, name)
    setattr(module, name, quantized)


# ---- transformers' interface


class ElmoInt8Config(QuantizationConfigMixin):
    """
    Asks for 8-bit weights: `from_pretrained(folder, quantization_config=ElmoInt8Config())`. It has no options.
    """

    def __init__(self, quant_method: str = METHOD, **kwargs):
        if quant_method != METHOD or kwargs:
            raise ValueError(f"ELMo's int8 has no options, found { ({'quant_method': quant_method} | kwargs)!r:.200}.")
        self.quant_method = METHOD  # ty: ignore[invalid-assignment]


class ElmoInt8Quantizer(HfQuantizer):
    """
    Turns ELMo's weights into int8 after they are loaded, or prepares the model for int8 weights in a file.

    It calls methods of the model rather than testing its class: the model and this class may each come from the
    package or from a repository.
    """

    def _process_model_before_weight_loading(self, model, **kwargs):
        if self.pre_quantized:
            model._quantize_modules()

    def _process_model_after_weight_loading(self, model, **kwargs):
        if self.pre_quantized:
            model._check_quantized()
            return
        if any(parameter.is_meta for parameter in model.parameters()):
            raise ValueError(NO_OFFLOADED_WEIGHTS)
        model._quantize_modules()

    def get_new_dtype(self, converter, param, dtype: torch.dtype | None) -> torch.dtype | None:
        """Loads int8 tensors without a conversion. Wrong types are refused after loading."""
        return None if dtype == torch.int8 else super().get_new_dtype(converter, param, dtype)

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        """Whether the Trainer may train the model: a head on top of int8 weights can be trained."""
        return True

    @property
    def is_qat_trainable(self) -> bool:
        """Without this the Trainer would ask for adapters, even if only the head is trained."""
        return True


if METHOD not in AUTO_QUANTIZER_MAPPING:  # another copy of this file may be imported already
    register_quantization_config(METHOD)(ElmoInt8Config)
    register_quantizer(METHOD)(ElmoInt8Quantizer)


__all__ = ["ElmoInt8Config", "ElmoInt8Quantizer", "ElmoInt8Weight", "Int8Matrix", "has_int8_products", "quantize_rows"]
