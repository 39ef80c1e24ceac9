"""A vocabulary is the original's file or made from text, in the order the softmax needs; a bad one is refused."""

from collections import Counter

import pytest

from elmo_hf import ElmoTokenizer
from elmo_hf.vocabulary_elmo import frequent_words, index_words, read_vocabulary, write_vocabulary
from tests.conftest import find_data

SPECIALS = ["<S>", "</S>", "<UNK>"]


@pytest.fixture
def vocabulary_file(tmp_path):
    def write(content: bytes):
        path = tmp_path / "vocab.txt"
        path.write_bytes(content)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<S>\n</S>\n<UNK>\nthe\ncat\n", ["the", "cat"]),
        (b"<S>\n</S>\n<UNK>\nthe\ncat", ["the", "cat"]),
        (b"<S>\r\n</S>\r\n<UNK>\r\nthe\r\ncat\r\n", ["the", "cat"]),
        (b"<S>\n</S>\n<UNK>\nthe\n!!!MAXTERMID\n", ["the"]),
        ("<S>\n</S>\n<UNK>\n東京\na\u2028b\nc\x85d\n\u3000\n".encode(), ["東京", "a\u2028b", "c\x85d", "\u3000"]),
    ],
    ids=["plain", "no last newline", "CRLF", "terminator", "other line ends are characters"],
)
def test_words_are_the_lines_of_the_file(vocabulary_file, content, words):
    tokenizer = ElmoTokenizer(vocab_file=vocabulary_file(content))
    assert tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size)) == SPECIALS + words
    assert tokenizer.vocab_size == tokenizer.pad_token_id == len(words) + 3
    assert tokenizer(words, is_split_into_words=True)["input_ids"] == [0, *range(3, len(words) + 3), 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the\ncat\n", "lacks <S>, </S>, <UNK>"),
        (b"</S>\n<UNK>\nthe\n", "lacks <S>:"),
        (b"<S>\n</S>\nthe\n", "lacks <UNK>"),
        (b"<S>\n</S>\n<UNK>\nthe\ncat\nthe\n", "'the' twice, as word 3 and as word 5"),
        (b"<S>\n</S>\n<UNK>\n\nthe\n", "Word 3 of the vocabulary is empty"),
        (b"<S>\n</S>\n<UNK>\na\xef\xbf\xbfb\n", r"Word 3 .* holds U\+FFFF"),
        (b"<S>\n</S>\n<UNK>\ncaf\xe9\n", "not UTF-8"),
        (b"", "lacks"),
    ],
)
def test_a_bad_file_is_refused(vocabulary_file, content, message):
    with pytest.raises(ValueError, match=message):
        ElmoTokenizer(vocab_file=vocabulary_file(content))


@pytest.mark.parametrize("ids", [{"a": 4}, {"a": 2}, {"a": -1}, {"a": 3, "b": 5}])
def test_ids_of_a_dictionary_must_be_dense(ids):
    with pytest.raises(ValueError, match="each once"):
        ElmoTokenizer(vocab={"<S>": 0, "</S>": 1, "<UNK>": 2} | ids)


def test_a_dictionary_keeps_its_ids_whatever_their_order():
    tokenizer = ElmoTokenizer(vocab={"cat": 0, "<UNK>": 3, "</S>": 2, "<S>": 1})
    assert tokenizer("cat dog")["input_ids"] == [1, 0, 3, 2]


def test_written_words_are_read_again(tmp_path):
    words = [*SPECIALS, "a b", "ünï", "c\rd", "\x0c", "e\u2029f"]
    write_vocabulary(words, tmp_path / "vocab.txt")
    assert read_vocabulary(tmp_path / "vocab.txt") == words


def test_specials_need_not_come_first():
    assert index_words(["a", *SPECIALS], SPECIALS) == {"a": 0, "<S>": 1, "</S>": 2, "<UNK>": 3}


