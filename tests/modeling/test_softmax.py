"""The softmax layers: each equals its plain formula, value and gradients, in chunks of any size."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_hf import ElmoConfig
from elmo_hf.modeling import softmax_elmo
from elmo_hf.modeling.softmax_elmo import build_softmax, log_expected_count, log_uniform_sample
from tests.models import TINY

VOCAB, SIZE, SAMPLES, CUTOFFS = 30, 8, 12, [5, 11]
KINDS = ["full", "sampled", "adaptive"]


def softmax_of(kind: str, **fields):
    """A softmax layer in fp64 and training mode, all its numbers random."""
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "cell_size": SIZE, "projection_size": SIZE, "softmax_samples": SAMPLES}
    sizes |= {"softmax_cutoffs": CUTOFFS, "softmax_tail_ratio": 2}
    softmax = build_softmax(ElmoConfig(**(TINY | sizes | {"softmax_type": kind} | fields))).double()
    for parameter in softmax.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return softmax


def predictions(rows: int, vocab_size: int = VOCAB, size: int = SIZE, seed: int = 0):
    """Hidden vectors, a leaf, and the words that follow them."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, size, generator=generator, dtype=torch.float64, requires_grad=True)
    return hidden, torch.randint(0, vocab_size, (rows,), generator=generator)


def rows_per_chunk(monkeypatch, rows: int):
    monkeypatch.setattr(softmax_elmo, "_rows_per_chunk", lambda width, inputs: rows)


# ---- The plain formulas, for autograd.


def plain_full(softmax, hidden, labels):
    logits = hidden @ softmax.weight.T + softmax.bias
    return (logits.exp().sum(dim=1).log() - logits[torch.arange(len(labels)), labels]).sum()


def plain_adaptive(softmax, hidden, labels):
    """Word by word: the probability of its group times its probability within the group."""
    bounds = [*CUTOFFS, VOCAB]
    loss = hidden.sum() * 0
    for vector, label in zip(hidden, labels.tolist(), strict=True):
        head = (softmax.head.weight @ vector + softmax.head.bias).log_softmax(dim=0)
        group = sum(label >= bound for bound in CUTOFFS)
        if group == 0:
            loss = loss - head[label]
        else:
            down, up = softmax.tails[group - 1]
            tail = (up.weight @ (down.weight @ vector) + up.bias).log_softmax(dim=0)
            assert len(tail) == bounds[group] - bounds[group - 1]
            loss = loss - head[CUTOFFS[0] + group - 1] - tail[label - bounds[group - 1]]
    return loss


def plain_expected_count(words: np.ndarray, tries: int, vocab_size: int) -> np.ndarray:
    probability = np.log((words + 2) / (words + 1)) / np.log(vocab_size + 1)
    return 1 - (1 - probability) ** tries


def plain_sampled(softmax, hidden, labels, samples, tries):
    """Prediction by prediction: the true word and the drawn ones, those that are the true word left out."""
    vocab_size, loss = len(softmax.bias), hidden.sum() * 0
    correction = torch.from_numpy(np.log(plain_expected_count(np.arange(vocab_size), tries, vocab_size)))
    for vector, label in zip(hidden, labels.tolist(), strict=True):
        words = torch.tensor([label, *(word for word in samples.tolist() if word != label)])
        logits = softmax.weight[words] @ vector + softmax.bias[words] - correction[words]
        loss = loss - logits.log_softmax(dim=0)[0]
    return loss


def plain_loss(kind, softmax, hidden, labels):
    """The formula; a sampled one draws, from the generator as it stands, what the layer would draw."""
    if kind == "sampled":
        return plain_sampled(softmax, hidden, labels, *log_uniform_sample(SAMPLES, VOCAB))
    return {"full": plain_full, "adaptive": plain_adaptive}[kind](softmax, hidden, labels)


