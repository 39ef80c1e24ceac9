"""Scores are the log-probabilities that the reference gives, however the texts come and are put together."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elmo_hf
from elmo_hf import pretraining
from elmo_hf.errors import TextError
from elmo_hf.language_model import TextScore, model, reading
from elmo_hf.modeling.modeling_elmo import DIRECTIONS
from tests.language_model.models import VOCABULARY, WORDS, tiny_language_model
from tests.models import configurations, reference_of

KINDS = ["full", "sampled", "adaptive"]
TEXTS = [["the", "cat", "sat"], [], ["a", "dog", "on", "the", "mat", "."], ["."], ["sat"] * 11]
SENTENCES = st.lists(st.sampled_from([*WORDS, "dog", "<S>", "</S>", "<UNK>", "猫", ""]), max_size=6)


def same(actual: TextScore, expected: TextScore) -> bool:
    arrays = ((actual.forward, expected.forward), (actual.backward, expected.backward))
    return (
        actual.tokens == expected.tokens
        and np.array_equal(actual.unknown, expected.unknown)
        and all(np.allclose(one, other, rtol=0, atol=1e-9) for one, other in arrays)
    )


@pytest.fixture(params=[1, 3, 8])
def few_tokens_at_once(request, monkeypatch):
    for module in (reading, model):
        monkeypatch.setattr(module, "TOKENS_AT_ONCE", request.param)


# ---- what they are


def by_reference(lm, words: list[str]) -> dict[int, np.ndarray]:
    """Each direction's log-probabilities of `<S>`, words and `</S>`, with a full softmax in NumPy."""
    encoded = lm.tokenizer([words], is_split_into_words=True, return_tensors="np")
    ids, char_ids = encoded["input_ids"][0], encoded["char_ids"][0]
    reference = reference_of(lm.model.elmo)
    top = reference.sentence([reference.token_vector(*token) for token in zip(char_ids, ids, strict=True)])[0][-1]
    weight, bias = (parameter.detach().numpy() for parameter in (lm.model.softmax.weight, lm.model.softmax.bias))
    expected = {}
    for half, direction in enumerate(DIRECTIONS[lm.model.config.directions]):
        size = lm.model.config.output_size
        logits = top[:, half * size : (half + 1) * size] @ weight.T + bias
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        tokens = range(1, len(ids)) if direction == 0 else range(len(ids) - 1)
        expected[direction] = np.zeros(len(ids))
        for token in tokens:
            expected[direction][token] = log_probs[token - 1 if direction == 0 else token + 1, ids[token]]
    return expected


