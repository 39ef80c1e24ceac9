# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
The layers that a head puts on top of ELMo: a BiLSTM, attention within a sentence or between two, and a CRF.

All of them take sentences `(sentences, words, size)` and a mask `(sentences, words)` that is true for the words, which
are the first positions of each row.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init

from .products_elmo import at_least_fp32, autocast_dtype, linear, matmul, product_dtype, without_autocast

# The score of impossible labels and transitions: finite, so that sums and gradients stay finite.
NEVER = -1e30
TAG = re.compile(r"([BIESLU])-(.+)")
Scores = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # of a label at the first word, of transitions, at the last
INSIDE, OPEN, ENDING = {"I", "E", "L"}, {"B", "I"}, {"E", "S", "L", "U"}


class ElmoTaskLinear(nn.Linear):
    """A linear layer whose product runs in the precision of [`product_dtype`]."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(…, in_features)` → `(…, out_features)`"""
        return linear(input, self.weight, self.bias)


class ElmoTaskLSTMLayer(nn.LSTM):
    """
    One LSTM layer in one direction, from a state of zeros, whose products run in the precision of [`product_dtype`].

    It reads its parameters in `forward`: the list that [`nn.LSTM`] makes of them in advance does not follow weights
    that are offloaded and loaded again for each call.
    """

    def __init__(self, input_size: int, size: int):
        super().__init__(input_size, size, batch_first=True)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, size)`"""
        weights: list[Any] = [self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0]
        if autocast_dtype(inputs.device) is None:
            dtype = product_dtype(weights[0].dtype, inputs.device)
            inputs, weights = inputs.to(dtype), [weight.to(dtype) for weight in weights]
            with without_autocast(inputs.device):
                return self._run(inputs, weights)
        return self._run(inputs, weights)

    def _run(self, inputs: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        state = inputs.new_zeros(1, len(inputs), self.hidden_size)
        has_biases, num_layers, dropout, bidirectional, batch_first = True, 1, 0.0, False, True
        return torch.lstm(
            inputs, (state, state), weights, has_biases, num_layers, dropout, self.training, bidirectional, batch_first
        )[0]


class ElmoTaskLSTM(nn.Module):
    """
    A bidirectional LSTM over sentences of different lengths.

    Each direction is a layer of its own, and the backward one reads each sentence reversed. Padding then comes last in
    both directions and changes nothing, and torch runs its fused kernels for full batches instead of the loop over
    packed sequences.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of each direction's output.
        num_layers (`int`): Stacked layers.
        dropout (`float`): Dropout between the layers, in training only.
    """

    def __init__(self, input_size: int, size: int, num_layers: int = 1, dropout: float = 0.0):
        super().__init__()
        sizes = [input_size] + [2 * size] * (num_layers - 1)
        self.size, self.output_size = size, 2 * size
        self.forward_layers = nn.ModuleList(ElmoTaskLSTMLayer(layer_input, size) for layer_input in sizes)
        self.backward_layers = nn.ModuleList(ElmoTaskLSTMLayer(layer_input, size) for layer_input in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, 2 * size)`, zero where masked."""
        if not words.numel():
            return words.new_zeros(*mask.shape, 2 * self.size)
        order = _reversed_order(mask)
        for index, (forward, backward) in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            if index:
                words = self.dropout(words)
            reversed_output = backward(_reorder(words, order))  # (sentences, words, size)
            words = torch.cat(
                [forward(words), _reorder(reversed_output, order)], dim=-1
            )  # (sentences, words, 2 * size)
        return words.masked_fill(~mask.unsqueeze(-1), 0)


class ElmoHighwayLSTMLayer(nn.Module):
    """
    One LSTM layer in one direction with highway connections (Zhang et al. 2016; He et al. 2017): a gate chooses between
    the output of the cell and a projection of the input, before the output goes to the next word.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of the output.
        dropout (`float`): Dropout on the state that goes from word to word, in training only. One mask per sentence
            (Gal & Ghahramani 2016).
    """

    def __init__(self, input_size: int, size: int, dropout: float = 0.0):
        super().__init__()
        self.size, self.dropout = size, nn.Dropout(dropout)
        # Rows: input gate, forget gate, cell, output gate, highway gate; for the input also the projection.
        self.input_weight = nn.Parameter(torch.empty(6 * size, input_size))
        self.recurrent_weight = nn.Parameter(torch.empty(5 * size, size))
        self.bias = nn.Parameter(torch.empty(5 * size))

    @torch.no_grad()
    def initialize(self):
        """Orthogonal weights per gate, zero biases except 1 for the forget gate."""
        for weight in (self.input_weight, self.recurrent_weight):
            for gate in weight.split(self.size):
                init.orthogonal_(gate)
        init.zeros_(self.bias)
        init.ones_(self.bias[self.size : 2 * self.size])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, size)`"""
        projected = linear(inputs, self.input_weight)  # (sentences, words, 6 * size)
        gates_of_inputs, carried = projected.split([5 * self.size, self.size], dim=-1)
        gates_of_inputs = gates_of_inputs + self.bias
        state = cell = projected.new_zeros(len(inputs), self.size)
        dropout_mask = self.dropout(torch.ones_like(state))  # the same at every step
        outputs = []
        for step in range(inputs.shape[1]):
            # (sentences, 5 * size)
            gates = gates_of_inputs[:, step] + linear(state * dropout_mask, self.recurrent_weight)
            input_gate, forget_gate, candidate, output_gate, highway_gate = gates.chunk(5, dim=-1)
            cell = input_gate.sigmoid() * candidate.tanh() + forget_gate.sigmoid() * cell
            highway_gate = highway_gate.sigmoid()
            state = highway_gate * output_gate.sigmoid() * cell.tanh() + (1 - highway_gate) * carried[:, step]
            outputs.append(state)
        return torch.stack(outputs, dim=1)


