"""Senses by the nearest mean and by the nearest occurrences, against a slow computation one occurrence at a time."""

import random
from collections import Counter

import numpy as np
import pytest

from elmo_hf.analysis import layer_vectors
from elmo_hf.analysis.sense_data import SenseInstance, SenseSentence
from elmo_hf.analysis.word_senses import senses
from elmo_hf.errors import RunError, TextError
from tests.analysis.toy import cosine, representations, toy_embedder

FILLERS = ["the", "a", "river", ".", "Zürich", "n't", "money", "宝玉"]
INVENTORY = {"bank": ("noun", ["b1", "b2", "b3"]), "run": ("verb", ["r1", "r2"]), "sun": ("noun", ["s1"])}


def text(count: int, seed: int, lemmas=("bank", "run", "sun")) -> list[SenseSentence]:
    """Random sentences with one or two words that have senses; forms vary, a few have two senses or two words."""
    generator, sentences = random.Random(seed), []
    for _ in range(count):
        words, instances = [], []
        for lemma in generator.choices(lemmas, k=generator.randint(1, 2)):
            words += generator.choices(FILLERS, k=generator.randint(0, 3))
            pos, own = INVENTORY.get(lemma, ("noun", ["new1"]))
            form = [generator.choice([lemma, lemma + "s", lemma.title()])] + ["up"] * (generator.random() < 0.2)
            chosen = tuple(generator.sample(own, 2 if len(own) > 1 and generator.random() < 0.1 else 1))
            instances.append(SenseInstance(len(words), len(words) + len(form), lemma, pos, chosen))
            words += form
        sentences.append(SenseSentence(words, instances, None))
    return sentences


def vectors_of(embedder, sentences):
    """Each instance and its vector, `(representations, size)`."""
    for sentence in sentences:
        layers = representations(embedder, sentence.words)
        for instance in sentence.instances:
            yield instance, layers[:, instance.start : instance.end].mean(axis=1)


def slow(embedder, train, test, neighbors, mix):
    """Answers of all methods that leave no choice, one at a time; `None` where several senses are equally good."""
    layers = len(mix)
    learned = [(one.lemma, sense, vector) for one, vector in vectors_of(embedder, train) for sense in one.senses]
    counts = Counter((lemma, sense) for lemma, sense, _ in learned)
    rows = []
    for one, vector in vectors_of(embedder, test):
        candidates = list(dict.fromkeys(sense for lemma, sense, _ in learned if lemma == one.lemma))
        answers = [max(candidates, key=lambda sense: counts[one.lemma, sense], default="")]
        means = {
            sense: np.mean([v for lemma, s, v in learned if (lemma, s) == (one.lemma, sense)], axis=0)
            for sense in candidates
        }
        for layer in range(len(vector)):
            answers.append(_best({sense: cosine(mean[layer], vector[layer]) for sense, mean in means.items()}, 1e-5))
        mixed = {sense: cosine(mix @ mean[:layers], mix @ vector[:layers]) for sense, mean in means.items()}
        answers.append(_best(mixed, 1e-5))
        for layer in range(len(vector)):
            near = [(cosine(v[layer], vector[layer]), sense) for lemma, sense, v in learned if lemma == one.lemma]
            votes = {}
            if near:
                least = sorted((c for c, _ in near), reverse=True)[:neighbors][-1]
                chosen = [(c, sense) for c, sense in near if c >= least - 1e-6]
                for sense in candidates:
                    own = [c for c, answer in chosen if answer == sense]
                    votes[sense] = len(own) + sum(own) / (2 * len(chosen) + 2)
            answers.append(_best(votes, 1e-3))
        rows.append(answers)
    return rows


def _best(scores, margin):
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    if len(ordered) > 1 and ordered[0][1] - ordered[1][1] < margin:
        return None
    return ordered[0][0] if ordered else ""


@pytest.mark.parametrize("neighbors", [1, 3])
def test_the_answers_are_those_of_the_slow_computation(neighbors, monkeypatch):
    monkeypatch.setattr(layer_vectors, "BLOCK_TOKENS", 60)  # several blocks
    embedder = toy_embedder(scale=3.0)
    train, test = text(50, 0), [*text(25, 1), *text(3, 2, lemmas=["unseen"])]
    results = senses(embedder, train, test, neighbors=neighbors)
    expected = slow(embedder, train, test, neighbors, np.array(results.learned_mix))
    compared = 0
    for place, answers in enumerate(expected):
        for method, answer in enumerate(answers):
            if answer is not None:
                assert results.answers[method, place] == answer, (results.methods[method], place)
                compared += 1
    assert compared > 0.8 * results.answers.size
    assert results.methods[0] == "most frequent sense"
    representations = ["layer 0", "layer 1", "layer 2", "mix"]
    assert results.methods[1:6] == [f"{name}, nearest mean" for name in (*representations, "learned mix")]
    assert results.methods[6:] == [f"{name}, {neighbors} nearest" for name in representations]


def test_accuracy_counts_any_right_sense_and_unanswered_words_as_wrong():
    embedder = toy_embedder()
    train, test = text(40, 0), [*text(20, 1), *text(4, 2, lemmas=["unseen"])]
    results = senses(embedder, train, test)
    wanted = [one for sentence in test for one in sentence.instances]
    for group, pos in (("all", None), ("noun", "noun"), ("verb", "verb")):
        chosen = [place for place, one in enumerate(wanted) if pos in (None, one.pos)]
        column = results.groups.index(group)
        assert results.counts[column] == len(chosen)
        for method, row in enumerate(results.answers):
            right = [row[place] in wanted[place].senses for place in chosen]
            assert results.accuracy[method, column] == pytest.approx(np.mean(right))
    assert results.groups == ["all", "ambiguous", "noun", "verb"]
    assert results.counts[1] == sum(one.lemma in ("bank", "run") for one in wanted)
    assert results.unanswered == sum(one.lemma == "unseen" for one in wanted)
    assert results.fallback == 0


