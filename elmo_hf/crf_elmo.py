# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""A linear-chain CRF over labels (Lafferty et al. 2001), whose answers keep to the moves that BIO and BIOES allow."""

import re
from collections.abc import Sequence

import torch
from torch import nn

# A finite number for "never": sums of it stay finite, and so do gradients.
NEVER = -1e30
TAG = re.compile(r"([BIESLU])-(.+)")
INSIDE, OPEN, ENDING = {"I", "E", "L"}, {"B", "I"}, {"E", "S", "L", "U"}


def allowed_moves(labels: Sequence[str]) -> tuple[list[bool], list[list[bool]], list[bool]] | None:
    """
    Which labels may come first, follow each other and come last, by the scheme that the labels are of: BIO, or BIOES
    (also as BILOU). `None` where they are of neither.

    Returns:
        `first[label]`, `moves[before][after]`, `last[label]`.
    """
    parsed = [TAG.fullmatch(label) for label in labels if label != "O"]
    if not parsed or None in parsed:
        return None
    tags = [("O", "") if label == "O" else (label[0], label[2:]) for label in labels]
    has_ends = any(tag[0] in ENDING for tag in tags)
    with_beginning = {kind for tag, kind in tags if tag == "B"}

    def may_follow(before: tuple[str, str], after: tuple[str, str]) -> bool:
        continues = before[0] in OPEN and after[0] in INSIDE and before[1] == after[1]
        must_continue = has_ends and before[0] in OPEN
        may_begin = after[0] not in INSIDE or after[1] not in with_beginning  # where all is I-, so is the beginning
        return continues or (may_begin and not must_continue)

    outside = ("O", "")
    return (
        [may_follow(outside, tag) for tag in tags],
        [[may_follow(before, after) for after in tags] for before in tags],
        [may_follow(tag, outside) for tag in tags],
    )


class ElmoCRF(nn.Module):
    """
    Scores of label sequences: each label's own score, plus one for every move from a label to the next.

    In training every sequence is possible, so that data with a wrong tag still has a loss. Marginals and the best
    sequence keep to the moves that the labels' scheme allows.

    Everything takes left-aligned sentences: `mask` is `(sentences, words)`, true for the first words of each row. A
    sentence has at least one word.

    Args:
        labels (`Sequence[str]`): By id.
    """

    def __init__(self, labels: Sequence[str]):
        super().__init__()
        self.allowed = allowed_moves(labels)
        self.moves = nn.Parameter(torch.zeros(len(labels), len(labels)))  # (before, after)
        self.first = nn.Parameter(torch.zeros(len(labels)))
        self.last = nn.Parameter(torch.zeros(len(labels)))

    def log_likelihood(self, emissions: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        The logarithm of each sentence's probability.

        Args:
            emissions: `(sentences, words, labels)`
            labels: `(sentences, words)`; -100 where the label is not known: any will do.

        Returns:
            `(sentences,)`
        """
        emissions, scores = _precise(emissions), self._scores(constrained=False)
        kinds = torch.arange(emissions.shape[-1], device=labels.device)
        is_wrong = (labels != -100).unsqueeze(-1) & (labels.unsqueeze(-1) != kinds)
        # The right sequences beside all of them, in one pass.
        both = torch.cat([emissions.masked_fill(is_wrong, NEVER), emissions])
        masks = torch.cat([mask, mask])
        right, all_ = self._log_sum(self._forward_scores(both, masks, scores)[-1], scores).chunk(2)
        return right - all_

    def log_marginals(self, emissions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The logarithm of each label's probability at each word, `(sentences, words, labels)`."""
        emissions, scores = _precise(emissions), self._scores(constrained=True)
        before = self._forward_scores(emissions, mask, scores)
        moves, last = scores[1], scores[2]
        after = last.expand_as(emissions[:, 0])
        behind = [after]
        for step in range(emissions.shape[1] - 1, 0, -1):
            further = (moves + (emissions[:, step] + after).unsqueeze(1)).logsumexp(dim=2)
            after = torch.where(mask[:, step].unsqueeze(1), further, last)
            behind.append(after)
        total = self._log_sum(before[-1], scores)[:, None, None]
        # A row past its end repeats its last word's numbers: masked by the caller.
        return torch.stack(before, dim=1) + torch.stack(behind[::-1], dim=1) - total

    def best_labels(self, emissions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The labels of the most probable sequence (Viterbi), `(sentences, words)`; 0 where masked."""
        emissions, (first, moves, last) = _precise(emissions), self._scores(constrained=True)
        score, origins = first + emissions[:, 0], []
        stay = torch.arange(len(first), device=emissions.device).expand_as(score)
        for step in range(1, emissions.shape[1]):
            best, origin = (score.unsqueeze(2) + moves).max(dim=1)
            goes_on = mask[:, step].unsqueeze(1)
            score = torch.where(goes_on, best + emissions[:, step], score)
            origins.append(torch.where(goes_on, origin, stay))
        label = (score + last).argmax(dim=1, keepdim=True)
        labels = [label]
        for origin in reversed(origins):
            label = origin.gather(1, label)
            labels.append(label)
        return torch.cat(labels[::-1], dim=1) * mask

    def _scores(self, constrained: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`first`, `moves` and `last`; `NEVER` for what the scheme forbids."""
        scores = _precise(self.first), _precise(self.moves), _precise(self.last)
        if not constrained or self.allowed is None:
            return scores
        return tuple(  # ty: ignore[invalid-return-type]
            score.masked_fill(~torch.tensor(allowed, device=score.device), NEVER)
            for score, allowed in zip(scores, self.allowed, strict=True)
        )

    @staticmethod
    def _forward_scores(emissions: torch.Tensor, mask: torch.Tensor, scores) -> list[torch.Tensor]:
        """At each word, the log-sum of all beginnings that end in each label: `words` x `(sentences, labels)`."""
        first, moves, _ = scores
        sums = [first + emissions[:, 0]]
        for step in range(1, emissions.shape[1]):
            longer = (sums[-1].unsqueeze(2) + moves).logsumexp(dim=1) + emissions[:, step]
            sums.append(torch.where(mask[:, step].unsqueeze(1), longer, sums[-1]))
        return sums

    @staticmethod
    def _log_sum(sums: torch.Tensor, scores) -> torch.Tensor:
        """Over whole sequences, from the sums at their last word."""
        return (sums + scores[2]).logsumexp(dim=1)


def _precise(scores: torch.Tensor) -> torch.Tensor:
    """Sums over sequences need fp32 at least."""
    return scores if scores.dtype == torch.float64 else scores.float()


__all__ = ["ElmoCRF", "allowed_moves"]
