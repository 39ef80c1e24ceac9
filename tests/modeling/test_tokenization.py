"""Text and words become the right ids, rows and offsets: never a wrong row, whatever the text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken

from elmo_hf import ElmoTokenizer
from tests.modeling.test_spelling import original_row

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat", "do", "n't", "know", ".", "I", "<", ">", "\ufffd", "\0", "\0\0"]
BOS, EOS, UNK, PAD = 0, 1, 2, len(VOCABULARY)
BOS_ROW, EOS_ROW = [259, 257, 260, *[261] * 47], [259, 258, 260, *[261] * 47]


@pytest.fixture(scope="module")
def tokenizer():
    return ElmoTokenizer(vocab=VOCABULARY)


def word_id(word):
    return VOCABULARY.index(word) if word in VOCABULARY[3:] else UNK


def words_of(encoded):
    """The words of one encoded text, read from `char_ids`."""
    return ElmoTokenizer().convert_char_ids_to_tokens(encoded["char_ids"], skip_special_tokens=True)


# ---- one text


def test_a_text_becomes_ids_rows_masks_and_offsets(tokenizer):
    text = "I don't know Zyx."
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, return_length=True)
    words = ["I", "do", "n't", "know", "Zyx", "."]
    assert encoded.data == {
        "input_ids": [BOS, *map(word_id, words), EOS],
        "char_ids": [BOS_ROW, *map(original_row, words), EOS_ROW],
        "token_type_ids": [0] * 8,
        "attention_mask": [1] * 8,
        "special_tokens_mask": [1, 0, 0, 0, 0, 0, 0, 1],
        "offset_mapping": [(0, 0), (0, 1), (2, 4), (4, 7), (8, 12), (13, 16), (16, 17), (0, 0)],
        "length": 8,
    }
    assert encoded.word_ids() == [None, 0, 1, 2, 3, 4, 5, None]
    assert encoded.char_to_token(13) == 5
    assert tokenizer.is_fast
    assert tokenizer.model_input_names == ["input_ids", "char_ids", "token_type_ids", "attention_mask"]


def test_what_is_not_wanted_is_left_out(tokenizer):
    assert set(tokenizer("I", return_token_type_ids=False, return_attention_mask=False)) == {"input_ids", "char_ids"}
    assert tokenizer("I know", add_special_tokens=False)["input_ids"] == [word_id("I"), word_id("know")]


@pytest.mark.parametrize("text", ["", " \n\t\u3000 "])
def test_a_text_without_words_is_two_boundaries(tokenizer, text):
    assert tokenizer(text)["char_ids"] == [BOS_ROW, EOS_ROW]


def test_a_text_is_not_cut_into_sentences(tokenizer):
    assert tokenizer("I know. The cat.\n\nI know.")["input_ids"].count(BOS) == 1


def test_without_a_vocabulary_a_word_is_unknown_and_has_its_characters():
    encoded = ElmoTokenizer()("the cat")
    assert encoded["input_ids"] == [0, 2, 2, 1]
    assert encoded["char_ids"] == [BOS_ROW, original_row("the"), original_row("cat"), EOS_ROW]


@pytest.mark.parametrize("splitting", ["treebank", "whitespace"])
@pytest.mark.parametrize(
    "word",
    ["x" * 10_000, "é" * 10_000, "👩‍👧‍👦", "🇩🇪", "e\u0301\u0302", "a\u200bb", "a\u00adb", "\ud83d", "\x07", "\0"],
    ids=ascii,
)
def test_an_odd_word_in_a_text_has_its_own_row(word, splitting):
    encoded = ElmoTokenizer(vocab=VOCABULARY, splitting=splitting)(f"the {word} cat", return_offsets_mapping=True)
    assert encoded["char_ids"][1:-1] == [original_row(each) for each in ("the", word, "cat")]
    assert encoded["offset_mapping"][2] == (4, 4 + len(word))


def test_slots_may_be_other_than_50(tokenizer):
    narrow = ElmoTokenizer(vocab=VOCABULARY, max_characters_per_token=5)
    assert narrow("know abcdef")["char_ids"][1:3] == [original_row("know", 5), original_row("abcdef", 5)]
    with pytest.raises(ValueError, match="between 3 and 1000, found 2"):
        ElmoTokenizer(max_characters_per_token=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["I", "do", "n't", ",", "東", "京", "!"]),
        ({"segmenter": "run"}, ["I", "do", "n't", ",", "東京", "!"]),
        ({"segmenter": lambda run: [run[:1], run[1:]]}, ["I", "do", "n't", ",", "東", "京", "!"]),
        ({"segmenter": "jieba"}, ["I", "do", "n't", ",", "東京", "!"]),
        ({"splitting": "whitespace"}, ["I", "don't,", "東京!"]),
    ],
)
def test_splitting_and_segmenter_say_what_a_word_is(options, words):
    if options.get("segmenter") == "jieba":
        pytest.importorskip("jieba")
    encoded = ElmoTokenizer(vocab=VOCABULARY, **options)(text := "I don't, 東京!", return_offsets_mapping=True)
    assert words_of(encoded) == [text[begin:end] for begin, end in encoded["offset_mapping"][1:-1]] == words
    assert encoded["input_ids"][1:-1] == [word_id(word) for word in words]


def test_a_segmenter_that_loses_characters_is_refused():
    with pytest.raises(ValueError, match="must return words that make up"):
        ElmoTokenizer(segmenter=lambda run: [run[0]])("東京")


@pytest.mark.parametrize("option", [{"splitting": "letters"}, {"segmenter": "letters"}])
def test_an_unknown_choice_is_refused(option):
    with pytest.raises(ValueError, match="letters"):
        ElmoTokenizer(**option)


# ---- words that are given


@pytest.mark.parametrize(
    "words",
    [
        *([], [""], ["", ""], ["the", ""], ["", "cat", "", ""], ["don't", "the cat", " ", "\t"], ["I know.", "東京"]),
        *(["<S>", "</S>", "<UNK>", "<PAD>"], ["\0", "\ud800", "\ufffd", "\uffff"], ["x" * 10_000, "e\u0301", "\u200b"]),
    ],
    ids=ascii,
)
def test_a_given_word_is_one_word(tokenizer, words):
    encoded = tokenizer(words, is_split_into_words=True, return_offsets_mapping=True)
    assert encoded["input_ids"] == [BOS, *map(word_id, words), EOS]
    assert encoded["char_ids"] == [BOS_ROW, *map(original_row, words), EOS_ROW]
    assert encoded.word_ids() == [None, *range(len(words)), None]
    assert encoded["offset_mapping"] == [(0, 0), *[(0, len(word)) for word in words], (0, 0)]


def batch_to_ids(sentences):
    """AllenNLP's, written anew."""
    ids = np.zeros((len(sentences), max(map(len, sentences)), 50), dtype=np.int64)
    for i, words in enumerate(sentences):
        for j, word in enumerate(words):
            ids[i, j] = original_row(word)
    return ids


