# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The demo: its text, its loss, its loop and what it prints."""

import pytest
import torch

from elmo_hf import ElmoTokenizer
from elmo_hf.demo.__main__ import print_losses, print_neighbours, print_similarities
from elmo_hf.demo.senses import NEW_SENTENCES, contains, mark, nearest, vectors_of_word
from elmo_hf.demo.training import build_model, evaluate, language_model_losses, read_sentences, train

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


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As in the demo; more are slower on matrices this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer().train_new_from_iterator(read_sentences(), vocab_size=5000)


@pytest.fixture
def untrained(tokenizer):
    torch.manual_seed(0)
    model, softmax = build_model(tokenizer.vocab_size)
    return model.eval(), softmax


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


def test_the_shown_sentences_are_new_and_made_of_words_the_model_has_read(tokenizer):
    shown = [sentence for senses in NEW_SENTENCES.values() for group in senses.values() for sentence in group]
    assert not set(shown) & set(read_sentences())
    assert not any(tokenizer.unk_token_id in ids for ids in tokenizer(shown)["input_ids"])


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_each_direction_predicts_every_word_and_its_closing_boundary_once(untrained, tokenizer, padding_side):
    model, softmax = untrained
    sentences = ["We sat on the bank.", "A bat flew.", "She struck a match and lit the candle."]
    batch = tokenizer(sentences, padding=True, padding_side=padding_side, return_tensors="pt")
    losses = language_model_losses(model, softmax, batch)

    forward, backward = [], []
    for sentence in sentences:
        row = tokenizer(sentence, return_tensors="pt")
        top = model(**row, output_hidden_states=True).hidden_states[-1][0]  # (words, 128)
        ids = row["input_ids"][0].tolist()
        for place, word in enumerate(ids):
            if place > 0:  # all but <S>
                forward.append(-softmax(top[place - 1, :64]).log_softmax(-1)[word])
            if place < len(ids) - 1:  # all but </S>
                backward.append(-softmax(top[place + 1, 64:]).log_softmax(-1)[word])
    torch.testing.assert_close(losses.forward, torch.stack(forward).mean())
    torch.testing.assert_close(losses.backward, torch.stack(backward).mean())


def test_a_few_steps_lower_the_loss_of_both_directions_and_repeat_exactly(tokenizer):
    sentences = read_sentences()[:64]
    ends = []
    for _ in range(2):
        torch.manual_seed(0)
        model, softmax = build_model(tokenizer.vocab_size)
        start = evaluate(model, softmax, tokenizer, sentences)
        train(model, softmax, tokenizer, sentences, epochs=5)
        ends.append(evaluate(model, softmax, tokenizer, sentences))
    assert ends[0].forward < start.forward - 1
    assert ends[0].backward < start.backward - 1
    assert ends[0] == ends[1]


def test_layer_0_is_the_same_in_every_sentence_and_the_others_are_not(untrained, tokenizer):
    sentences = ["A bat flew.", "She dropped the bat and ran."]
    vectors = vectors_of_word(untrained[0], tokenizer, "bat", sentences)  # (4, 2, 128)
    cosines = (vectors[:, 0] * vectors[:, 1]).sum(dim=-1)
    torch.testing.assert_close(cosines[0], torch.tensor(1.0))
    assert (cosines[1:] < 0.999).all()


def test_the_nearest_occurrence_of_a_sentence_of_the_text_is_itself(untrained, tokenizer):
    text = read_sentences()
    sentence = next(sentence for sentence in text if contains(sentence, "palm"))
    first, second = nearest(untrained[0], tokenizer, "palm", sentence, text, count=2)
    assert first.sentence == sentence
    assert first.similarity == pytest.approx(1.0, abs=1e-5)
    assert second.similarity <= first.similarity


def test_only_the_whole_word_is_marked():
    assert mark("Bats and a bat, not a battle.", "bat") == "Bats and a [bat], not a battle."


def test_what_is_printed_has_a_row_for_every_pair_and_three_neighbours_for_every_sense(untrained, tokenizer, capsys):
    model, softmax = untrained
    text = read_sentences()
    losses = evaluate(model, softmax, tokenizer, text[:8])
    print_losses(losses, losses)
    print_similarities(model, tokenizer)
    print_neighbours(model, tokenizer, text)
    printed = capsys.readouterr().out
    assert "  forward " in printed
    assert "  backward " in printed
    for word, (one, two) in ((word, tuple(senses)) for word, senses in NEW_SENTENCES.items()):
        for pair in (f"{one} 1, {one} 2", f"{two} 1, {two} 2", f"{one} 1, {two} 1", f"{one} 2, {two} 2"):
            assert f"  {pair} " in printed
        assert printed.count(f"[{word}]") >= 4 + 2 * (1 + 3)  # the new sentences, then each sense's neighbours
