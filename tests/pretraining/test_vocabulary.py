"""A vocabulary holds the frequent words of a corpus as the tokenizer will read them, in the order the softmax needs."""

import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoTokenizer
from elmo_hf.errors import TextError
from elmo_hf.modeling.tokenizer_files_elmo import read_vocabulary
from elmo_hf.pretraining.text import Corpus, split_words
from elmo_hf.pretraining.vocabulary import Vocabulary, build_vocabulary, count_words
from tests.conftest import find_data

SPECIALS = ["<S>", "</S>", "<UNK>"]
SENTENCES = ["The cat didn't see the dog.", "the dog saw the cat", "", "a cat <PAD> <S> 猫が好き"]


@pytest.fixture
def corpus(tmp_path):
    def write(*lines: str):
        path = tmp_path / "text.txt"
        path.write_text("\n".join(lines), "utf-8")
        return Corpus(path)

    return write


def build(corpus: Corpus, tokenizer: ElmoTokenizer | None = None, size: int = 99, **options) -> Vocabulary:
    return build_vocabulary(corpus, tokenizer or ElmoTokenizer(), size=size, progress=False, **options)


@pytest.mark.parametrize("splitting", ["treebank", "whitespace"])
@pytest.mark.parametrize("segmenter", ["character", "run", lambda run: [run[:1], run[1:]]])
@pytest.mark.parametrize(("size", "min_count"), [(99, 1), (99, 2), (7, 1)])
def test_the_words_are_those_of_the_tokenizers_own_training(corpus, splitting, segmenter, size, min_count):
    tokenizer = ElmoTokenizer(splitting=splitting, segmenter=segmenter)
    trained = tokenizer.train_new_from_iterator(SENTENCES, size, min_frequency=min_count)
    words = build(corpus(*SENTENCES), tokenizer, size, min_count=min_count).words
    assert words == trained.convert_ids_to_tokens(range(trained.vocab_size))


def test_frequent_words_come_first_and_ties_by_the_alphabet(corpus):
    text = corpus("c b a", "b d's a", "", "z z z")
    assert build(text, pretokenized=True) == Vocabulary([*SPECIALS, "z", "a", "b", "c", "d's"], tokens=9, covered=9)
    assert build(text, pretokenized=True, min_count=2) == Vocabulary([*SPECIALS, "z", "a", "b"], tokens=9, covered=7)
    assert build(text, pretokenized=True, size=4) == Vocabulary([*SPECIALS, "z"], tokens=9, covered=3)
    assert build(text, pretokenized=True, size=3) == Vocabulary(SPECIALS, tokens=9, covered=0)
    assert build(text).words == [*SPECIALS, "z", "a", "b", "'s", "c", "d"]


def test_marks_in_the_text_are_no_words_and_not_covered(corpus):
    text = corpus("<S> a </S> <UNK> <PAD> b", "a [ b")
    assert build(text, pretokenized=True) == Vocabulary([*SPECIALS, "a", "b", "["], tokens=9, covered=5)
    assert build(text, ElmoTokenizer(bos_token="["), pretokenized=True).words[:3] == ["[", "</S>", "<UNK>"]


@pytest.mark.medium
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_a_counted_word_is_known_to_the_tokenizer(sentences):
    counts = count_words(sentences, ElmoTokenizer(), pretokenized=True)
    assert counts == Counter(word for sentence in sentences for word in split_words(sentence))
    words = [word for word in counts if word not in [*SPECIALS, "<PAD>"] and "\uffff" not in word]
    tokenizer = ElmoTokenizer(vocab=[*SPECIALS, *words], splitting="whitespace")
    unknown = {tokenizer.unk_token_id}
    for sentence in sentences:
        given_words = [word for word in split_words(sentence) if word in words]
        assert not unknown & set(tokenizer(given_words, is_split_into_words=True)["input_ids"])
        assert not unknown & set(tokenizer(" ".join(given_words))["input_ids"])


@pytest.mark.parametrize("splitting", ["treebank", "whitespace"])
@given(st.lists(st.text()))  # surrogates included
def test_raw_text_is_counted_as_the_tokenizer_cuts_it(splitting, sentences):
    tokenizer = ElmoTokenizer(splitting=splitting)
    cut = Counter(word for sentence in sentences for word in tokenizer.tokenize(sentence))
    assert count_words(sentences, tokenizer, pretokenized=False).total() == cut.total()
    if all(sentence.isascii() for sentence in sentences):
        assert count_words(sentences, tokenizer, pretokenized=False) == cut


def test_a_segmenters_error_is_the_users(corpus):
    tokenizer = ElmoTokenizer(segmenter=lambda run: ["wrong"])
    with pytest.raises(ValueError, match=r"segmenter .* must return words that make up"):
        build(corpus("猫が好き"), tokenizer)


def test_a_size_without_room_is_refused_before_the_text_is_read(tmp_path):
    (tmp_path / "binary").write_bytes(b"\0")
    with pytest.raises(ValueError, match="2 words has no room for <S>, </S>, <UNK>"):
        build(Corpus(tmp_path), size=2)


def test_a_count_that_no_word_reaches_is_refused(corpus):
    with pytest.raises(TextError, match="No word occurs 3 times, and the most frequent one 2: choose a lower count"):
        build(corpus("a b a"), min_count=3)


@pytest.mark.parametrize("progress", [True, False])
def test_a_text_without_words_is_refused(corpus, progress):
    with pytest.raises(TextError, match="not a single sentence"):
        build_vocabulary(corpus("", " "), ElmoTokenizer(), size=99, progress=progress)


def test_progress_is_shown_to_the_end_on_a_terminal_and_only_on_request(corpus, capsys, monkeypatch):
    text = corpus(*["some words of a text"] * 100)
    quiet = build_vocabulary(text, ElmoTokenizer(), size=99, progress=False)
    assert capsys.readouterr() == ("", "")
    assert build_vocabulary(text, ElmoTokenizer(), size=99) == quiet
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert build_vocabulary(text, ElmoTokenizer(), size=99) == quiet
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "100%" in shown.err
    assert "sentences/s" in shown.err


@pytest.mark.medium
def test_frequent_words_of_a_part_are_in_the_vocabulary_made_of_the_whole():
    folder = find_data("corpora", "english")
    whole = read_vocabulary(folder / "vocab.txt")
    part = build(Corpus(folder / "english-012.txt.xz"), size=10**9, min_count=5, pretokenized=True)
    assert part.words[:3] == whole[:3]
    assert set(part.words) <= set(whole)
    assert len(part.words) > 30_000
    assert part.covered / part.tokens > 0.95
