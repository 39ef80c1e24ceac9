# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""A linear-chain CRF over labels (Lafferty et al. 2001) that decodes only sequences that are valid in BIO or BIOES."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

# The score of impossible labels and transitions: finite, so that sums and gradients stay finite.
NEVER = -1e30
TAG = re.compile(r"([BIESLU])-(.+)")
Scores = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # of a label at the first word, of transitions, at the last
INSIDE, OPEN, ENDING = {"I", "E", "L"}, {"B", "I"}, {"E", "S", "L", "U"}


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
    has_begin_tag = {kind for tag, kind in tags if tag == "B"}

    def may_follow(before: tuple[str, str], after: tuple[str, str]) -> bool:
        continues = before[0] in OPEN and after[0] in INSIDE and before[1] == after[1]
        must_continue = has_end_tags and before[0] in OPEN
        may_begin = after[0] not in INSIDE or after[1] not in has_begin_tag  # a kind without B- begins with I-
        return continues or (may_begin and not must_continue)

    outside = ("O", "")
    return (
        [may_follow(outside, tag) for tag in tags],
        [[may_follow(before, after) for after in tags] for before in tags],
        [may_follow(tag, outside) for tag in tags],
    )


class ElmoCRF(nn.Module):
    """
    Scores of label sequences: the sum of the labels' emissions and of a score per transition.

    In training every sequence is possible, so that data with an invalid tag has a finite loss. Marginals and the best
    sequence obey the labels' scheme.

    All methods take left-aligned sentences: `mask` is `(sentences, words)`, true for the first words of each row. A
    sentence has at least one word.

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
        emissions, scores = _at_least_fp32(emissions), self._scores(constrained=False)
        label_ids = torch.arange(emissions.shape[-1], device=labels.device)
        is_wrong = (labels != -100).unsqueeze(-1) & (labels.unsqueeze(-1) != label_ids)  # (sentences, words, labels)
        # The sequences with the given labels and all sequences, in one pass.
        both = torch.cat([emissions.masked_fill(is_wrong, NEVER), emissions])  # (2 * sentences, words, labels)
        masks = torch.cat([mask, mask])
        labelled, total = self._log_sum(self._forward_scores(both, masks, scores)[-1], scores).chunk(2)
        return labelled - total

    def log_marginals(self, emissions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The log-probability of each label at each word, `(sentences, words, labels)`."""
        emissions, scores = _at_least_fp32(emissions), self._scores(constrained=True)
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
        return _viterbi(_at_least_fp32(emissions), mask, self._scores(constrained=True))

    def _scores(self, constrained: bool) -> Scores:
        """`first`, `moves` and `last`; if constrained, `NEVER` for what the scheme forbids."""
        scores = _at_least_fp32(self.first), _at_least_fp32(self.moves), _at_least_fp32(self.last)
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
    emissions, size = _at_least_fp32(emissions), len(labels)
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


def _at_least_fp32(scores: torch.Tensor) -> torch.Tensor:
    return scores if scores.dtype == torch.float64 else scores.float()


__all__ = ["ElmoCRF", "allowed_transitions", "best_valid_labels"]
