"""
Sparse gradients of the sampled softmax: only for the words of a step, instead of for the whole vocabulary.

Adagrad does not change weights whose gradient is zero, so omitting these rows is exact. With 800,000 words, the table
and its dense gradient would be most of the memory that a step reads and writes.
"""

from collections.abc import Iterable

import torch
from torch import nn

from ..modeling.softmax_elmo import ElmoSoftmax


def use_sparse_gradients(model: nn.Module, enabled: bool = True):
    """Switches sparse gradients on or off. They are exact for Adagrad without weight decay, in one process."""
    if enabled:
        torch.sparse.check_sparse_tensor_invariants.disable()  # the default; set explicitly to avoid a warning
    for module in model.modules():
        if isinstance(module, ElmoSoftmax) and module.num_samples is not None:
            module.sparse_gradient = enabled


def clip_sparse_grad_norm_(parameters: Iterable[nn.Parameter], bound: float) -> torch.Tensor:
    """As `torch.nn.utils.clip_grad_norm_`, but also for sparse gradients. Returns the norm before clipping."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()  # adds up the gradients of a word that occurs several times
                gradients.append(parameter.grad._values())
            else:
                gradients.append(parameter.grad)
    norm = nn.utils.get_total_norm(gradients)
    factor = bound / (norm + 1e-6)
    if factor < 1:
        for gradient in gradients:
            gradient.mul_(factor)
    return norm


__all__ = ["clip_sparse_grad_norm_", "use_sparse_gradients"]
