"""
Gradients of the sampled softmax for the words that a step has met, instead of for all words.

Adagrad changes nothing where the gradient is zero, so leaving those rows out is exact. With 800,000 words the table and
its gradient are most of the memory that a step would go through otherwise.
"""

from collections.abc import Iterable

import torch
from torch import nn

from ..modeling.softmax_elmo import ElmoSoftmax


def sampled_tables(model: nn.Module) -> list[ElmoSoftmax]:
    """The model's sampled softmaxes: one, or none."""
    found = [module for module in model.modules() if isinstance(module, ElmoSoftmax)]
    return [softmax for softmax in found if softmax.num_samples is not None]


def use_sparse_gradients(model: nn.Module, enabled: bool = True):
    """For training with Adagrad in one process, without weight decay; or not."""
    if enabled:
        torch.sparse.check_sparse_tensor_invariants.disable()  # the default, but unsaid it makes the optimiser warn
    for softmax in sampled_tables(model):
        softmax.sparse_gradient = enabled


def clip_sparse_grad_norm_(parameters: Iterable[nn.Parameter], bound: float) -> torch.Tensor:
    """As `torch.nn.utils.clip_grad_norm_`, which does not know sparse gradients; the norm before."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()  # a word's gradients, which may be several, are added up
                gradients.append(parameter.grad._values())
            else:
                gradients.append(parameter.grad)
    norm = nn.utils.get_total_norm(gradients)
    factor = bound / (norm + 1e-6)
    if factor < 1:
        for gradient in gradients:
            gradient.mul_(factor)
    return norm


__all__ = ["clip_sparse_grad_norm_", "sampled_tables", "use_sparse_gradients"]
