"""The demo: its text, and what it shows of the model that comes with the package."""

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from elmo_hf import default_model
from elmo_hf.demo.__main__ import main
from elmo_hf.demo.senses import SENSES, contains, mark, nearest, read_sentences, similarity_table, vectors_of_word

# Words of which every sentence of that sense should have one, roughly: word → one set per sense.
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
def tokenizer():
    return AutoTokenizer.from_pretrained(default_model())


@pytest.fixture(scope="module")
def model():
    return AutoModel.from_pretrained(default_model())


def words_of(sentence: str) -> set[str]:
    return set(sentence.replace(",", " ").replace(".", " ").split())


@pytest.mark.parametrize("word", CUES)
def test_the_text_has_each_ambiguous_word_often_in_both_senses(word):
    sentences = [words_of(sentence) for sentence in read_sentences() if contains(sentence, word)]
    for cues, other in (CUES[word], CUES[word][::-1]):
        assert sum(bool(words & cues) and not words & other for words in sentences) >= 25


def test_the_text_is_one_sentence_a_line_and_none_twice():
    sentences = read_sentences()
    assert 350 <= len(sentences) <= 500
    assert len(set(sentences)) == len(sentences)
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)


def test_the_shown_sentences_are_not_in_the_text_and_have_their_word():
    for word, senses in SENSES.items():
        for sentences in senses.values():
            assert not set(sentences) & set(read_sentences())
            assert all(contains(sentence, word) for sentence in sentences)


def test_layer_0_is_the_same_in_every_sentence_and_the_others_are_not(model, tokenizer):
    sentences = ["A bat flew.", "She dropped the bat and ran."]
    vectors = vectors_of_word(model, tokenizer, "bat", sentences)  # (4, 2, 512)
    cosines = (vectors[:, 0] * vectors[:, 1]).sum(dim=-1)
    torch.testing.assert_close(cosines[0], torch.tensor(1.0))
    assert (cosines[1:] < 0.999).all()


def test_the_nearest_occurrence_of_a_sentence_of_the_text_is_itself(model, tokenizer):
    text = read_sentences()
    sentence = next(sentence for sentence in text if contains(sentence, "palm"))
    first, second = nearest(model, tokenizer, "palm", sentence, text, count=2)
    assert first.sentence == sentence
    assert first.similarity == pytest.approx(1.0, abs=1e-5)
    assert second.similarity <= first.similarity


@pytest.mark.parametrize("word", SENSES)
def test_a_word_is_more_like_itself_in_the_same_sense(model, tokenizer, word):
    same, different = (
        [float(cell) for cell in line.split()[2:]]
        for line in similarity_table(model, tokenizer, word, SENSES[word]).splitlines()[1:]
    )
    assert same[0] == different[0] == 1.0  # layer 0 knows no sense
    assert same[-1] > different[-1]  # the mix does


def test_only_the_whole_word_is_marked():
    assert mark("Bats and a bat, not a battle.", "bat") == "Bats and a [bat], not a battle."


def test_the_demo_shows_a_table_and_three_neighbours_for_every_sense(capsys):
    main()
    printed = capsys.readouterr().out
    assert printed.count("different meanings") == len(SENSES)
    for word in SENSES:
        shown = [line for line in printed.splitlines() if f"[{word}]" in line]
        assert len(shown) == 4 + 2 * (1 + 3)  # the sentences, then each sense's neighbours