# The correction of a sampled softmax is computed in fp32.
CLOSE = {"full": {}, "adaptive": {}, "sampled": {"rtol": 1e-6, "atol": 1e-6}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 1, 10])
@pytest.mark.parametrize("chunk", [1, 3, 128])
def test_values_and_gradients_are_those_of_the_plain_formula(kind, rows, chunk, monkeypatch):
    rows_per_chunk(monkeypatch, chunk)
    softmax = softmax_of(kind)
    hidden, labels = predictions(rows)
    leaves = [hidden, *softmax.parameters()]
    torch.manual_seed(1)
    expected = plain_loss(kind, softmax, hidden, labels)
    torch.manual_seed(1)
    loss = softmax(hidden, labels)
    assert_close(loss, expected, **CLOSE[kind])
    gradients = torch.autograd.grad(0.7 * loss, leaves)  # of every parameter: an unused one is an error here
    wanted = torch.autograd.grad(0.7 * expected, leaves, materialize_grads=True)
    assert_close(gradients, wanted, **CLOSE[kind])
    if rows == 0:
        assert loss == 0
        assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 10])
def test_without_gradients_the_loss_is_the_same(kind, rows, monkeypatch):
    rows_per_chunk(monkeypatch, 3)
    softmax = softmax_of(kind)
    hidden, labels = predictions(rows)
    losses = []
    for grad in (True, False):
        torch.manual_seed(1)
        with torch.set_grad_enabled(grad):
            losses.append(softmax(hidden, labels))
    assert losses[0].requires_grad
    assert not losses[1].requires_grad
    assert_close(losses[0].detach(), losses[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 1, 10])
@pytest.mark.parametrize("chunk", [1, 3, 128])
def test_the_log_probability_of_a_word_is_that_among_all_words(kind, rows, chunk, monkeypatch):
    rows_per_chunk(monkeypatch, chunk)
    softmax = softmax_of(kind)  # in training mode, which must not matter
    hidden, labels = predictions(rows)
    with torch.no_grad():
        log_probs = softmax.label_log_probs(hidden, labels)
        assert_close(log_probs, softmax.log_probs(hidden).gather(1, labels.unsqueeze(1)).squeeze(1))
        assert_close(-log_probs.sum(), softmax.eval()(hidden, labels))


@pytest.mark.parametrize("kind", KINDS)
def test_a_words_vector_is_what_a_prediction_is_multiplied_with(kind):
    """Words of one group are told apart by it alone, but for their bias."""
    softmax = softmax_of(kind)
    hidden, _ = predictions(4)
    with torch.no_grad():
        products = hidden @ softmax.word_vectors().T
        for bias in (parameter for name, parameter in softmax.named_parameters() if name.endswith("bias")):
            bias.zero_()
        differences = softmax.log_probs(hidden) - products
    bounds = [0, *CUTOFFS, VOCAB] if kind == "adaptive" else [0, VOCAB]
    for start, stop in itertools.pairwise(bounds):
        assert_close(differences[:, start:stop], differences[:, start : start + 1].expand(-1, stop - start))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learning", ["nothing", "hidden", "softmax"])
def test_what_is_frozen_needs_no_gradient(kind, learning):
    softmax = softmax_of(kind)
    hidden, labels = predictions(10)
    torch.manual_seed(1)
    expected = softmax(hidden, labels)
    expected.backward()
    wanted = hidden.grad if learning == "hidden" else next(softmax.parameters()).grad

    softmax.requires_grad_(learning == "softmax").zero_grad()
    hidden = hidden.detach().requires_grad_(learning == "hidden")
    torch.manual_seed(1)
    loss = softmax(hidden, labels)
    assert_close(loss.detach(), expected.detach())
    assert loss.requires_grad == (learning != "nothing")
    if learning != "nothing":
        loss.backward()
        assert_close(hidden.grad if learning == "hidden" else next(softmax.parameters()).grad, wanted)