def test_given_words_have_the_ids_that_allennlp_gives_them(tokenizer, golden):
    sentences = [words for row in golden.sentences for words in row]
    assert len(sentences) == 30
    options = {"is_split_into_words": True, "return_tensors": "np"}
    for words in sentences:
        assert (tokenizer(words, **options)["char_ids"][:, 1:-1] == batch_to_ids([words])).all()
    batch = tokenizer(sentences, add_special_tokens=False, padding=True, **options)["char_ids"]
    assert (batch == batch_to_ids(sentences)).all()


# ---- marks in the text


@pytest.mark.parametrize("pad_in_vocabulary", [False, True])
@pytest.mark.parametrize("mark", ["<S>", "</S>", "<UNK>", "<PAD>"])
def test_a_mark_in_the_text_is_text(mark, pad_in_vocabulary):
    vocabulary = VOCABULARY + ["<PAD>"] * pad_in_vocabulary
    at_blanks = ElmoTokenizer(vocab=vocabulary, splitting="whitespace")
    for encoded in (at_blanks(f"the {mark} cat"), at_blanks(["the", mark, "cat"], is_split_into_words=True)):
        assert encoded["input_ids"] == [BOS, 3, UNK, 4, EOS]
        assert encoded["char_ids"] == [BOS_ROW, *map(original_row, ["the", mark, "cat"]), EOS_ROW]
        assert encoded["attention_mask"] == [1] * 5
    encoded = ElmoTokenizer(vocab=vocabulary)(f"the {mark} cat")
    assert "".join(words_of(encoded)[1:-1]) == mark
    assert set(encoded["input_ids"][1:-1]).isdisjoint({BOS, EOS, at_blanks.pad_token_id})


