"""The demo: its text, and what it shows of the model that comes with the package."""

import numpy as np
import pytest
import torch

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer, default_model
from elmo_hf.demo import __main__ as demo
from elmo_hf.demo.picture import find_font
from elmo_hf.demo.senses import find_uses, mark, nearest_sense, similarities
from elmo_hf.demo.texts import TEXTS
from elmo_hf.embedding import Occurrence
from elmo_hf.errors import ModelError
from elmo_hf.modeling.word_splitting_elmo import split_text, word_pre_tokenizer
from tests.demo.toy import toy_uses

pytestmark = pytest.mark.medium
ENGLISH, CHINESE = TEXTS["en"], TEXTS["zh"]

# Words of which most sentences of that sense have one, and few of the other: word → one set per sense.
CUES = {
    "bank": (
        {"river", "water", "muddy", "grassy", "stream", "boat", "fish", "willow", "ducks", "grass", "mud", "swam"},
        {"money", "loan", "account", "interest", "savings", "cash", "pay", "paid", "bill", "manager", "job"},
    ),
    "bat": (
        {"cave", "night", "dark", "wings", "barn", "roof", "insects", "moth", "moths", "flew", "fly", "sleeps"},
        {"ball", "game", "team", "coach", "player", "swung", "swing", "gloves", "pitcher", "wooden", "crowd"},
    ),
    "spring": (
        {"garden", "flowers", "green", "trees", "winter", "summer", "warm", "rain", "birds", "roses", "late", "early"},
        {"steel", "metal", "lock", "clock", "lid", "mechanic", "door", "machine", "wire", "watch", "key", "chair"},
    ),
    "match": (
        {"team", "teams", "won", "lost", "goal", "goals", "players", "player", "fans", "referee", "final", "watched"},
        {"lit", "light", "candle", "fire", "struck", "burn", "burned", "burning", "box", "smoke", "flame", "dark"},
    ),
    "palm": (
        {"beach", "island", "tall", "shade", "coconut", "leaves", "sea", "trunk", "hut", "monkey", "top", "climbed"},
        {"hand", "fingers", "her", "his", "my", "skin", "coin", "ring", "cut"},
    ),
}


@pytest.fixture(scope="module")
def embedder():
    return ElmoEmbedder.from_pretrained()


def words_of(sentence: str) -> set[str]:
    return set(sentence.replace(",", " ").replace(".", " ").split())


# ---- the text


@pytest.mark.parametrize("word", ENGLISH.senses)
def test_each_sense_has_many_sentences_and_they_are_of_that_sense(word):
    for sense, own, other in zip(ENGLISH.senses[word], CUES[word], CUES[word][::-1], strict=True):
        sentences = [words_of(sentence) for sentence in ENGLISH.read()[word][sense]]
        assert sum(bool(words & {word, word.capitalize()}) for words in sentences) >= 47
        with_own, with_other = (sum(bool(words & cues) for words in sentences) for cues in (own, other))
        assert with_own > len(sentences) / 2 > 2 * with_other


def test_the_text_is_one_sentence_a_line_and_none_twice():
    sentences = ENGLISH.sentences()
    assert len(set(sentences)) == len(sentences) > 500
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize("texts", TEXTS.values(), ids=list(TEXTS))
def test_the_examples_are_not_in_the_text(texts):
    examples = {line for senses in texts.examples.values() for part in senses.values() for line in part}
    assert not {*texts.sentences()} & examples


def test_jieba_finds_the_word_in_each_chinese_sentence():
    pre_tokenizer = word_pre_tokenizer("treebank", "jieba")
    for texts in (CHINESE.read(), CHINESE.examples):
        for word, senses in texts.items():
            for sentence in (line for part in senses.values() for line in part):
                assert word in split_text(sentence, pre_tokenizer), sentence


