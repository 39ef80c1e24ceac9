# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""What the tensors that a model is given must keep to. An error names the argument."""

import torch


def check_shape(name: str, tensor: torch.Tensor, expected: tuple[int | str, ...]):
    """Refuses a tensor whose shape differs; names in `expected` stand for any size."""
    fits = tensor.ndim == len(expected) and all(
        isinstance(want, str) or want == size for want, size in zip(expected, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(map(str, expected))
        raise ValueError(f"`{name}` must have shape ({wanted}), found {tuple(tensor.shape)}.")


def check_integers(name: str, ids: torch.Tensor):
    """Refuses real and complex numbers."""
    if ids.is_floating_point() or ids.is_complex():
        raise ValueError(f"`{name}` must be integers, found {ids.dtype}.")


def check_range(name: str, ids: torch.Tensor, size: int):
    """Refuses ids that are no integers, or that a table of this size does not have."""
    check_integers(name, ids)
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < size:
        raise ValueError(
            f"`{name}` must be between 0 and {size - 1} for this model, found {int(ids.min())} to {int(ids.max())}."
        )


def check_labels(labels: torch.Tensor, num_labels: int):
    """Refuses labels that there are not, but for -100."""
    if bool((((labels < 0) & (labels != -100)) | (labels >= num_labels)).any()):
        raise ValueError(f"`labels` must be between 0 and {num_labels - 1}, or -100.")


__all__ = ["check_integers", "check_labels", "check_range", "check_shape"]