@settings(max_examples=25)
@given(configurations, st.integers(0, 1000), st.lists(SENTENCES, min_size=1, max_size=4))
def test_any_configuration_has_the_log_probabilities_of_the_reference(fields, seed, texts):
    lm = tiny_language_model(seed, **fields)
    for words, score in zip(texts, lm.score(texts), strict=True):
        expected = by_reference(lm, words)
        for direction, log_probs in enumerate((score.forward, score.backward)):
            assert (log_probs is None) == (direction not in expected)
            if log_probs is not None:
                np.testing.assert_allclose(log_probs, expected[direction], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directions", ["both", "forward", "backward"])
def test_sums_and_perplexity_are_those_of_the_evaluation(kind, directions, tmp_path):
    lm = tiny_language_model(softmax_type=kind, directions=directions)
    lines = ["the cat sat on a mat.", "the dog", "cat", "<S> a 猫 </S>", "on a mat on a mat on a mat on a mat"]
    (tmp_path / "text.txt").write_text("\n".join(lines), "utf-8")
    encode = pretraining.SentenceEncoder(lm.tokenizer, pretokenized=False)
    expected = pretraining.perplexity(lm.model, encode, pretraining.Corpus(tmp_path / "text.txt"))
    scores = lm.score(lines)
    targets = sum(score.perplexity.targets for score in scores)
    sums = [sum(score.forward_sum for score in scores), sum(score.backward_sum for score in scores)]
    assert targets == expected.targets
    assert [math.exp(-total / targets) for total in sums] == pytest.approx(list(expected[:2]), rel=1e-7, nan_ok=True)
    (joined,) = lm.score([" ".join(lines)])
    (tmp_path / "text.txt").write_text(" ".join(lines), "utf-8")
    expected = pretraining.perplexity(lm.model, encode, pretraining.Corpus(tmp_path / "text.txt"))
    assert tuple(joined.perplexity) == pytest.approx(tuple(expected), rel=1e-7, nan_ok=True)


def test_the_shipped_model_agrees_with_the_evaluation(tmp_path):
    lines = ["He sat on the bank of the river.", "The bank was closed, was n't it?", "Zyxxw!"]
    (tmp_path / "text.txt").write_text("\n".join(lines), "utf-8")
    shipped, tokenizer = pretraining.load_language_model(elmo_hf.default_model())
    encode = pretraining.SentenceEncoder(tokenizer, pretokenized=False)
    expected = pretraining.perplexity(shipped, encode, pretraining.Corpus(tmp_path / "text.txt"))
    scores = elmo_hf.score(lines)
    for log_probs, perplexity in (("forward_sum", expected.forward), ("backward_sum", expected.backward)):
        total = sum(getattr(score, log_probs) for score in scores)
        assert total == pytest.approx(-expected.targets * math.log(perplexity), rel=1e-5)
    assert elmo_hf.score(lines[0]).perplexity.mean < 30  # it is a model of English


def test_a_direction_knows_nothing_of_what_it_has_not_read():
    lm = tiny_language_model()
    first, second = lm.score([["the", "cat", "sat", "on"], ["the", "cat", "mat", "."]])
    np.testing.assert_allclose(first.forward[:3], second.forward[:3], atol=1e-12)
    assert abs(first.forward[3:] - second.forward[3:]).min() > 1e-6
    first, second = lm.score([["the", "cat", "sat", "on"], ["a", ".", "sat", "on"]])
    np.testing.assert_allclose(first.backward[3:], second.backward[3:], atol=1e-12)
    assert abs(first.backward[:3] - second.backward[:3]).min() > 1e-6


def test_an_unknown_word_has_the_probability_of_unk_and_is_flagged():
    lm = tiny_language_model()
    dog, unk, known = lm.score([["a", "dog"], ["a", "<UNK>"], ["a", "cat"]])
    assert dog.forward[2] == pytest.approx(unk.forward[2])
    assert dog.backward[1] != pytest.approx(unk.backward[1])  # it is read by its own characters
    assert [score.unknown.tolist() for score in (dog, unk)] == [[False, False, True, False]] * 2
    assert not known.unknown.any()


def test_the_boundary_that_is_given_is_certain_and_the_other_one_counts():
    scores = tiny_language_model().score("the cat")
    assert scores.tokens == ["<S>", "the", "cat", "</S>"]
    assert (scores.forward[0], scores.backward[-1]) == (0.0, 0.0)
    assert max(scores.forward[1:].max(), scores.backward[:-1].max()) < 0
    assert scores.perplexity.targets == 3
    assert scores.forward_sum == pytest.approx(sum(scores.forward))
    np.testing.assert_array_equal(scores.both, scores.forward + scores.backward)
    assert scores.both_sum == pytest.approx(scores.both.sum())


@pytest.mark.parametrize(("directions", "missing"), [("forward", "backward"), ("backward", "forward")])
def test_a_model_of_one_direction_scores_in_it(directions, missing):
    scores = tiny_language_model(directions=directions).score("the cat sat")
    assert getattr(scores, directions).shape == (5,)
    assert getattr(scores, missing) is scores.both is None
    assert math.isnan(getattr(scores, f"{missing}_sum"))
    assert math.isnan(getattr(scores.perplexity, missing))
    assert getattr(scores.perplexity, directions) > 1


def test_a_word_that_was_added_to_the_tokenizer_alone_is_unknown():
    lm = tiny_language_model()
    lm.tokenizer.add_tokens(["dog"])
    (score,) = lm.score([["dog"]])
    assert score.unknown.tolist() == [False, True, False]


# ---- however the texts come


def test_strings_and_lists_of_words_are_texts_and_one_string_is_one():
    lm = tiny_language_model()
    both = lm.score(["the cat.", ["the", "cat", "."], ("the", "cat", ".")])
    assert len(both) == 3
    assert all(same(score, both[0]) for score in both)
    assert same(lm.score("the cat."), both[0])
    assert lm.score([]) == []


def test_an_empty_text_is_its_boundaries():
    (score,) = tiny_language_model().score([""])
    assert score.tokens == ["<S>", "</S>"]
    assert score.perplexity.targets == 1
    assert score.forward_sum < 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_has_the_same_scores_alone_and_in_any_batch_and_pieces(kind, few_tokens_at_once):
    lm = tiny_language_model(softmax_type=kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "TOKENS_AT_ONCE", 1000)
        expected = [lm.score([text])[0] for text in TEXTS]
    assert all(map(same, lm.score(TEXTS), expected))
    assert all(map(same, lm.score(TEXTS[::-1]), expected[::-1]))


@pytest.mark.parametrize("directions", ["forward", "backward"])
def test_one_direction_in_pieces_is_that_direction(directions, few_tokens_at_once):
    lm = tiny_language_model(directions=directions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "TOKENS_AT_ONCE", 1000)
        expected = getattr(lm.score([TEXTS[-1]])[0], directions)
    np.testing.assert_allclose(getattr(lm.score([TEXTS[-1]])[0], directions), expected, rtol=0, atol=1e-9)


@given(st.lists(st.integers(2, 40), max_size=30), st.integers(1, 100))
def test_every_text_is_in_one_batch_that_fits_or_in_one_of_its_own(lengths, tokens):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "TOKENS_AT_ONCE", tokens)
        batches = reading.batches([["word"] * length for length in lengths])
    assert sorted(itertools.chain.from_iterable(batches)) == list(range(len(lengths)))
    for numbers in batches:
        assert len(numbers) == 1 or len(numbers) * max(lengths[index] for index in numbers) <= tokens


