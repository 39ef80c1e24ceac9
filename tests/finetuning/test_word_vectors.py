"""Word vectors from files: the task's words and the frequent ones, with a fallback for case."""

import numpy as np
import pytest

from elmo_hf import ElmoTokenizer
from elmo_hf.errors import TextError
from elmo_hf.finetuning import learned_vectors, vectors_from_file
from elmo_hf.finetuning.word_vectors import read_vectors

GLOVE = "the 1 2\ncat 3 4\nParis 5 6\nrare 7 8\nrarer 9 10\n"


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> str:
        (tmp_path / "vectors.txt").write_text(text, encoding="utf-8")
        return str(tmp_path / "vectors.txt")

    return write


@pytest.mark.parametrize(
    "text", [GLOVE, "5 2\n" + GLOVE, GLOVE.replace("\n", " \n")], ids=["glove", "word2vec", "blanks"]
)
def test_frequent_words_and_wanted_ones_are_read(file, text):
    vectors = read_vectors(file(text), {"rarer", "unknown"}, max_words=3 if text[0] == "5" else 2)
    assert {word: vector.tolist() for word, vector in vectors.items()} == {
        "the": [1, 2],
        "cat": [3, 4],
        "rarer": [9, 10],
    }


def test_a_word_is_looked_up_as_it_is_then_in_lower_case_and_file_words_have_their_capital_form(file):
    vectors = vectors_from_file(file(GLOVE), ElmoTokenizer(), ["CAT", "Paris", *["blub"] * 2, "The", "once"])

    def vector_of(word):
        return vectors.vectors[vectors.tokenizer.convert_tokens_to_ids(word)].tolist()

    assert vector_of("CAT") == vector_of("cat") == vector_of("Cat") == [3, 4]
    assert vector_of("The") == vector_of("the") == [1, 2]
    assert vector_of("Paris") == [5, 6]
    assert vector_of("Rare") == [7, 8]
    assert vector_of("RARE") == [7, 8]
    assert np.isnan(vector_of("blub")).all()
    assert vectors.tokenizer.convert_tokens_to_ids("once") == vectors.tokenizer.unk_token_id
    assert vectors.tokenizer.convert_ids_to_tokens([0, 1, 2]) == ["<S>", "</S>", "<UNK>"]
    assert np.isnan(vectors.vectors[:3]).all()
    assert len(vectors.vectors) == vectors.tokenizer.vocab_size


def test_the_rows_are_in_the_order_of_the_data(file):
    words = [f"mIx{letter}" for letter in "hbgaecfd"]  # only their lower-case forms are in the file
    path = file("".join(f"{word.lower()} 1 2\n" for word in sorted(words)))
    vectors = vectors_from_file(path, ElmoTokenizer(), [], max_words=0, other_words=words)
    rows = vectors.tokenizer.convert_ids_to_tokens(list(range(vectors.tokenizer.vocab_size)))
    assert [row for row in rows if row in words] == words


def test_the_new_tokenizer_cuts_text_as_the_old_one():
    old = ElmoTokenizer(splitting="whitespace", padding_side="left")
    vectors = learned_vectors(old, ["don't", "stop.", "don't", "stop.", "<PAD>", "<PAD>", "once"], size=4)
    assert vectors.tokenizer.tokenize("don't stop.") == ["don't", "stop."]
    assert vectors.tokenizer.padding_side == "left"
    assert vectors.vectors.shape == (5, 4)
    assert vectors.tokenizer("don't go")["input_ids"] == [0, 3, 2, 1]


def test_words_with_blanks_inside_and_the_word_for_padding_shift_nothing(file):
    path = file("the 1 2\n. . . 3 4\n<PAD> 0 0\nat name@domain.com 5 6\ncat 7 8\n")
    vectors = vectors_from_file(path, ElmoTokenizer(), ["cat", "<PAD>"], other_words=["The", "unknown"])
    assert vectors.vectors[vectors.tokenizer.convert_tokens_to_ids("cat")].tolist() == [7, 8]
    assert vectors.vectors[vectors.tokenizer.convert_tokens_to_ids("The")].tolist() == [1, 2]
    assert vectors.tokenizer.convert_tokens_to_ids("unknown") == vectors.tokenizer.unk_token_id
    assert len(vectors.vectors) == vectors.tokenizer.vocab_size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2\ncat 3\n", "line 2: a word and 2 numbers, as in line 1, should be here"),
        ("the 1 2\ncat 3 4 5\n", "line 2: a word and 2 numbers, as in line 1, should be here"),
        ("the 1 2\ncat 3 x\n", "line 2: could not convert"),
        ("the 1 2\ncat\n", "line 2: a word and 2 numbers, as in line 1, should be here"),
        ("the\n", "line 1: a word and its numbers should be here"),
        ("", "holds no word vectors"),
    ],
    ids=str,
)
def test_what_is_no_vector_is_named_with_its_place(file, text, message):
    with pytest.raises(TextError, match=message):
        read_vectors(file(text), set(), max_words=10)
