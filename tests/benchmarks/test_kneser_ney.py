"""The n-gram baseline: probabilities that sum to 1, equal to a slow, obvious model and to KenLM's."""

import random
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.kneser_ney import FALLBACK_DISCOUNTS, encode, estimate_discounts, main, perplexity, predict
from benchmarks.texts import SENTENCES

WORDS = ["<S>", "</S>", "<UNK>", "a", "b", "c", "d"]
INDEX = {word: index for index, word in enumerate(WORDS)}
OUTSIDE = "zeppelin"
TEXTS = ["train", "--heldout", "heldout", "other"]
# Contexts have a word, "d", that the sentences have not.
sentences_of = st.lists(st.sampled_from(["a", "b", "c", OUTSIDE]), max_size=6).map(" ".join)
contexts_of = st.lists(st.sampled_from(["a", "b", "c", "d", "<UNK>"]), max_size=4)


class SlowModel:
    """The formulas with dictionaries, an n-gram at a time."""

    def __init__(self, sentences: list[str], vocabulary: list[str], order: int):
        self.vocabulary, self.order = vocabulary, order
        self.counts = [Counter() for _ in range(order + 1)]
        before = defaultdict(set)
        for sentence in sentences:
            known = [word if word in vocabulary else "<UNK>" for word in sentence.split()]
            words = ("<S>", *known, "</S>")
            for end in range(2, len(words) + 1):
                for n in range(1, min(order, end) + 1):
                    gram = words[end - n : end]
                    self.counts[n][gram] += 1
                    if end > n:
                        before[gram].add(words[end - n - 1])
        for n in range(1, order):
            for gram in self.counts[n]:
                if gram[0] != "<S>":
                    self.counts[n][gram] = len(before[gram])
        self.discounts = [self.discounts_of(Counter(counts.values())) for counts in self.counts]

    @staticmethod
    def discounts_of(n: Counter) -> list[float]:
        if not (n[1] and n[2] and n[3]):
            return [0, 0.5, 1, 1.5]
        y = n[1] / (n[1] + 2 * n[2])
        discounts = [0] + [i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)]
        return discounts if all(0 < discounts[i] <= i for i in (1, 2, 3)) else [0, 0.5, 1, 1.5]

    def probability(self, context: tuple[str, ...], word: str) -> float:
        context = context[max(0, len(context) - self.order + 1) :]
        return self.interpolated(context, word)

    def interpolated(self, context: tuple[str, ...], word: str) -> float:
        n = len(context) + 1
        lower = self.interpolated(context[1:], word) if context else 1 / (len(self.vocabulary) - 1)
        after = [count for gram, count in self.counts[n].items() if gram[:-1] == context]
        if not after:
            return lower
        discounts, count = self.discounts[n], self.counts[n][*context, word]
        freed = sum(discounts[min(other, 3)] for other in after)
        return (count - discounts[min(count, 3)] + freed * lower) / sum(after)


def probabilities_after(sentences: list[str], context: list[str], order: int) -> list[np.ndarray]:
    """For each order the probabilities of all words but `<S>` after a context at the beginning of a sentence."""
    begin, end = INDEX["<S>"], INDEX["</S>"]
    ids = [INDEX[word] for word in context]
    heldout = [[begin, *ids, word, end] for word in range(1, len(WORDS)) if word != end]
    places = np.arange(len(heldout)) * (len(ids) + 2) + len(ids)
    # The end of the sentence right after the context comes last.
    row = np.array([*np.concatenate(heldout), begin, *ids, end], dtype=np.int32)
    predictions = list(predict(encode(sentences, INDEX), row, len(WORDS), begin, order))
    return [np.append(prediction[places], prediction[-1]) for prediction in predictions]


@settings(max_examples=30)
@given(st.lists(sentences_of, min_size=1, max_size=12), contexts_of)
@example(["a b b a b", "b a b a b"], ["a"])  # the estimate of a discount is 0
def test_sums_to_one_and_equals_the_slow_model(sentences, context):
    fast = probabilities_after(sentences, context, 3)
    words = [word for word in WORDS if word not in ("<S>", "</S>")] + ["</S>"]
    assert len(fast) == 3
    for order, probabilities in enumerate(fast, start=1):
        assert (probabilities > 0).all()
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        slow = SlowModel(sentences, WORDS, order)
        expected = [slow.probability(("<S>", *context), word) for word in words]
        np.testing.assert_allclose(probabilities, expected, rtol=1e-12)