class ElmoAlternatingLSTM(nn.Module):
    """
    A deep LSTM over sentences of different lengths whose layers alternate between forward and backward, with highway
    connections (He et al. 2017).

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of each layer's output.
        num_layers (`int`): Stacked layers; the first reads forward.
        dropout (`float`): Dropout on the recurrent state of each layer, in training only.
    """

    def __init__(self, input_size: int, size: int, num_layers: int = 1, dropout: float = 0.0):
        super().__init__()
        self.output_size = size
        sizes = [input_size] + [size] * (num_layers - 1)
        self.layers = nn.ModuleList(ElmoHighwayLSTMLayer(layer_input, size, dropout) for layer_input in sizes)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, size)`, zero where masked."""
        if not words.numel():
            return words.new_zeros(*mask.shape, self.output_size)
        order = _reversed_order(mask)
        for index, layer in enumerate(self.layers):
            words = _reorder(layer(_reorder(words, order)), order) if index % 2 else layer(words)
        return words.masked_fill(~mask.unsqueeze(-1), 0)


def _reversed_order(mask: torch.Tensor) -> torch.Tensor:
    """The places `(sentences, words)` that reverse the words of each sentence and leave the padding where it is."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(dim=1, keepdim=True) - 1 - places, places)


def _reorder(words: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """`(sentences, words, size)` with the words of each sentence in the `order` `(sentences, words)`."""
    return words.gather(1, order.unsqueeze(-1).expand(-1, -1, words.shape[-1]))


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The softmax over the last axis where the mask is true; zeros where it is false."""
    precise = at_least_fp32(scores)
    probabilities = precise.masked_fill(~mask, torch.finfo(precise.dtype).min).softmax(dim=-1)
    return (probabilities * mask).to(scores.dtype)


def attend(words: torch.Tensor, others: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """
    Dot-product attention without scaling.

    Args:
        words: `(sentences, words, size)`, the queries.
        others: `(sentences, others, size)`, keys and values.
        mask: `(sentences, others)`; the output is zero for sentences where it is false everywhere.

    Returns:
        `(sentences, words, size)`
    """
    weights = masked_softmax(matmul(words, others.mT), mask.unsqueeze(1))  # (sentences, words, others)
    return matmul(weights, others)


class ElmoMaxoutClassifier(nn.Module):
    """
    Three maxout layers (Goodfellow et al. 2013), as at the end of the biattentive network of McCann et al. (2017): each
    value is the maximum of several linear functions. There is no batch normalisation.

    Args:
        input_size (`int`): The size of a text's vector. The hidden layers have a half and a quarter of it.
        num_labels (`int`): The number of labels.
        dropout (`float`): Dropout before the second and the third layer, in training only.
    """

    num_pieces = 4  # linear functions per value

    def __init__(self, input_size: int, num_labels: int, dropout: float = 0.0):
        super().__init__()
        sizes = [input_size, max(input_size // 2, 1), max(input_size // 4, 1), num_labels]
        self.layers = nn.ModuleList(ElmoTaskLinear(before, size * self.num_pieces) for before, size in pairwise(sizes))
        self.dropout = nn.Dropout(dropout)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        """`(texts, input_size)` → `(texts, num_labels)`"""
        for index, layer in enumerate(self.layers):
            if index:
                texts = self.dropout(texts)
            texts = layer(texts).unflatten(-1, (-1, self.num_pieces)).amax(dim=-1)
        return texts


class ElmoBiattention(nn.Module):
    """
    The self-attention of the paper's sentiment model, the biattentive network of McCann et al. (2017), after its
    encoder: a BiLSTM reads each word and what it attends to.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of each direction's output.
    """

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.integrate = ElmoTaskLSTM(3 * input_size, size)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(sentences, words, input_size)` → `(sentences, words, 2 * size)`"""
        attended = attend(words, words, mask)
        return self.integrate(torch.cat([words, words - attended, words * attended], dim=-1), mask)


class ElmoTextDropout(nn.Dropout):
    """
    Dropout that drops the same dimensions in all words of a text, in training only (Gal & Ghahramani 2016). A word that
    occurs twice stays the same, and few random numbers are drawn.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(texts, words, size)` → the same shape"""
        if not self.training:
            return input
        return input * functional.dropout(input.new_ones(len(input), 1, input.shape[-1]), self.p)


class ElmoPairDropout(nn.Dropout):
    """
    Dropout that drops the same dimensions in all words of both texts of a pair, in training only. A word that occurs in
    both texts then stays the same in both, and attention between them can find it.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(2 * pairs, words, size)` → the same shape; the two texts of a pair are adjacent."""
        if not self.training:
            return input
        pairs = input.reshape(len(input) // 2, 2 * input.shape[1], input.shape[2])  # (pairs, 2 * words, size)
        return functional.dropout1d(pairs.mT, self.p).mT.reshape(input.shape)


class ElmoCrossAttention(nn.Module):
    """
    The attention between two sentences of ESIM (Chen et al. 2017): a BiLSTM reads each word and what it attends to in
    the other sentence.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of each direction's output.
    """

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.project = ElmoTaskLinear(4 * input_size, size)
        self.compose = ElmoTaskLSTM(size, size)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(2 * pairs, words, input_size)`, the two sentences of a pair adjacent → `(2 * pairs, words, 2 * size)`"""
        attended = attend(words, _swap_pairs(words), _swap_pairs(mask))
        enhanced = torch.cat([words, attended, words - attended, words * attended], dim=-1)
        return self.compose(torch.relu(self.project(enhanced)), mask)


