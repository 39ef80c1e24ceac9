# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
The language model's softmax layers: full, sampled and adaptive.

Each computes the summed loss of many predictions, in chunks. The gradients of a chunk are stored, its logits are not:
with 800,000 words, the logits of a batch would need far more memory than everything else.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init

from .configuration_elmo import ElmoConfig
from .products_elmo import at_least_fp32, linear, needs_gradient, round_up_rows, uses_plain_engine, without_autocast

LOGIT_BYTES_PER_CHUNK = 8 * 2**20
MIN_ROWS_PER_CHUNK = 64  # smaller products are slow
IGNORED = -100  # the label that PyTorch's cross-entropy ignores


def chunked_loss(
    formula: Callable[..., torch.Tensor], rows: Sequence[torch.Tensor], shared: Sequence[torch.Tensor], width: int
) -> torch.Tensor:
    """
    `formula(*rows, *shared)`, computed in chunks of rows and summed. The gradients are computed in the forward pass
    (not with the plain engine: autograd then stores the logits of all chunks).

    Args:
        formula: Returns the summed loss of some rows.
        rows: Tensors with one entry per prediction, `(predictions, ...)`. The first is the input of the products.
        shared: Tensors that every prediction needs.
        width: Logits per prediction.
    """
    learns = needs_gradient(*rows, *shared)
    size = _rows_per_chunk(width, rows[0].shape[1] if learns else MIN_ROWS_PER_CHUNK)
    if uses_plain_engine() or not learns:
        chunks = zip(*(tensor.split(size) for tensor in rows), strict=True)
        return sum((formula(*chunk, *shared) for chunk in chunks), shared[0].new_zeros(()))
    return _ChunkedLoss.apply(formula, size, len(rows), *rows, *shared)


def _rows_per_chunk(width: int, least: int) -> int:
    """
    The number of predictions per chunk, `least` or more, of `width` logits each. In training, `least` is the number of
    inputs: with fewer rows, the gradient of the weight, which is added up over the chunks, is larger than the logits.
    """
    return max(LOGIT_BYTES_PER_CHUNK // (4 * width), least)


class _ChunkedLoss(torch.autograd.Function):
    """[`chunked_loss`], with gradients."""

    @staticmethod
    def forward(ctx, formula, size, num_rows, *tensors):
        rows, shared = tensors[:num_rows], tensors[num_rows:]
        wanted = [place for place, tensor in enumerate(tensors) if tensor.requires_grad]
        gradients = [torch.zeros_like(tensors[place]) for place in wanted]
        loss = shared[0].new_zeros((), dtype=torch.promote_types(shared[0].dtype, torch.float32))
        shared = [_leaf(tensor, tensor.requires_grad) for tensor in shared]  # once: autocast keeps a copy of each leaf
        for start in range(0, len(rows[0]), size):
            chunk = [_leaf(tensor[start : start + size], tensor.requires_grad) for tensor in rows]
            leaves = [*chunk, *shared]
            with torch.enable_grad():
                chunk_loss = formula(*leaves)
            loss += chunk_loss.detach()
            with without_autocast(loss.device):  # as in any backward pass
                parts = torch.autograd.grad(chunk_loss, [leaves[place] for place in wanted])
            for place, total, part in zip(wanted, gradients, parts, strict=True):
                if place < num_rows:
                    total[start : start + size] = part
                else:
                    total += part
        ctx.places, ctx.num_tensors = wanted, len(tensors)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_loss):
        gradients: list[torch.Tensor | None] = [None] * ctx.num_tensors
        for place, gradient in zip(ctx.places, ctx.saved_tensors, strict=True):
            gradients[place] = gradient * d_loss
        return None, None, None, *gradients