class LargestTensor(TorchDispatchMode):
    """Numbers in the largest tensor that is made within."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        made = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.numbers = max([self.numbers, *made])
        return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grad", [True, False])
def test_the_logits_of_all_predictions_never_exist_at_once(kind, grad, monkeypatch):
    rows, vocab_size, chunk = 300, 200, 20
    rows_per_chunk(monkeypatch, chunk)
    softmax = softmax_of(kind, vocab_size=vocab_size, softmax_samples=100, softmax_cutoffs=[80, 160])
    hidden, labels = predictions(rows, vocab_size)
    with torch.set_grad_enabled(grad), LargestTensor() as largest:
        loss = softmax(hidden, labels)
        if grad:
            loss.backward()
    assert largest.numbers <= chunk * vocab_size
    assert largest.numbers < rows * 82  # the fewest logits per prediction: an adaptive softmax's head


def test_only_gradients_stay_until_the_way_back(monkeypatch):
    rows_per_chunk(monkeypatch, 3)
    softmax = softmax_of("full")
    hidden, labels = predictions(100)
    kept = softmax(hidden, labels).grad_fn.saved_tensors
    assert {tensor.shape for tensor in kept} == {hidden.shape, softmax.weight.shape, softmax.bias.shape}
    assert len(kept) == 3


@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_log_probs_sum_to_one_and_agree_with_the_loss(kind):
    """For every word: the first and the last of each group too."""
    softmax = softmax_of(kind)
    hidden, _ = predictions(VOCAB)
    log_probs = softmax.log_probs(hidden)
    assert log_probs.shape == (VOCAB, VOCAB)
    assert_close(log_probs.exp().sum(dim=1), torch.ones(VOCAB, dtype=torch.float64))
    losses = [softmax(vector, word) for vector, word in zip(hidden.split(1), torch.arange(VOCAB).split(1), strict=True)]
    assert_close(-log_probs.diagonal(), torch.stack(losses))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_half_precision_weights_take_full_precision_vectors(kind, training):
    """As the recurrent layers give them out: their states are fp32 whatever the weights."""
    softmax = softmax_of(kind).float().train(training)
    hidden, labels = predictions(10)
    hidden = hidden.detach().float().requires_grad_()
    losses, gradients = [], []
    for dtype in (torch.float32, torch.float16):
        softmax.to(dtype)
        torch.manual_seed(1)
        losses.append(softmax(hidden, labels))
        gradients.append(torch.autograd.grad(losses[-1], [hidden, *softmax.parameters()]))
        with torch.no_grad():
            torch.manual_seed(1)
            assert_close(softmax(hidden, labels), losses[-1].detach())
            assert softmax.log_probs(hidden).dtype == torch.float32
    assert losses[1].dtype == torch.float32
    assert_close(losses[1], losses[0], rtol=1e-3, atol=0)
    for half, full in zip(*gradients[::-1], strict=True):
        assert_close(half.float(), full, rtol=0.01, atol=0.01)


# ---- Adaptive.


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 39), min_size=1, max_size=3, unique=True),
    st.integers(40, 50),
    st.sampled_from([1, 2]),
    st.integers(0, 2**31),
)
def test_adaptive_equals_torchs_own(cutoffs, vocab_size, ratio, seed):
    """`nn.AdaptiveLogSoftmaxWithLoss`, whose rare words have no bias."""
    cutoffs = sorted(cutoffs)
    ours = softmax_of("adaptive", vocab_size=vocab_size, softmax_cutoffs=cutoffs, softmax_tail_ratio=ratio)
    torchs = torch.nn.AdaptiveLogSoftmaxWithLoss(SIZE, vocab_size, cutoffs, div_value=ratio, head_bias=True).double()
    with torch.no_grad():
        for _, up in ours.tails:
            up.bias.zero_()
    weights = {name.replace("tails", "tail"): tensor for name, tensor in ours.state_dict().items()}
    torchs.load_state_dict({name: tensor for name, tensor in weights.items() if not name.endswith("1.bias")})
    hidden, labels = predictions(12, vocab_size, seed=seed)
    loss, expected = ours(hidden, labels), torchs(hidden, labels).loss * 12
    assert_close(loss, expected)
    assert_close(ours.log_probs(hidden), torchs.log_prob(hidden))
    names = [name for name, _ in torchs.named_parameters()]
    our_leaves = [dict(ours.named_parameters())[name.replace("tail", "tails")] for name in names]
    gradients = torch.autograd.grad(loss, [hidden, *our_leaves])
    wanted = torch.autograd.grad(expected, [hidden, *torchs.parameters()], materialize_grads=True)
    assert_close(gradients, wanted)


def test_each_group_of_rare_words_is_smaller_by_the_ratio_but_never_empty():
    softmax = softmax_of("adaptive", softmax_cutoffs=[3, 6, 9], softmax_tail_ratio=3)
    assert [down.out_features for down, _ in softmax.tails] == [2, 1, 1]
    assert [up.out_features for _, up in softmax.tails] == [3, 3, 21]
    assert softmax.head.out_features == 3 + 3


# ---- Sampled.


@settings(max_examples=50)
@given(st.integers(0, 2**31), st.integers(1, 29), st.integers(0, 8), st.integers(0, 100))
def test_sampled_loss_equals_the_formula_in_numpy(seed, count, rows, more_tries):
    """True words among the drawn ones included: with 29 of 30 drawn nearly every one is."""
    softmax = softmax_of("sampled")
    generator = np.random.default_rng(seed)
    samples = generator.choice(VOCAB, count, replace=False)
    hidden, labels = generator.normal(size=(rows, SIZE)), generator.integers(0, VOCAB, rows)
    tries = count + more_tries
    weight, bias = softmax.weight.detach().numpy(), softmax.bias.detach().numpy()

    corrected = hidden @ weight.T + bias - np.log(plain_expected_count(np.arange(VOCAB), tries, VOCAB))
    expected = 0.0
    for row, label in enumerate(labels):
        hit = samples == label
        drawn = np.where(hit, -np.inf, corrected[row, samples])
        expected += np.log(np.exp(corrected[row, label]) + np.exp(drawn).sum()) - corrected[row, label]
    inputs = (torch.from_numpy(array) for array in (hidden, labels, samples))
    assert softmax.sampled_loss(*inputs, tries).item() == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_a_true_word_that_is_all_that_was_drawn_costs_nothing():
    softmax = softmax_of("sampled")
    hidden, _ = predictions(2)
    assert softmax.sampled_loss(hidden, torch.tensor([7, 7]), torch.tensor([7]), 3) == 0


@given(st.integers(2, 200).flatmap(lambda v: st.tuples(st.just(v), st.integers(1, v - 1))), st.integers(0, 2**31))
def test_drawn_words_are_distinct_and_words(sizes, seed):
    vocab_size, samples = sizes
    torch.manual_seed(seed)
    words, tries = log_uniform_sample(samples, vocab_size)
    assert words.shape == (samples,)
    assert len(set(words.tolist())) == samples
    assert 0 <= int(words.min()) <= int(words.max()) < vocab_size
    assert tries >= samples


@pytest.mark.parametrize(
    ("draws", "samples", "words", "tries"),
    [
        ([4, 2, 4, 0, 1, 1], 3, [4, 2, 0], 4),
        ([1, 3, 3, 1], 2, [1, 3], 2),
        ([0, 0, 0, 0, 0, 0, 3, 0, 5, 2, 2, 2], 3, [0, 3, 5], 9),  # a second round of draws is needed
    ],
)
def test_drawn_words_come_in_their_order_and_every_draw_is_counted(draws, samples, words, tries, monkeypatch):
    coming = iter(draws)

    def rand(size, dtype, device):
        """What the sampler turns into the next draws: word `k` is between `log(k + 1)` and `log(k + 2)`."""
        return torch.tensor([np.log(next(coming) + 1.5) / np.log(6 + 1) for _ in range(size)], dtype=dtype)

    monkeypatch.setattr(torch, "rand", rand)
    drawn, count = log_uniform_sample(samples, 6)
    assert (drawn.tolist(), count) == (words, tries)


@pytest.mark.parametrize(("samples", "vocab_size"), [(5, 40), (30, 200)])
def test_words_are_drawn_as_often_as_expected(samples, vocab_size):
    """
    The expected count takes the tries as given, though drawing stops at the last new word: measured over 20,000 draws,
    that moves no frequency by more than 0.01. To this comes chance, with a standard error of at most
    0.5 / sqrt(3000) = 0.009, of which the largest of so many words may be three.
    """
    seeds = 3000
    torch.manual_seed(0)
    counts, expected = torch.zeros(vocab_size), torch.zeros(vocab_size)
    for _ in range(seeds):
        words, tries = log_uniform_sample(samples, vocab_size)
        counts[words] += 1 / seeds
        expected += log_expected_count(torch.arange(vocab_size), tries, vocab_size).exp() / seeds
    assert_close(counts, expected, rtol=0, atol=0.01 + 3 * 0.009)
    tens = counts[:40].view(4, 10).sum(dim=1).tolist()
    assert tens == sorted(tens, reverse=True)  # frequent words are drawn more often


def test_expected_counts_hold_for_the_largest_vocabularies():
    """Rare words of 800,000 have probabilities near 1e-7: no rounding to zero, whose logarithm is -inf."""
    words, tries, vocab_size = np.array([0, 1, 1000, 793_470]), 20_000, 793_471
    log_counts = log_expected_count(torch.from_numpy(words), tries, vocab_size).numpy()
    probability = np.log1p(1 / (words + 1)) / np.log(vocab_size + 1)
    np.testing.assert_allclose(log_counts, np.log(-np.expm1(tries * np.log1p(-probability))), rtol=1e-6, atol=1e-7)
    assert log_counts[0] == pytest.approx(0)
    assert log_counts[3] == pytest.approx(np.log(tries * probability[3]), rel=1e-3)  # rarely drawn twice


def sampled_losses(samples: int, seeds: int):
    """The full loss per prediction and, for each seed, the sampled one, of 50 predictions among 300 words."""
    softmax = softmax_of("sampled", vocab_size=300, softmax_samples=samples)
    hidden, labels = predictions(50, 300)
    losses = []
    with torch.no_grad():
        full = softmax.eval()(hidden, labels) / 50
        softmax.train()
        for seed in range(seeds):
            torch.manual_seed(seed)
            losses.append(softmax(hidden, labels) / 50)
    return full, torch.stack(losses)


def test_the_more_words_are_drawn_the_closer_the_sampled_loss_is_to_the_full_one():
    gaps = []
    for samples in (8, 32, 128, 299):
        full, sampled = sampled_losses(samples, 20)
        gaps.append((sampled - full).abs().mean().item())
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.02 * full < gaps[0]  # all words but one: nearly the full loss


def test_the_same_seed_gives_the_same_sampled_loss():
    (_, first), (_, second) = sampled_losses(8, 3), sampled_losses(8, 3)
    assert torch.equal(first, second)
    assert len(set(first.tolist())) == 3


def test_in_evaluation_a_sampled_softmax_is_a_full_one():
    sampled, full = softmax_of("sampled").eval(), softmax_of("full")
    full.load_state_dict(sampled.state_dict())
    hidden, labels = predictions(10)
    assert torch.equal(sampled(hidden, labels), full(hidden, labels))
    assert not torch.equal(sampled.train()(hidden, labels), full(hidden, labels))


@pytest.mark.parametrize("samples", [300, 301])
def test_asking_for_as_many_words_as_there_are_is_an_error(samples):
    with pytest.raises(ValueError, match=f"Cannot draw {samples} distinct words of 300"):
        log_uniform_sample(samples, 300)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_engine_has_the_same_loss_and_gradients_by_autograd_alone(kind, monkeypatch):
    softmax, (hidden, labels) = softmax_of(kind), predictions(7)
    results = {}
    for engine in ("fast", "plain"):
        monkeypatch.setenv("ELMO_HF_ENGINE", engine)
        torch.manual_seed(0)  # of the samples
        loss = softmax(hidden, labels)
        results[engine] = loss, torch.autograd.grad(loss, [hidden, *softmax.parameters()])
    assert_close(results["fast"], results["plain"])
    assert not {name for name in backward_nodes(loss) if name.startswith("_")}  # functions with gradients by hand


def backward_nodes(loss: torch.Tensor) -> set[str]:
    """The names of the nodes that the backward pass goes through."""
    names, nodes = set(), [loss.grad_fn]
    while nodes:
        node = nodes.pop()
        names.add(node.name())
        nodes += [parent for parent, _ in node.next_functions if parent is not None]
    return names