def test_equals_the_slow_model_with_estimated_discounts():
    draw = random.Random(0)
    vocabulary = [*WORDS[:3], *(f"w{suffix}" for suffix in range(60))]
    frequencies = [1 / rank for rank in range(1, 81)]
    texts = [
        [" ".join(draw.choices([f"w{n}" for n in range(80)], frequencies, k=draw.randrange(9))) for _ in range(size)]
        for size in (600, 40)
    ]
    index = {word: word_id for word_id, word in enumerate(vocabulary)}
    training, heldout = (encode(text, index) for text in texts)
    predictions = list(predict(training, heldout, len(vocabulary), 0, 4))
    for order, probabilities in enumerate(predictions, start=1):
        slow = SlowModel(texts[0], vocabulary, order)
        assert order == 1 or slow.discounts[2] != [0, 0.5, 1, 1.5]
        expected = []
        for sentence in texts[1]:
            words = ["<S>", *(word if word in index else "<UNK>" for word in sentence.split()), "</S>"]
            expected += [slow.probability(tuple(words[:end]), words[end]) for end in range(1, len(words))]
        np.testing.assert_allclose(probabilities, expected, rtol=1e-12)


def test_equals_kenlm():
    """`lmplz -o N --discount_fallback` and `query` of KenLM 0.3.0, which falls back from the third order on."""
    training = " ".join(SENTENCES.split()).split(" . ")
    heldout = ["The old bridge , which was closed to carts , was opened .", "Rain fell on the zeppelin ."]
    words = dict.fromkeys([*WORDS[:3], *" ".join(training).split()])
    index = {word: word_id for word_id, word in enumerate(words)}
    predictions = list(predict(encode(training, index), encode(heldout, index), len(index), 0, 4))
    assert [perplexity(prediction) for prediction in predictions[1:]] == pytest.approx(
        [81.859885, 42.481221, 50.103809], rel=1e-6
    )


def test_words_outside_the_vocabulary_are_unknown():
    assert encode([f"a {OUTSIDE} b", "<UNK>", ""], INDEX).tolist() == [0, 3, 2, 4, 1, 0, 2, 1, 0, 1]
    after_unknown = probabilities_after([f"a {OUTSIDE} b"], ["a", "<UNK>"], 3)
    other_word = probabilities_after(["a airship b"], ["a", "<UNK>"], 3)
    np.testing.assert_array_equal(after_unknown, other_word)


@pytest.mark.parametrize(
    ("counts_of_counts", "discounts"),
    [
        ([8, 4, 2, 1], [0, 0.5, 1.25, 2]),
        ([8, 4, 2, 0], [0, 0.5, 1.25, 3]),
        ([8, 4, 0, 1], FALLBACK_DISCOUNTS),  # no count of 3
        ([10, 1, 10, 1], FALLBACK_DISCOUNTS),  # a discount below 0
        ([0, 0, 0, 0], FALLBACK_DISCOUNTS),
    ],
)
def test_discounts(counts_of_counts, discounts):
    counts = np.repeat([1, 2, 3, 4, 9], [*counts_of_counts, 3])
    np.testing.assert_allclose(estimate_discounts(counts), discounts)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the program on files of a folder; gives what went wrong, and what it printed."""

    def run(*options: str, **files: str):
        for name, text in {"vocab": "\n".join(WORDS), "train": "a b\n\nc a\n", "heldout": "a c\n", **files}.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["kneser_ney", "--vocab", "vocab", *options, *TEXTS])
        return main(), capsys.readouterr().out

    return run


def test_prints_each_order_and_file(run):
    error, printed = run("--order", "2", other=f"{OUTSIDE} {OUTSIDE} a a\n")
    assert error is None
    lines = printed.splitlines()
    assert lines[0] == "| order | heldout, perplexity | other, perplexity |"
    for order in (1, 2):
        slow = SlowModel(["a b", "c a"], WORDS, order)
        probabilities = [slow.probability(("<S>", "a", "c")[:end], word) for end, word in enumerate("ac", start=1)]
        probabilities.append(slow.probability(("<S>", "a", "c"), "</S>"))
        assert lines[1 + order].startswith(f"| {order} | {perplexity(np.array(probabilities)):.2f} |")
    assert "Vocabulary: 7 words." in lines
    assert "Training text: 2 sentences, 4 words, 0.00% of them <UNK>." in lines
    assert "other: 1 sentences, 4 words, 50.00% of them <UNK>." in lines


def test_takes_the_first_lines_of_the_vocabulary(run):
    _, printed = run("--vocab-size", "4", other="a\n")
    assert "Vocabulary: 4 words." in printed
    assert "Training text: 2 sentences, 4 words, 50.00% of them <UNK>." in printed