@pytest.mark.parametrize("splitting", ["treebank", "whitespace"])
@pytest.mark.parametrize(
    ("mark", "mark_id", "row"),
    [("<S>", BOS, BOS_ROW), ("</S>", EOS, EOS_ROW), ("<UNK>", UNK, original_row("<UNK>")), ("<PAD>", PAD, [0] * 50)],
)
def test_a_mark_in_the_text_is_a_mark_on_request(mark, mark_id, row, splitting):
    tokenizer = ElmoTokenizer(vocab=VOCABULARY, splitting=splitting)
    encoded = tokenizer(f"the {mark} cat", split_special_tokens=False)
    assert encoded["input_ids"] == [BOS, 3, mark_id, 4, EOS]
    assert encoded["char_ids"][2] == row
    assert tokenizer(f"the {mark} cat")["char_ids"][2] != row or mark == "<UNK>"  # it was for that call only


def test_a_given_word_is_never_a_mark(tokenizer):
    words = ["<S>", "</S>", "<PAD>"]
    encoded = tokenizer(words, is_split_into_words=True, split_special_tokens=False)
    assert encoded["char_ids"][1:-1] == [original_row(word) for word in words]


# ---- words that are added


@pytest.mark.parametrize("segmenter", ["character", "jieba"])
def test_added_words_are_known_in_texts_and_among_given_words(segmenter):
    tokenizer = ElmoTokenizer(vocab=VOCABULARY, segmenter=segmenter)
    tokenizer("the zebra"), tokenizer(["zebra"], is_split_into_words=True)
    assert tokenizer.add_tokens(["zebra"]) == 1
    zebra = tokenizer.convert_tokens_to_ids("zebra")
    assert zebra == PAD + 1
    for encoded in (tokenizer("the zebra"), tokenizer(["the", "zebra"], is_split_into_words=True)):
        assert encoded["input_ids"] == [BOS, 3, zebra, EOS]
        assert encoded["char_ids"][2] == original_row("zebra")
    assert tokenizer.vocab_size == len(VOCABULARY)
    assert tokenizer.decode([3, zebra]) == "the zebra"


def test_an_added_mark_is_text_by_default():
    tokenizer = ElmoTokenizer(vocab=VOCABULARY, splitting="whitespace")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<X>"]})
    for encoded in (tokenizer("the <X>"), tokenizer(["the", "<X>"], is_split_into_words=True)):
        assert encoded["input_ids"] == [BOS, 3, UNK, EOS]
        assert encoded["char_ids"][2] == original_row("<X>")
    assert tokenizer("the <X>", split_special_tokens=False)["input_ids"] == [BOS, 3, PAD + 1, EOS]


# ---- any text

FRAGMENTS = [
    "<S>",
    "</S>",
    "<UNK>",
    "<PAD>",
    "don't",
    "the",
    "cat",
    " ",
    "\n",
    "\u200d",
    "e\u0301",
    "👩‍👧",
    "東京",
    "ไทย",
]
FRAGMENTS += ["\ud800", "\ufffd", "\uffff", "\0", "\x07", "U.S.", "http://a.b/c", "x" * 60, "é" * 30, "..."]
ANY_TEXT = st.lists(st.sampled_from(FRAGMENTS) | st.text(st.characters(exclude_categories=[]))).map("".join)
TOKENIZERS = {
    name: ElmoTokenizer(vocab=VOCABULARY, **options)
    for name, options in {
        "treebank": {},
        "whitespace": {"splitting": "whitespace"},
        "segmenter": {"segmenter": lambda run: list(run)},
    }.items()
}


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=ANY_TEXT)
def test_every_row_is_the_word_at_its_offsets(kind, text):
    encoded = TOKENIZERS[kind](text, return_offsets_mapping=True)
    spans = encoded["offset_mapping"][1:-1]
    words = [text[begin:end] for begin, end in spans]
    places = [place for span in spans for place in span]
    assert places == sorted(places)
    assert all(words)
    assert encoded["input_ids"] == [BOS, *map(word_id, words), EOS]
    assert encoded["char_ids"] == [BOS_ROW, *map(original_row, words), EOS_ROW]


@given(st.lists(st.lists(ANY_TEXT), min_size=1))
def test_given_words_keep_their_rows_and_places(sentences):
    batch = TOKENIZERS["treebank"](sentences, is_split_into_words=True)
    assert batch["char_ids"] == [[BOS_ROW, *map(original_row, words), EOS_ROW] for words in sentences]
    assert [batch.word_ids(i)[1:-1] for i in range(len(sentences))] == [list(range(len(words))) for words in sentences]


