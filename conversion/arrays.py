"""Copies foreign arrays into a model. All names, shapes and values are checked; each array must be used."""

from collections.abc import Mapping
from typing import Any

import torch

from elmo_hf.errors import ConversionError
from elmo_hf.modeling.modeling_elmo import ElmoModel

# Name of a foreign array → the parameters that it holds, as views in its layout, stacked along the first dimension.
Views = Mapping[str, list[torch.Tensor]]


def check_float(model: ElmoModel):
    """Refuses a model in int8, which other formats cannot store."""
    if model.layers[0].is_quantized:
        raise ConversionError("This model's weights are int8: convert those that it was made from.")


def count_values(views: Views) -> int:
    """The number of values in the arrays."""
    return sum(view.numel() for parts in views.values() for view in parts)


def check_arrays(expected: Views, arrays: Mapping[str, Any], source):
    """
    Refuses arrays whose names or shapes differ from those of the model.

    Args:
        expected: The views on the model, whatever their device.
        arrays: The arrays by name: anything with a shape.
        source: Where they were found, for the message.
    """
    if missing := sorted(expected.keys() - arrays.keys()):
        raise ConversionError(f"{source} lacks {', '.join(missing)}, which a biLM of these sizes has.")
    if unexpected := sorted(arrays.keys() - expected.keys()):
        raise ConversionError(f"{source} holds {', '.join(unexpected)}, which a biLM of these sizes does not have.")
    for name, views in expected.items():
        shape = (sum(len(view) for view in views), *views[0].shape[1:])
        if arrays[name].shape != shape:
            raise ConversionError(f"{source}: {name} should have shape {shape}, found {_shape(arrays[name])}.")


def _shape(array) -> tuple[int, ...] | None:
    return None if array.shape is None else tuple(array.shape)  # HDF5 has arrays without one


def fill_views(views: Views, arrays: Mapping[str, torch.Tensor], source):
    """Copies checked arrays into the views. Refuses values that are not finite in fp32."""
    check_arrays(views, arrays, source)
    for name, parts in views.items():
        values = arrays[name]
        if not values.is_floating_point() or values.layout != torch.strided:
            raise ConversionError(f"{source}: {name} should hold plain floats, found {values.dtype}, {values.layout}.")
        values = values.detach().float()
        if not values.isfinite().all():
            raise ConversionError(f"{source}: {name} should hold finite numbers, found some that are not.")
        for part, value in zip(parts, values.split([len(part) for part in parts]), strict=True):
            part.copy_(value)


__all__ = ["Views", "check_arrays", "check_float", "count_values", "fill_views"]