def test_first_senses_answer_for_unseen_words():
    test = text(4, 2, lemmas=["unseen"])
    results = senses(toy_embedder(), text(10, 0), test, first_senses={("unseen", "noun"): "new1"})
    assert (results.unanswered, results.fallback) == (0, int(results.counts[0]))
    np.testing.assert_array_equal(results.accuracy[:, 0], 1.0)
    assert results.methods[:2] == ["most frequent sense", "first sense"]


@pytest.mark.medium
def test_first_senses_are_a_baseline_of_their_own():
    train = [SenseSentence(["bank"], [SenseInstance(0, 1, "bank", "noun", (sense,))]) for sense in ("b1", "b2", "b2")]
    test = [SenseSentence(["bank"], [SenseInstance(0, 1, "bank", "noun", (sense,))]) for sense in ("b1", "b2", "b1")]
    first = senses(toy_embedder(), train, test, first_senses={("bank", "noun"): "b1"})
    assert first.methods[:3] == ["most frequent sense", "first sense", "layer 0, nearest mean"]
    assert first.accuracy[:2, 0].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert first.answers[1].tolist() == ["b1"] * 3
    without = senses(toy_embedder(), train, test)
    np.testing.assert_array_equal(np.delete(first.answers, 1, axis=0), without.answers)
    unknown = senses(toy_embedder(), train, test, first_senses={("sun", "noun"): "s1"})
    assert unknown.answers[1].tolist() == [""] * 3
    assert unknown.unanswered == 0


def test_equally_near_means_are_chosen_at_random_by_the_seed():
    """In layer 0 a word that is always written the same has the same mean for all its senses."""
    train = [SenseSentence(["bank"], [SenseInstance(0, 1, "bank", "noun", (f"b{n}",))]) for n in (1, 2)]
    test = [SenseSentence(["bank"], [SenseInstance(0, 1, "bank", "noun", ("b1",))])] * 60
    answers = [senses(toy_embedder(), train, test, seed=seed).answers for seed in (0, 0, 1)]
    assert set(answers[0][1]) == {"b1", "b2"}
    np.testing.assert_array_equal(answers[0], answers[1])
    assert (answers[0] != answers[2]).any()


def test_equal_votes_are_won_by_the_more_frequent_sense():
    """In layer 0 the two senses of "bank" are equally near; in the whole text one of them is more frequent."""
    forms = [("bank", "b1"), ("bank", "b2"), ("banks", "b2")]
    train = [SenseSentence([form], [SenseInstance(0, 1, "bank", "noun", (sense,))]) for form, sense in forms]
    test = [SenseSentence(["bank"], [SenseInstance(0, 1, "bank", "noun", ("b1",))])]
    results = senses(toy_embedder(), train, test)
    assert results.answers[results.methods.index("layer 0, 1 nearest"), 0] == "b2"


def test_words_with_one_candidate_need_no_model():
    def refuse(*_):
        raise AssertionError("the model was asked")

    embedder = toy_embedder()
    embedder.model.forward = refuse
    results = senses(embedder, text(5, 0, lemmas=["sun"]), text(5, 1, lemmas=["sun"]))
    np.testing.assert_array_equal(results.accuracy, 1.0)
    assert results.groups == ["all", "noun"]
    assert results.learned_mix is None


def test_without_neighbours_there_are_means_only():
    results = senses(toy_embedder(), text(20, 0), text(10, 1), neighbors=0)
    assert len(results.methods) == 6
    with pytest.raises(ValueError, match="0 or more, found -1"):
        senses(toy_embedder(), text(20, 0), text(10, 1), neighbors=-1)


def test_text_without_senses_is_refused():
    plain = [SenseSentence(["a"], [])]
    with pytest.raises(TextError, match="the training text has a sense"):
        senses(toy_embedder(), plain, text(1, 0))
    with pytest.raises(TextError, match="the test text has a sense"):
        senses(toy_embedder(), text(1, 0), plain)


@pytest.mark.medium
def test_a_stopped_analysis_continues_to_the_same_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(layer_vectors, "BLOCK_TOKENS", 60)
    embedder, train, test = toy_embedder(), text(40, 0), text(20, 1)
    expected = senses(embedder, train, test)
    embed, calls = layer_vectors._embed, []

    def stop_after_two(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return embed(*arguments)

    monkeypatch.setattr(layer_vectors, "_embed", stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        senses(embedder, train, test, work=tmp_path / "work")
    again = senses(embedder, train, test, work=tmp_path / "work")
    np.testing.assert_array_equal(again.answers, expected.answers)
    assert again.learned_mix == expected.learned_mix
    embedded = len(calls)
    assert senses(embedder, train, test, work=tmp_path / "work").table() == expected.table()
    assert len(calls) == embedded
    with pytest.raises(RunError, match="different: data"):
        senses(embedder, train, text(20, 2), work=tmp_path / "work")


def test_the_table_has_a_line_for_each_method_and_says_what_is_counted():
    table = senses(toy_embedder(), text(20, 0), text(10, 1)).table()
    lines = table.splitlines()
    assert lines[0].split() == ["all", "ambiguous", "noun", "verb"]
    assert lines[1].startswith("most frequent sense ")
    assert lines[-2].startswith("Accuracy in per cent. Learned from ")
    assert lines[-1].startswith("The learned mix has these shares of the layers: 0.")
