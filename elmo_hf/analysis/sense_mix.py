"""Learns the mix of the layers with which the nearest mean vector finds the senses of a training text."""

from typing import NamedTuple

import numpy as np
import torch

from ..modeling.modeling_elmo import ElmoMixer

EXAMPLES = 10_000  # occurrences to learn from at most: a mix has one number per layer
STEPS = 500
LEARNING_RATE = 0.05  # that of the mixers in `elmo-hf finetune`


class MixExamples(NamedTuple):
    """
    Occurrences of a training text, to learn a mix from.

    Attributes:
        vectors (`np.ndarray` of shape `(layers, examples, hidden_size)`): Their vectors in each layer.
        rows (`np.ndarray` of shape `(examples,)`): The rows of their senses in the table of senses.
        first_rows, end_rows (`np.ndarray` of shape `(examples,)`): The rows of their candidate senses.
    """

    vectors: np.ndarray
    rows: np.ndarray
    first_rows: np.ndarray
    end_rows: np.ndarray


def choose_examples(labels: np.ndarray, places: np.ndarray, seed: int) -> np.ndarray:
    """
    Chooses occurrences to learn a mix from: those of senses that occur again, with one sense, at random.

    Args:
        labels: `(spans,)`, the row of the sense of each span.
        places: `(spans,)`, the index of its occurrence; one with two senses has two spans.
        seed: The seed of the choice.

    Returns:
        The indices of the spans, in order.
    """
    if not len(labels):
        return np.empty(0, dtype=int)
    occurs_again, has_one_sense = np.bincount(labels)[labels] > 1, np.bincount(places)[places] == 1
    suitable = np.flatnonzero(occurs_again & has_one_sense)
    if len(suitable) > EXAMPLES:
        suitable = np.sort(np.random.default_rng(seed).choice(suitable, EXAMPLES, replace=False))
    return suitable


def learn_mix(examples: MixExamples, sums: torch.Tensor) -> ElmoMixer:
    """
    Learns the weights of the layers. The score of a candidate sense is `gamma` times the cosine between the mixed
    vector of an occurrence and the mixed mean vector of the sense, without this occurrence; the loss is the
    cross-entropy.

    Args:
        examples: The occurrences.
        sums: `(layers, senses, hidden_size)`, the sum of the vectors of each sense over the whole training text.
    """
    products = _products(examples, sums)
    mixer = ElmoMixer(len(sums)).double()
    optimizer = torch.optim.AdamW(mixer.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        _loss(mixer, products).backward()
        optimizer.step()
    return mixer


class _Products(NamedTuple):
    """
    The inner products between the layers, from which the cosine of any mixes follows. A pair is an example and one of
    its candidates.

    Attributes:
        across, of_means, of_examples (`torch.Tensor` of shape `(pairs, layers, layers)`): Between the vectors of the
            example and the mean, of the mean with itself, and of the example with itself.
        example (`torch.Tensor` of shape `(pairs,)`): The index of the example.
        own (`torch.Tensor` of shape `(examples,)`): The index of the pair with the right sense.
    """

    across: torch.Tensor
    of_means: torch.Tensor
    of_examples: torch.Tensor
    example: torch.Tensor
    own: torch.Tensor


def _products(examples: MixExamples, sums: torch.Tensor) -> _Products:
    across, of_means, of_examples, pair_examples, own = [], [], [], [], np.empty(len(examples.rows), dtype=int)
    order = np.argsort(examples.first_rows, kind="stable")  # the examples of one word are adjacent
    pairs = 0
    for places in np.split(order, np.flatnonzero(np.diff(examples.first_rows[order])) + 1):
        first, end = examples.first_rows[places[0]], examples.end_rows[places[0]]
        vectors = torch.from_numpy(examples.vectors[:, places]).double()  # (layers, own examples, size)
        means = sums[:, first:end].double()  # (layers, candidates, size); their lengths do not matter
        crossed = torch.einsum("aes,bcs->ecab", vectors, means)  # (own examples, candidates, layers, layers)
        squared = torch.einsum("acs,bcs->cab", means, means).expand(crossed.shape).clone()
        within = torch.einsum("aes,bes->eab", vectors, vectors)
        row = torch.arange(len(places)), torch.from_numpy(examples.rows[places] - first)
        squared[row] += within - crossed[row] - crossed[row].mT  # without the example itself
        crossed[row] -= within
        candidates = int(end - first)
        own[places] = pairs + np.arange(len(places)) * candidates + row[1].numpy()
        pairs += crossed.shape[0] * candidates
        across.append(crossed.flatten(0, 1))
        of_means.append(squared.flatten(0, 1))
        of_examples.append(within.repeat_interleave(candidates, dim=0))
        pair_examples.append(torch.from_numpy(np.repeat(places, candidates)))
    return _Products(*map(torch.cat, (across, of_means, of_examples, pair_examples)), torch.from_numpy(own))


def _loss(mixer: ElmoMixer, products: _Products) -> torch.Tensor:
    """The mean cross-entropy of the right senses."""
    weights = mixer.layer_weights()
    across, of_means, of_examples = (
        torch.einsum("a,b,pab->p", weights, weights, part)
        for part in (products.across, products.of_means, products.of_examples)
    )
    cosines = across * (of_means * of_examples).clamp_min(torch.finfo(torch.double).tiny).rsqrt()
    scores = mixer.gamma * (cosines - 1)  # at most about 0, so that no exponential is too large
    totals = torch.zeros(len(products.own), dtype=scores.dtype).index_add(0, products.example, scores.exp())
    return (totals.log() - scores[products.own]).mean()


__all__ = ["EXAMPLES", "MixExamples", "choose_examples", "learn_mix"]