def _leaf(tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    return tensor.detach().requires_grad_(requires_grad)


def linear_cross_entropy(hidden: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor):
    """The summed loss of a full softmax over `hidden @ weight.T + bias`."""
    return cross_entropy(linear(hidden, weight, bias), labels)


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The summed loss, at least in fp32. `torch.compile` turns it into one pass over the logits, and one backward."""
    return F.cross_entropy(at_least_fp32(logits), labels, reduction="sum")


def linear_log_probs(
    hidden: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Each label's log-probability under a full softmax over `hidden @ weight.T + bias`, `(predictions,)`."""
    size = _rows_per_chunk(len(bias), MIN_ROWS_PER_CHUNK)
    chunks = zip(hidden.split(size), labels.split(size), strict=True)
    return torch.cat(
        [
            -F.cross_entropy(at_least_fp32(linear(some, weight, bias)), wanted, reduction="none")
            for some, wanted in chunks
        ]
    )


class ElmoSoftmax(nn.Module):
    """
    One linear layer over all words, shared by both directions.

    With `config.softmax_type == "sampled"`, the loss in training is over the true word and some drawn words only. In
    evaluation the loss is over all words.

    Attributes:
        sparse_gradient (`bool`): Whether the sampled loss gives `weight` a sparse gradient, with rows only for the
            words that occur. Not every optimiser supports it.
    """

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.sparse_gradient = False
        self.num_samples = config.softmax_samples if config.softmax_type == "sampled" else None
        self.weight = nn.Parameter(torch.empty(config.vocab_size, config.output_size))
        self.bias = nn.Parameter(torch.empty(config.vocab_size))

    def initialize(self):
        """The original's initialisation."""
        init.normal_(self.weight, std=1 / math.sqrt(self.weight.shape[1]))
        init.zeros_(self.bias)

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """
        Args:
            hidden: `(predictions, output_size)`
            labels: `(predictions,)`, word ids.

        Returns:
            The sum of the predictions' losses.
        """
        if self.training and self.num_samples is not None:
            return self.sampled_loss(
                hidden, labels, *log_uniform_sample(self.num_samples, len(self.bias), labels.device)
            )
        return chunked_loss(linear_cross_entropy, (hidden, labels), (self.weight, self.bias), len(self.bias))

    def sampled_loss(
        self, hidden: torch.Tensor, labels: torch.Tensor, samples: torch.Tensor, tries: int
    ) -> torch.Tensor:
        """The loss over the true words and `samples`, which took `tries` draws ([`log_uniform_sample`])."""
        words = torch.cat([samples, labels])
        # One lookup for both, because the gradient of a lookup is as large as the whole table.
        vectors = F.embedding(words, self.weight, sparse=self.sparse_gradient)
        weight, true_weight = vectors.split([len(samples), len(labels)])
        bias = self.bias[words] - log_expected_count(words, tries, len(self.bias))
        bias, true_bias = bias.split([len(samples), len(labels)])
        rows = (hidden, true_weight, true_bias, _columns(labels, samples))
        return chunked_loss(_sampled_cross_entropy, rows, (weight, bias), len(samples))

    def log_probs(self, hidden: torch.Tensor) -> torch.Tensor:
        """`(predictions, output_size)` → the words' log-probabilities, `(predictions, vocab_size)`."""
        return at_least_fp32(linear(hidden, self.weight, self.bias)).log_softmax(dim=-1)

    def label_log_probs(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """
        The log-probability of one word for each prediction. The probabilities of all words are computed in chunks, so
        that memory does not grow with the number of predictions.

        Args:
            hidden: `(predictions, output_size)`
            labels: `(predictions,)`, word ids.

        Returns:
            `(predictions,)`, in fp32 at least.
        """
        return linear_log_probs(hidden, labels, self.weight, self.bias)

    def word_vectors(self) -> torch.Tensor:
        """The vectors of the words that predictions are multiplied with, `(vocab_size, output_size)`."""
        return self.weight


def _columns(labels: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """The index of each label among the (distinct) samples; -1 for a label that was not drawn."""
    ordered, order = samples.sort()
    places = torch.searchsorted(ordered, labels).clamp_(max=len(samples) - 1)
    return torch.where(ordered[places] == labels, order[places], -1)


def _sampled_cross_entropy(hidden, true_weight, true_bias, columns, weight, bias) -> torch.Tensor:
    logits = at_least_fp32(linear(hidden, weight, bias))  # (predictions, samples)
    true_logits = (at_least_fp32(hidden) * at_least_fp32(true_weight)).sum(dim=1) + true_bias
    if not uses_plain_engine():
        return _SampledCrossEntropy.apply(logits, true_logits, columns)
    is_true = columns.unsqueeze(1) == torch.arange(logits.shape[1], device=columns.device)  # drawn by accident
    candidates = torch.cat([true_logits.unsqueeze(1), logits.masked_fill(is_true, -math.inf)], dim=1)
    return (candidates.logsumexp(dim=1) - true_logits).sum()


class _SampledCrossEntropy(torch.autograd.Function):
    """
    The summed loss from the logits of the true words `(predictions,)` and of the samples `(predictions, samples)`. It
    allocates only one matrix of the size of the logits: the gradient is computed from the stored probabilities.
    """

    @staticmethod
    def forward(ctx, logits, true_logits, columns):
        drawn = (columns >= 0).nonzero().squeeze(1)
        largest = torch.maximum(logits.amax(dim=1), true_logits).unsqueeze(1)
        shares = (logits - largest).exp_()
        shares[drawn, columns[drawn]] = 0.0  # the true word, drawn by accident
        true_shares = (true_logits - largest.squeeze(1)).exp()
        totals = shares.sum(dim=1) + true_shares
        ctx.save_for_backward(shares.div_(totals.unsqueeze(1)), true_shares / totals)
        return (totals.log() + largest.squeeze(1) - true_logits).sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_loss):
        probabilities, true_probabilities = ctx.saved_tensors
        return probabilities * d_loss, (true_probabilities - 1) * d_loss, None


def log_uniform_sample(count: int, vocab_size: int, device: torch.device | None = None) -> tuple[torch.Tensor, int]:
    """
    Draws word ids without replacement, frequent (low) ones more often: `P(k) = log((k + 2) / (k + 1)) / log(V + 1)`.

    Returns:
        The distinct ids, `(count,)`, in the order in which they were first drawn, and the number of draws.
    """
    if count >= vocab_size:
        raise ValueError(f"Cannot draw {count} distinct words of {vocab_size}: take fewer, or the full softmax.")
    draws = torch.empty(0, dtype=torch.long, device="cpu")
    while True:
        # In float64, on the CPU: float32 cannot represent every id of a large vocabulary.
        new = torch.rand(2 * count, dtype=torch.float64, device="cpu").mul_(math.log(vocab_size + 1)).exp_().long() - 1
        draws = torch.cat([draws, new.clamp_(0, vocab_size - 1)])
        order = torch.arange(len(draws), device="cpu")
        first = torch.full((vocab_size,), len(draws), device="cpu").scatter_reduce_(0, draws, order, "amin")
        places, words = first.sort()
        if places[count - 1] < len(draws):
            return words[:count].to(device), int(places[count - 1]) + 1


def log_expected_count(words: torch.Tensor, tries: int, vocab_size: int) -> torch.Tensor:
    """The log-probability that a word is among the distinct words of `tries` draws: `1 - (1 - P)^tries`."""
    rank = words.float()
    probability = torch.log1p(1 / (rank + 1)) / math.log(vocab_size + 1)
    return (-torch.expm1(tries * torch.log1p(-probability))).log()


class ElmoSoftmaxTable(nn.Linear):
    """A linear layer whose call returns its tensors. (They may be offloaded until the call.)"""

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The weight `(outputs, inputs)` and the bias `(outputs,)`, `None` if there is none."""
        return self.weight, self.bias


class ElmoAdaptiveSoftmax(nn.Module):
    """
    The adaptive softmax (Grave et al. 2017, https://arxiv.org/abs/1609.04309). The head is a softmax over the frequent
    words and one entry per group of rarer words, and each group has a smaller softmax of its own. It is an exact
    distribution over all words, at a fraction of the cost and the size.
    """

    def __init__(self, config: ElmoConfig):
        super().__init__()
        cutoffs = config.softmax_cutoffs or config.default_softmax_cutoffs  # `softmax_type` may have been set later
        self.bounds = [*cutoffs, config.vocab_size]  # group g holds the words bounds[g] to bounds[g + 1]
        self.head = ElmoSoftmaxTable(config.output_size, cutoffs[0] + len(cutoffs))
        sizes = [
            max(config.output_size // config.softmax_tail_ratio ** (group + 1), 1) for group in range(len(cutoffs))
        ]
        self.tails = nn.ModuleList(
            nn.ModuleList(
                [ElmoSoftmaxTable(config.output_size, size, bias=False), ElmoSoftmaxTable(size, stop - start)]
            )
            for size, start, stop in zip(sizes, self.bounds, self.bounds[1:], strict=False)
        )

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """As [`ElmoSoftmax.forward`]."""
        group_of, head_labels = self._groups(labels)
        loss = self._loss(hidden, head_labels, *self.head())
        for group, (down, weight, bias) in enumerate(self._tails(), start=1):
            members = (group_of == group).nonzero().squeeze(1)
            padding = round_up_rows(len(members), weight.dtype, hidden.device) - len(members)
            rows = F.pad(hidden[members], (0, 0, 0, padding))
            tail_labels = F.pad(labels[members] - self.bounds[group - 1], (0, padding), value=IGNORED)
            loss = loss + self._loss(linear(rows, down), tail_labels, weight, bias)
        return loss

    def _groups(self, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The group of each label (0: frequent words), and the entry of the head that represents the label."""
        group_of = torch.bucketize(labels, torch.tensor(self.bounds[:-1], device=labels.device), right=True)
        return group_of, torch.where(group_of > 0, self.bounds[0] + group_of - 1, labels)

    def _tails(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Of every group: the projection `(size, output_size)`, and the weight and bias of its softmax."""
        for tail in self.tails:
            down, up = cast(nn.ModuleList, tail)
            yield down()[0], *up()

    @staticmethod
    def _loss(hidden: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return chunked_loss(linear_cross_entropy, (hidden, labels), (weight, bias), len(bias))

    def log_probs(self, hidden: torch.Tensor) -> torch.Tensor:
        """As [`ElmoSoftmax.log_probs`]."""
        head = at_least_fp32(linear(hidden, *self.head())).log_softmax(dim=-1)
        first = self.bounds[0]
        parts = [head[:, :first]]
        for group, (down, weight, bias) in enumerate(self._tails()):
            tail = linear(linear(hidden, down), weight, bias)
            parts.append(at_least_fp32(tail).log_softmax(dim=-1) + head[:, first + group, None])
        return torch.cat(parts, dim=-1)

    def label_log_probs(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """As [`ElmoSoftmax.label_log_probs`]."""
        group_of, head_labels = self._groups(labels)
        log_probs = linear_log_probs(hidden, head_labels, *self.head())
        for group, (down, weight, bias) in enumerate(self._tails(), start=1):
            members = (group_of == group).nonzero().squeeze(1)
            rows, tail_labels = linear(hidden[members], down), labels[members] - self.bounds[group - 1]
            log_probs[members] += linear_log_probs(rows, tail_labels, weight, bias)
        return log_probs

    def word_vectors(self) -> torch.Tensor:
        """As [`ElmoSoftmax.word_vectors`]. The vector of a rare word is that within its group, of a lower rank."""
        rare = [linear(weight, down.T) for down, weight, _ in self._tails()]
        return torch.cat([self.head()[0][: self.bounds[0]], *rare])


def build_softmax(config: ElmoConfig) -> ElmoSoftmax | ElmoAdaptiveSoftmax:
    """The softmax that `config.softmax_type` names."""
    return ElmoAdaptiveSoftmax(config) if config.softmax_type == "adaptive" else ElmoSoftmax(config)


@torch.no_grad()
def resize_softmax(
    old: ElmoSoftmax | ElmoAdaptiveSoftmax, config: ElmoConfig, initialize: Callable[[nn.Module], None]
) -> ElmoSoftmax | ElmoAdaptiveSoftmax:
    """
    A softmax with the config's number of words and the weights of the old one. New words get the smallest bias.

    Args:
        old: A softmax with another number of words.
        config: The config of the new softmax; the groups of an adaptive softmax are written to it.
        initialize: Initialises a module's weights.
    """
    if isinstance(old, ElmoAdaptiveSoftmax):
        config.softmax_cutoffs = old.bounds[:-1]
    new = build_softmax(config)
    new.apply(initialize)
    first = next(old.parameters())
    new.to(first.device, first.dtype).train(old.training)
    for (name, kept), parameter in zip(old.named_parameters(), new.parameters(), strict=True):
        rows = min(len(kept), len(parameter))
        parameter[:rows] = kept[:rows]
        if name.endswith("bias"):
            parameter[rows:] = kept.min()
        parameter.requires_grad_(kept.requires_grad)
    return new


__all__ = [
    "ElmoAdaptiveSoftmax",
    "ElmoSoftmax",
    "build_softmax",
    "chunked_loss",
    "cross_entropy",
    "linear_cross_entropy",
    "linear_log_probs",
    "log_expected_count",
    "log_uniform_sample",
    "resize_softmax",
]