def test_the_chinese_text_is_one_sentence_per_line_and_none_twice():
    sentences = CHINESE.sentences()
    assert len(set(sentences)) == len(sentences) == 160
    assert all(sentence.endswith("。") for sentence in sentences)
    assert all(len(part) == 16 for senses in CHINESE.read().values() for part in senses.values())


# ---- what is computed


@pytest.mark.parametrize("word", ENGLISH.examples)
def test_a_word_is_more_like_itself_in_the_same_sense(embedder, word):
    means = similarities(find_uses(embedder, word, ENGLISH.examples[word]))
    same, different = means["same meaning"], means["different meanings"]
    assert same[0] == different[0] == pytest.approx(1)  # layer 0 knows no sense
    assert same[-1] > different[-1]  # the mix does


def test_the_mix_is_the_models_own(embedder):
    uses = find_uses(embedder, "bat", {"animal": ["A bat flew."], "club": ["She dropped the bat and ran."]})
    mixed = np.stack([use.vector for use in embedder.words([use.sentence for use in uses.occurrences], "bat")])
    np.testing.assert_allclose(uses.vectors[-1], mixed / np.linalg.norm(mixed, axis=1, keepdims=True), atol=1e-5)
    assert uses.senses == ["animal", "club"]


def test_the_nearest_other_use_decides_and_equals_share():
    distinct = toy_uses([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], "aabb")
    np.testing.assert_allclose(nearest_sense(distinct), [1])
    mixed = toy_uses([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], "abab")
    np.testing.assert_allclose(nearest_sense(mixed), [0])
    equal = toy_uses([[1, 0]] * 4, "aabb")
    np.testing.assert_allclose(nearest_sense(equal), [1 / 3])


def test_a_use_is_not_compared_with_one_in_its_own_sentence():
    uses = toy_uses([[1, 0], [1, 0], [0, 1], [0.5, 1]], "aabb", numbers=[0, 0, 1, 2])
    np.testing.assert_allclose(nearest_sense(uses), [0.5])


def test_the_word_is_marked_where_it_stands():
    occurrence = Occurrence("bat", np.ones(1), "Bats and a bat, not a battle.", 11, 14, 0, 3)
    assert mark(occurrence) == "Bats and a [bat], not a battle."


# ---- what is shown


def test_the_demo_shows_tables_neighbours_accuracies_and_a_picture(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo.run(None, "en")
    printed = capsys.readouterr().out
    assert printed.count("different meanings") == len(ENGLISH.examples)
    for word in ENGLISH.examples:
        shown = [line for line in printed.splitlines() if f"[{word}]" in line]
        assert len(shown) == 4 + 2 * (1 + 3)  # the sentences, then each sense's neighbours
    for word in ENGLISH.senses:
        (line,) = (line for line in printed.splitlines() if line.startswith(f"{word}, "))
        chance, *layers = map(float, line.split()[-4:])
        assert chance == pytest.approx(0.5, abs=0.02)
        assert min(layers) >= 0.8
    assert f"{tmp_path / 'demo.png'}: “palm”" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["demo.png"]


def test_the_demo_shows_chinese_words_with_a_chinese_model(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>"], segmenter="jieba")
    torch.manual_seed(0)
    config = ElmoConfig(
        char_filters=[[3, 8]], num_highway_layers=1, cell_size=8, projection_size=4, vocab_size=tokenizer.vocab_size
    )
    ElmoEmbedder(ElmoModel(config), tokenizer).save_pretrained(tmp_path / "model")
    demo.run(str(tmp_path / "model"), "zh")
    printed = capsys.readouterr().out
    for word in CHINESE.examples:
        shown = [line for line in printed.splitlines() if f"[{word}]" in line]
        assert len(shown) == 4 + 2 * (1 + 3)
    assert all(f"{word}, 32 uses" in printed for word in CHINESE.senses)
    assert (tmp_path / "demo.png").exists() == (find_font("苹果") is not None)


def test_a_language_without_a_model_is_named():
    with pytest.raises(ModelError, match=r"No model of the language 'fr' comes with this package.*there is en"):
        default_model("fr")