def test_texts_without_end_are_scored_as_they_come(few_tokens_at_once):
    lm = tiny_language_model()
    expected = lm.score([["the", "cat"]])[0]
    for score in itertools.islice(lm.score_iter(itertools.repeat(["the", "cat"])), 10):
        assert same(score, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_takes_no_more_memory_at_once_than_its_pieces(kind, monkeypatch):
    """No product is larger than a piece."""
    monkeypatch.setattr(reading, "TOKENS_AT_ONCE", 16)
    lm = tiny_language_model(softmax_type=kind)
    sizes = []
    read, softmax = lm.model.elmo.forward, lm.model.softmax.label_log_probs
    monkeypatch.setattr(
        lm.model.elmo, "forward", lambda **given: sizes.append(given["char_ids"].shape[1]) or read(**given)
    )
    monkeypatch.setattr(
        lm.model.softmax, "label_log_probs", lambda *given: sizes.append(len(given[1])) or softmax(*given)
    )
    lm.score([["cat"] * 1000])
    assert max(sizes) == 16


@pytest.mark.parametrize("texts", [None, 3, b"text", [3], [["the", 3]], [b"text"]])
def test_what_is_no_text_is_refused(texts):
    with pytest.raises(TextError) as caught:
        tiny_language_model().score(texts)
    assert "\n" not in str(caught.value)


# ---- without a model named


def test_the_shipped_model_is_loaded_once_and_kept(monkeypatch, tmp_path):
    other = tiny_language_model()
    for part in (other.model.float(), other.tokenizer):
        part.save_pretrained(tmp_path)
    model._cached_model.cache_clear()
    loaded = []
    load = model.load_language_model
    monkeypatch.setattr(model, "load_language_model", lambda name, dtype: loaded.append(name) or load(name, dtype))
    assert elmo_hf.score("He sat.").forward_sum == elmo_hf.score("He sat.").forward_sum
    assert loaded == [elmo_hf.default_model()]
    scores = elmo_hf.score("the cat", tmp_path)
    assert scores.forward_sum == pytest.approx(other.score("the cat").forward_sum, rel=1e-6)
    assert len(VOCABULARY) == other.model.config.vocab_size
    assert len(loaded) == 2