@pytest.mark.medium
@given(texts=st.lists(ANY_TEXT, min_size=1), pairs=st.booleans(), side=st.sampled_from(["left", "right"]))
def test_a_batch_is_its_texts_one_by_one_and_tensors_are_the_lists(texts, pairs, side):
    tokenizer, seconds = TOKENIZERS["treebank"], texts[::-1] if pairs else None
    plain = tokenizer(texts, seconds)
    padded = tokenizer(texts, seconds, padding=True, padding_side=side)
    tensors = tokenizer(texts, seconds, padding=True, padding_side=side, return_tensors="pt")
    for i, text in enumerate(texts):
        one = tokenizer(text, seconds[i] if pairs else None)
        assert {name: values[i] for name, values in plain.items()} == one.data
        kept = np.array(padded["attention_mask"][i]) == 1
        assert {name: np.array(values[i])[kept].tolist() for name, values in padded.items()} == one.data
        assert not np.array(padded["char_ids"][i])[~kept].any()
        assert set(np.array(padded["input_ids"][i])[~kept]) <= {PAD}
    assert {name: values.tolist() for name, values in tensors.items()} == padded.data


def test_tokenize_gives_the_words_known_or_not():
    assert ElmoTokenizer().tokenize("the zebra don't") == ["the", "zebra", "do", "n't"]
    assert ElmoTokenizer().tokenize("a", pair="b", add_special_tokens=True) == ["<S>", "a", "</S>", "<S>", "b", "</S>"]
    assert ElmoTokenizer(segmenter=lambda run: [run[:2], run[2:]]).tokenize("x 黛玉葬花") == ["x", "黛玉", "葬花"]


@pytest.mark.parametrize("segmenter", ["character", lambda run: [run[:2], run[2:]]])
def test_tokenize_keeps_added_words_whole(segmenter):
    tokenizer = ElmoTokenizer(vocab=VOCABULARY, segmenter=segmenter)
    tokenizer.add_tokens(["New York", AddedToken("3.5.x", lstrip=True)])
    text = "the cat in New York, 3.5.x <S>"
    assert tokenizer.tokenize(text) == ["the", "cat", "in", "New York", ",", "3.5.x", "<", "S", ">"]
    assert tokenizer.tokenize(text, split_special_tokens=False)[-1] == "<S>"


@given(text=st.text())
def test_tokenize_and_a_call_give_the_same_words(text):
    tokenizer = TOKENIZERS["treebank"]
    words = [word.encode("utf-8", "ignore")[:48].decode("utf-8", "ignore") for word in tokenizer.tokenize(text)]
    assert words == words_of(tokenizer(text))


LONG = 12 * 10**6


@pytest.mark.medium
@pytest.mark.parametrize("letters", ["a", "a.", "1,", "\u0301"])
def test_a_word_without_end_is_refused_before_rust_gives_up(letters):
    tokenizer, text = ElmoTokenizer(), "the cat " + letters * (LONG // len(letters)) + " sat"
    message = rf"`{{}}` has {LONG:,} characters without a space, and a word may have 1,000,000 at most"
    with pytest.raises(ValueError, match=message.format("text")):
        tokenizer(text)
    with pytest.raises(ValueError, match=message.format(r"text_pair\[1\]")):
        tokenizer(["a", "b"], ["c", text])
    with pytest.raises(ValueError, match=message.format("pair")):
        tokenizer.tokenize("the cat", text)
    with pytest.raises(ValueError, match=message.format(r"text_iterator\[1\]")):
        tokenizer.train_new_from_iterator(["the cat", text], vocab_size=5)


@pytest.mark.medium
def test_long_texts_and_long_given_words_are_not_refused():
    tokenizer, length = ElmoTokenizer(), 1_200_000
    assert len(tokenizer.tokenize("the " * (length // 4))) == length // 4
    assert len(tokenizer.tokenize("黛" * length)) == length  # a script without blanks: each is a word
    word = "a" * LONG
    assert words_of(tokenizer([word], is_split_into_words=True)) == ["a" * 48]
    assert words_of(ElmoTokenizer(splitting="whitespace")(word)) == ["a" * 48]
    with pytest.raises(ValueError, match="1,200,000 characters without a space"):
        ElmoTokenizer(segmenter="run").tokenize("黛" * length)


def test_a_missing_tokenizer_file_is_no_empty_vocabulary(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere\.json is not a tokenizer file"):
        ElmoTokenizer(tokenizer_file=str(tmp_path / "nowhere.json"))
    with pytest.raises(ValueError, match="not both"):
        ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>"], tokenizer_file=str(tmp_path / "nowhere.json"))
    (tmp_path / "config.json").write_text('{"model_type": "elmo"}')
    with pytest.raises(OSError, match=r"tokenizer\.json"):
        ElmoTokenizer.from_pretrained(tmp_path)