def _swap_pairs(sentences: torch.Tensor) -> torch.Tensor:
    """`(2 * pairs, …)` with the two sentences of each pair swapped."""
    return sentences.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


def allowed_transitions(labels: Sequence[str]) -> tuple[list[bool], list[list[bool]], list[bool]] | None:
    """
    Which labels may come first, follow each other and come last in the labels' scheme: BIO, or BIOES (also as BILOU).

    Returns:
        `first[label]`, `transitions[before][after]`, `last[label]`; `None` if the labels are of neither scheme.
    """
    parsed = [TAG.fullmatch(label) for label in labels if label != "O"]
    if not parsed or None in parsed:
        return None
    tags = [("O", "") if label == "O" else (label[0], label[2:]) for label in labels]
    has_end_tags = any(tag[0] in ENDING for tag in tags)
    kinds_with_begin = {kind for tag, kind in tags if tag == "B"}

    def may_follow(before: tuple[str, str], after: tuple[str, str]) -> bool:
        continues = before[0] in OPEN and after[0] in INSIDE and before[1] == after[1]
        must_continue = has_end_tags and before[0] in OPEN
        may_begin = after[0] not in INSIDE or after[1] not in kinds_with_begin  # a kind without B- begins with I-
        return continues or (may_begin and not must_continue)

    outside = ("O", "")
    return (
        [may_follow(outside, tag) for tag in tags],
        [[may_follow(before, after) for after in tags] for before in tags],
        [may_follow(tag, outside) for tag in tags],
    )