def test_the_originals_vocabulary_is_read():
    path = find_data("fixtures", "allennlp", "vocab_test.txt")
    words = path.read_text("utf-8").split()
    tokenizer = ElmoTokenizer(vocab_file=str(path))
    assert words[:2] == ["good", "Why"]  # here the marks do not come first
    assert tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size)) == words


def test_frequent_words_come_first_and_ties_by_the_alphabet():
    counts = Counter({"b": 2, "a": 2, "z": 9, "once": 1, "<S>": 50, "\uffff": 7, "!!!MAXTERMID": 8})
    assert frequent_words(counts, SPECIALS, size=99) == [*SPECIALS, "z", "a", "b", "once"]
    assert frequent_words(counts, SPECIALS, size=99, min_frequency=2) == [*SPECIALS, "z", "a", "b"]
    assert frequent_words(counts, SPECIALS, size=4) == [*SPECIALS, "z"]
    assert frequent_words(counts, SPECIALS, size=3) == SPECIALS
    with pytest.raises(ValueError, match="2 words has no room"):
        frequent_words(counts, SPECIALS, size=2)


TEXTS = ["The cat saw the dog.", "the dog didn't see the cat", "a cat <PAD> <S> \ud800 \0\0"]


def words_of(tokenizer):
    return tokenizer.convert_ids_to_tokens(range(3, tokenizer.vocab_size))


def test_a_vocabulary_from_text_is_in_the_order_of_frequency():
    tokenizer = ElmoTokenizer().train_new_from_iterator(TEXTS, vocab_size=10)
    assert words_of(tokenizer) == ["cat", "the", "\0", "<", ">", "dog", "."]
    assert tokenizer.pad_token_id == tokenizer.vocab_size == 10


def test_texts_may_come_in_batches():
    by_text, by_batch = (
        ElmoTokenizer().train_new_from_iterator(texts, 99) for texts in (TEXTS, [TEXTS[:2], TEXTS[2:]])
    )
    assert by_text.get_vocab() == by_batch.get_vocab()
    assert words_of(by_batch) == words_of(ElmoTokenizer().train_new_from_iterator(iter([iter(TEXTS)]), 99))


def test_rare_words_are_left_out():
    assert words_of(ElmoTokenizer().train_new_from_iterator(TEXTS, 99, min_frequency=3)) == ["cat", "the"]


def test_marks_in_a_text_do_not_become_words():
    tokenizer = ElmoTokenizer(splitting="whitespace").train_new_from_iterator(["<S> <PAD> a", "<UNK> </S> a"], 99)
    assert words_of(tokenizer) == ["a"]
    assert tokenizer.pad_token_id == 4


def test_the_new_tokenizer_is_like_the_old():
    old = ElmoTokenizer(
        splitting="whitespace",
        max_characters_per_token=20,
        split_special_tokens=False,
        bos_token="[",
        eos_token="]",
        padding_side="left",
        model_max_length=7,
    )
    new = old.train_new_from_iterator(["don't stop."], 99)
    assert words_of(new) == ["don't", "stop."]
    encoded = new("don't ] stop.", padding="max_length")
    assert encoded["input_ids"] == [5, 5, 0, 3, 1, 4, 1]  # as the old one: at blanks, `]` a mark, filled on the left
    assert {len(row) for row in encoded["char_ids"]} == {20}


@pytest.mark.parametrize("texts", ["one string", [None], [["a", 1]], [5]])
def test_what_is_no_text_is_refused(texts):
    with pytest.raises(ValueError, match="text_iterator"):
        ElmoTokenizer().train_new_from_iterator(texts, 99)


@pytest.mark.parametrize("option", [{"new_special_tokens": ["<X>"]}, {"special_tokens_map": {}}, {"limit": 3}])
def test_special_tokens_stay(option):
    with pytest.raises(ValueError, match="special tokens stay"):
        ElmoTokenizer().train_new_from_iterator(TEXTS, 99, **option)


@pytest.mark.parametrize("word", ["two\nlines", "end\r"])
def test_a_word_that_a_file_would_cut_is_refused(word):
    with pytest.raises(ValueError, match="holds a line break"):
        index_words(["<S>", word], [])
