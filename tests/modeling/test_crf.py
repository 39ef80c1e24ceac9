"""The CRF: equal to sums over all label sequences, and true to BIO and BIOES."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from elmo_hf.modeling.task_layers_elmo import ElmoCRF, allowed_transitions

PLAIN = ["noun", "verb", "other"]
BIO = ["O", "B-x", "I-x", "B-y", "I-y"]
BIOES = ["O", "B-x", "I-x", "E-x", "S-x"]
BILOU = ["O", "B-x", "I-x", "L-x", "U-x"]


def random_crf(labels, seed: int = 0) -> ElmoCRF:
    generator = torch.Generator().manual_seed(seed)
    crf = ElmoCRF(labels)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return crf


def is_allowed(labels, path) -> bool:
    """Read off the definition of the schemes, word by word."""
    tags = [labels[label_id] for label_id in path]
    if "-" not in "".join(labels):
        return True
    has_ends = any(label[0] in "ESLU" for label in labels)
    for before, after in itertools.pairwise(["O", *tags, "O"]):
        inside = after[0] in "IEL" and after != "O"
        opened = before[0] in "BI" and before != "O"
        if inside and not (opened and before[2:] == after[2:]):
            return False
        if has_ends and opened and not (inside and before[2:] == after[2:]):
            return False
    return True


def all_paths(crf, labels, emissions, constrained: bool):
    """Every label sequence of one sentence `(words, labels)`, and its score."""
    paths = list(itertools.product(range(len(labels)), repeat=len(emissions)))
    if constrained:
        paths = [path for path in paths if is_allowed(labels, path)]
    scores = torch.stack(
        [
            crf.first[path[0]]
            + crf.last[path[-1]]
            + sum(emissions[place, label] for place, label in enumerate(path))
            + sum(crf.moves[before, after] for before, after in itertools.pairwise(path))
            for path in paths
        ]
    )
    return paths, scores


@given(
    labels=st.sampled_from([PLAIN, BIO, BIOES, BILOU]),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
    unknown=st.booleans(),
)
@settings(max_examples=25)
def test_everything_equals_the_sum_over_all_sequences(labels, lengths, seed, unknown):
    crf, generator = random_crf(labels, seed), torch.Generator().manual_seed(seed)
    longest = max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
    emissions = torch.randn(len(lengths), longest, len(labels), generator=generator)
    gold = torch.randint(0, len(labels), mask.shape, generator=generator)
    if unknown:
        gold[0, 0] = -100
    likelihood, marginals = crf.log_likelihood(emissions, gold, mask), crf.log_marginals(emissions, mask)
    best = crf.best_labels(emissions, mask)
    for row, length in enumerate(lengths):
        paths, scores = all_paths(crf, labels, emissions[row, :length], constrained=False)
        right = [all(gold[row, place] in (-100, label) for place, label in enumerate(path)) for path in paths]
        assert_close(likelihood[row], scores[right].logsumexp(0) - scores.logsumexp(0), atol=1e-4, rtol=0)

        paths, scores = all_paths(crf, labels, emissions[row, :length], constrained=True)
        shares = scores.softmax(0)
        expected = torch.zeros(length, len(labels))
        for path, share in zip(paths, shares, strict=True):
            expected[range(length), path] += share
        assert_close(marginals[row, :length].exp(), expected, atol=1e-5, rtol=0)
        assert tuple(best[row, :length].tolist()) == paths[int(scores.argmax())]
        assert not best[row, length:].any()


@pytest.mark.parametrize("labels", [BIO, BIOES, BILOU])
def test_decoded_labels_are_always_a_legal_sequence(labels):
    crf = random_crf(labels)
    emissions = 5 * torch.randn(50, 12, len(labels), generator=torch.Generator().manual_seed(1))
    for path in crf.best_labels(emissions, torch.ones(50, 12, dtype=torch.bool)).tolist():
        assert is_allowed(labels, path)


@pytest.mark.parametrize("labels", [PLAIN, ["O"], ["B", "I", "O"], ["O", "B-x", "X-y"], ["A-x", "O"]])
def test_labels_of_no_scheme_have_no_constraints(labels):
    assert allowed_transitions(labels) is None


def test_gradients_of_the_likelihood_are_those_of_finite_differences():
    crf = random_crf(BIO).double()
    emissions = torch.randn(2, 3, len(BIO), dtype=torch.float64, requires_grad=True)
    labels, mask = torch.tensor([[0, 1, 2], [3, -100, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]], dtype=torch.bool)
    assert torch.autograd.gradcheck(
        lambda scores: crf.log_likelihood(scores, labels, mask), (emissions,), eps=1e-6, atol=1e-6
    )


def test_an_illegal_gold_sequence_still_has_a_finite_loss_and_gradient():
    crf = random_crf(BIO)
    emissions = torch.randn(1, 2, len(BIO), requires_grad=True)
    loss = -crf.log_likelihood(emissions, torch.tensor([[0, 2]]), torch.ones(1, 2, dtype=torch.bool)).sum()  # O I-x
    loss.backward()
    assert loss.isfinite()
    assert emissions.grad.isfinite().all()


def test_what_is_past_a_sentences_end_changes_nothing():
    crf, mask = random_crf(BIO), torch.tensor([[1, 1, 0, 0]], dtype=torch.bool)
    one, labels = torch.randn(1, 4, len(BIO)), torch.tensor([[1, 2, -100, -100]])
    other = one.clone()
    other[:, 2:] = 100.0
    assert_close(crf.log_likelihood(one, labels, mask), crf.log_likelihood(other, labels, mask))
    assert_close(crf.log_marginals(one, mask)[:, :2], crf.log_marginals(other, mask)[:, :2])
    assert torch.equal(crf.best_labels(one, mask), crf.best_labels(other, mask))


@pytest.mark.parametrize("labels", [["O", "I-PER"], ["O", "B-LOC", "I-LOC", "I-PER"]], ids=" ".join)
def test_where_a_kind_has_no_beginning_its_inside_begins(labels):
    emissions = torch.zeros(1, 3, len(labels))
    emissions[0, 1:, labels.index("I-PER")] = 9.0
    best = ElmoCRF(labels).best_labels(emissions, torch.ones(1, 3, dtype=torch.bool))
    assert [labels[label] for label in best[0]][1:] == ["I-PER", "I-PER"]