class ElmoCRF(nn.Module):
    """
    A linear-chain CRF (Lafferty et al. 2001) that decodes only sequences that are valid in BIO or BIOES. The score of a
    label sequence is the sum of the labels' emissions and of a score per transition.

    In training every sequence is possible, so that data with an invalid tag has a finite loss. Marginals and the best
    sequence obey the labels' scheme.

    A sentence has at least one word.

    Args:
        labels (`Sequence[str]`): By id.
    """

    def __init__(self, labels: Sequence[str]):
        super().__init__()
        self.allowed = allowed_transitions(labels)
        self.moves = nn.Parameter(torch.zeros(len(labels), len(labels)))  # (before, after)
        self.first = nn.Parameter(torch.zeros(len(labels)))
        self.last = nn.Parameter(torch.zeros(len(labels)))

    def forward(self, emissions: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        """
        The log-likelihood of `labels`, or without labels the log-marginals and the best labels. (Models call this
        rather than the methods, so that hooks which load offloaded weights run.)
        """
        if labels is not None:
            return self.log_likelihood(emissions, labels, mask)
        return self.log_marginals(emissions, mask), self.best_labels(emissions, mask)

    def log_likelihood(self, emissions: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        The log-probability of each sentence's labels.

        Args:
            emissions: `(sentences, words, labels)`
            labels: `(sentences, words)`; -100 where the label is unknown, which sums over all labels.

        Returns:
            `(sentences,)`
        """
        emissions, scores = at_least_fp32(emissions), self._scores(constrained=False)
        label_ids = torch.arange(emissions.shape[-1], device=labels.device)
        is_wrong = (labels != -100).unsqueeze(-1) & (labels.unsqueeze(-1) != label_ids)  # (sentences, words, labels)
        # The sequences with the given labels and all sequences, in one pass.
        both = torch.cat([emissions.masked_fill(is_wrong, NEVER), emissions])  # (2 * sentences, words, labels)
        masks = torch.cat([mask, mask])
        labelled, total = self._log_sum(self._forward_scores(both, masks, scores)[-1], scores).chunk(2)
        return labelled - total

    def log_marginals(self, emissions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The log-probability of each label at each word, `(sentences, words, labels)`."""
        emissions, scores = at_least_fp32(emissions), self._scores(constrained=True)
        alphas = self._forward_scores(emissions, mask, scores)
        transitions, last = scores[1], scores[2]
        beta = last.expand_as(emissions[:, 0])  # (sentences, labels)
        betas = [beta]
        for step in range(emissions.shape[1] - 1, 0, -1):
            longer = (transitions + (emissions[:, step] + beta).unsqueeze(1)).logsumexp(dim=2)
            beta = torch.where(mask[:, step].unsqueeze(1), longer, last)
            betas.append(beta)
        total = self._log_sum(alphas[-1], scores)[:, None, None]
        # Masked positions repeat the values of the last word; the caller masks them.
        return torch.stack(alphas, dim=1) + torch.stack(betas[::-1], dim=1) - total

    def best_labels(self, emissions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The labels of the most probable sequence, `(sentences, words)`; 0 where masked."""
        return _viterbi(at_least_fp32(emissions), mask, self._scores(constrained=True))

    def _scores(self, constrained: bool) -> Scores:
        """`first`, `moves` and `last`; if constrained, `NEVER` for what the scheme forbids."""
        scores = at_least_fp32(self.first), at_least_fp32(self.moves), at_least_fp32(self.last)
        return _constrain(scores, self.allowed) if constrained else scores

    @staticmethod
    def _forward_scores(emissions: torch.Tensor, mask: torch.Tensor, scores) -> list[torch.Tensor]:
        """
        The alphas of the forward algorithm: per word, `(sentences, labels)`, the log-sum of the scores of all sequences
        that end with the label.
        """
        first, transitions, _ = scores
        alphas = [first + emissions[:, 0]]
        for step in range(1, emissions.shape[1]):
            longer = (alphas[-1].unsqueeze(2) + transitions).logsumexp(dim=1) + emissions[:, step]
            alphas.append(torch.where(mask[:, step].unsqueeze(1), longer, alphas[-1]))
        return alphas

    @staticmethod
    def _log_sum(alpha: torch.Tensor, scores) -> torch.Tensor:
        """The log-sum of the scores of whole sequences `(sentences,)`, from the alphas of their last words."""
        return (alpha + scores[2]).logsumexp(dim=1)


def best_valid_labels(emissions: torch.Tensor, mask: torch.Tensor, labels: Sequence[str]) -> torch.Tensor:
    """
    The most probable sequence of labels that is valid in the labels' scheme, if the labels are independent otherwise.

    Args:
        emissions: `(sentences, words, labels)`, log-probabilities of the labels up to a constant per word.
        mask: `(sentences, words)`, true for the first words of each row.
        labels: The names of the labels, by id.

    Returns:
        `(sentences, words)`; 0 where masked.
    """
    emissions, size = at_least_fp32(emissions), len(labels)
    zeros = emissions.new_zeros(size), emissions.new_zeros(size, size), emissions.new_zeros(size)
    return _viterbi(emissions, mask, _constrain(zeros, allowed_transitions(labels)))


def _constrain(scores: Scores, allowed: tuple[list[bool], list[list[bool]], list[bool]] | None) -> Scores:
    """`NEVER` for what the scheme forbids."""
    if allowed is None:
        return scores
    return tuple(  # ty: ignore[invalid-return-type]
        score.masked_fill(~torch.tensor(may_be, device=score.device), NEVER)
        for score, may_be in zip(scores, allowed, strict=True)
    )


def _viterbi(emissions: torch.Tensor, mask: torch.Tensor, scores: Scores) -> torch.Tensor:
    """The labels of the sequence with the highest score, `(sentences, words)`; 0 where masked."""
    first, transitions, last = scores
    score, backpointers = first + emissions[:, 0], []  # (sentences, labels)
    same = torch.arange(len(first), device=emissions.device).expand_as(score)
    for step in range(1, emissions.shape[1]):
        best, previous = (score.unsqueeze(2) + transitions).max(dim=1)
        is_word = mask[:, step].unsqueeze(1)
        score = torch.where(is_word, best + emissions[:, step], score)
        backpointers.append(torch.where(is_word, previous, same))
    label = (score + last).argmax(dim=1, keepdim=True)  # (sentences, 1)
    labels = [label]
    for previous in reversed(backpointers):
        label = previous.gather(1, label)
        labels.append(label)
    return torch.cat(labels[::-1], dim=1) * mask


__all__ = [
    "ElmoAlternatingLSTM",
    "ElmoBiattention",
    "ElmoCRF",
    "ElmoCrossAttention",
    "ElmoHighwayLSTMLayer",
    "ElmoMaxoutClassifier",
    "ElmoPairDropout",
    "ElmoTaskLSTM",
    "ElmoTaskLSTMLayer",
    "ElmoTaskLinear",
    "ElmoTextDropout",
    "allowed_transitions",
    "attend",
    "best_valid_labels",
    "masked_softmax",
]
