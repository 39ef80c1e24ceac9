"""A bad tokenizer file never reads other files, panics or takes much memory; vocabularies have the original's order."""

import json
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from elmo_hf import ElmoTokenizer
from elmo_hf.modeling import tokenizer_files_elmo
from elmo_hf.modeling.tokenizer_files_elmo import (
    frequent_words,
    index_words,
    load_backend,
    read_vocabulary,
    write_vocabulary,
)
from tests.conftest import find_data
from tests.untrusted import damaged_bytes, damaged_json, save_tiny_folder

# ==== Untrusted files

TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
TEXTS = ["The cat sat on the mat, didn't it?", "<S> ", "我在IBM工作 ."]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder that is left as it is."""
    return save_tiny_folder(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def folder(saved, tmp_path):
    """A folder to be made bad."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.fixture(scope="module")
def scratch(saved, tmp_path_factory):
    """A folder that property tests write into again and again."""
    return Path(shutil.copytree(saved, tmp_path_factory.mktemp("scratch") / "model"))


def edit(path: Path, **fields):
    """Changes fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def load_and_use(folder):
    return ElmoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="np")


# Files elsewhere


@pytest.mark.parametrize("setting", ["vocab_file", "tokenizer_file", "merges_file", "special_tokens_map_file"])
@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", r"..\secret.txt", "inner/secret.txt", 3])
def test_settings_that_name_a_file_elsewhere_are_refused(folder, setting, name):
    (folder.parent / "secret.txt").write_text("<S>\n</S>\n<UNK>\nsecret\n")
    edit(folder / SETTINGS, **{setting: name})
    for load in (ElmoTokenizer.from_pretrained, AutoTokenizer.from_pretrained):
        with pytest.raises(ValueError, match=rf"tokenizer_config\.json is refused: `{setting}` names .*remove it"):
            load(folder)


def test_settings_that_name_a_versioned_file_elsewhere_are_refused(folder):
    shutil.copy(folder / TOKENIZER, folder.parent / "tokenizer.4.0.0.json")
    edit(folder / SETTINGS, fast_tokenizer_files=["tokenizer.json", "../tokenizer.4.0.0.json"])
    with pytest.raises(ValueError, match=r"`fast_tokenizer_files` names .*outside of its folder"):
        ElmoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "fields", [{"init_inputs": [None, "/etc/passwd"]}, {"tokenizer_object": {}, "gguf_file": "x.gguf"}]
)
def test_settings_that_give_another_source_are_refused(folder, fields):
    edit(folder / SETTINGS, **fields)
    with pytest.raises(ValueError, match=r"has no place in a tokenizer's settings, remove it"):
        ElmoTokenizer.from_pretrained(folder)


def test_the_files_own_names_and_a_callers_file_are_fine(folder, tmp_path):
    expected = load_and_use(folder)
    edit(folder / SETTINGS, vocab_file="vocab.txt", tokenizer_file=None, special_tokens_map_file=None)
    for name, rows in load_and_use(folder).items():
        assert (rows == expected[name]).all()
    moved = shutil.move(folder / TOKENIZER, tmp_path / "other.json")
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    tokenizer = ElmoTokenizer.from_pretrained(folder, tokenizer_file=moved)
    assert (tokenizer(TEXTS, padding=True, return_tensors="np")["input_ids"] == expected["input_ids"]).all()


# Malformed files


@pytest.mark.parametrize("name", [TOKENIZER, SETTINGS])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 10**5, b"[]", b"3", b'"text"', b"null"])
def test_a_file_that_is_no_json_object_is_refused(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises((OSError, ValueError), match=r"tokenizer(_config)?\.json.*again"):
        ElmoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", ["special_tokens_map.json", "added_tokens.json"])
def test_an_old_file_that_is_no_json_object_is_refused_by_its_name(folder, name):
    (folder / name).write_text("[")
    with pytest.raises(OSError, match=rf"{name} is not a valid JSON file.*again"):
        ElmoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "fields",
    [
        {"model": None},
        {"model": {}},
        {"model": {"type": "WordPiece"}},
        {"model": {"type": "Other", "vocab": {}}},
        {"added_tokens": 3},
        {"added_tokens": [{"id": "x"}]},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed", "invert": True}},
        {"version": "9"},
        {"version": 1},
    ],
)
def test_a_tokenizer_file_of_another_kind_is_refused(folder, fields):
    edit(folder / TOKENIZER, **fields)
    with pytest.raises(ValueError, match=r"tokenizer\.json.*again"):
        ElmoTokenizer.from_pretrained(folder)
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a tokenizer file: .*again"):
        load_backend(folder / TOKENIZER)


# Parts that our tokenizers are not made of

GROWING = [{"type": "Replace", "pattern": {"String": "t"}, "content": "tttttttttt"}] * 9  # a billion times as long


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("normalizer", {"type": "Sequence", "normalizers": GROWING}),
        ("normalizer", {"type": "Prepend", "prepend": "x" * 1000}),
        ("normalizer", {"type": "Lowercase"}),
        ("normalizer", {"type": None, "normalizers": GROWING}),
        ("normalizer", {"type": "None", "normalizers": GROWING}),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}]}),
        ("pre_tokenizer", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}),
        ("pre_tokenizer", None),
        ("decoder", {"type": "Replace", "pattern": {"String": "t"}, "content": "tttt"}),
        ("model", {"type": "WordLevel", "vocab": {"<UNK>": 0}, "unk_token": "<UNK>"}),
        ("post_processor", {"type": "Sequence", "processors": []}),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value and value["type"]),
)
def test_parts_that_our_tokenizers_are_not_made_of_are_refused_before_they_are_used(folder, monkeypatch, part, content):
    edit(folder / TOKENIZER, **{part: content})
    monkeypatch.setattr(tokenizer_files_elmo, "Tokenizer", None)  # which would use them at once, on added words
    kind = repr(content["type"]) if content and content["type"] else "None|{"
    for load in (ElmoTokenizer.from_pretrained, AutoTokenizer.from_pretrained):
        with pytest.raises(
            ValueError, match=rf"tokenizer\.json is not a tokenizer file: its `{part}` is (?:{kind}).*again"
        ):
            load(folder)
    with pytest.raises(ValueError, match=f"its `{part}` is (?:{kind})"):
        ElmoTokenizer(tokenizer_file=str(folder / TOKENIZER))


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer"])
def test_a_part_that_is_given_twice_is_refused(folder, part):
    """One reader may take the first, and another the second."""
    content = (folder / TOKENIZER).read_text()
    evil = json.dumps({part: {"type": "Sequence", "normalizers": GROWING, "pretokenizers": []}})
    (folder / TOKENIZER).write_text(evil.removesuffix("}") + "," + content.removeprefix("{"))
    with pytest.raises(ValueError, match=rf"tokenizer\.json.* `{part}` twice.*again"):
        ElmoTokenizer.from_pretrained(folder)


@pytest.mark.medium
@pytest.mark.parametrize("where", ["single", "ids"])
def test_a_template_that_makes_many_tokens_of_one_sentence_is_refused(folder, where):
    template = json.loads((folder / TOKENIZER).read_text())["post_processor"]
    if where == "single":
        template["single"] *= 100_000
    else:
        template["special_tokens"]["<S>"] |= {"ids": [0] * 100_000, "tokens": ["<S>"] * 100_000}
    edit(folder / TOKENIZER, post_processor=template)
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a tokenizer file: its `post_processor` adds .*again"):
        ElmoTokenizer.from_pretrained(folder)


def test_padding_and_truncation_that_a_file_asks_for_are_not_done(folder):
    expected = load_and_use(folder)
    edit(
        folder / TOKENIZER,
        padding={
            "strategy": {"Fixed": 2**40},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "<PAD>",
        },
        truncation={"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
    )
    for name, rows in load_and_use(folder).items():
        assert (rows == expected[name]).all()


@pytest.mark.parametrize("slots", [2, 1001, 10**12, -1, 50.0, "50", None, True])
def test_an_absurd_number_of_characters_is_refused(folder, slots):
    edit(folder / SETTINGS, max_characters_per_token=slots)
    with pytest.raises(ValueError, match=r"`max_characters_per_token` must be .*, found"):
        ElmoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "fields", [{"unk_token": None}, {"bos_token": ""}, {"model_max_length": "x"}, {"eos_token": 3}]
)
def test_settings_of_the_wrong_kind_are_refused(folder, fields):
    edit(folder / SETTINGS, **fields)
    with pytest.raises(ValueError, match=r"must (not )?be|malformed"):
        ElmoTokenizer.from_pretrained(folder)


def test_words_with_ids_beyond_the_vocabulary_are_refused_when_they_occur(folder):
    content = json.loads((folder / TOKENIZER).read_text())
    content["model"]["vocab"]["cat"] = 2**32 - 1
    (folder / TOKENIZER).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"words, but ids up to 4294967295: its file is damaged"):
        load_and_use(folder)


def test_a_panic_is_an_ordinary_error(folder):
    content = json.loads((folder / TOKENIZER).read_text())
    content["post_processor"]["special_tokens"] = {}
    (folder / TOKENIZER).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"cannot use this tokenizer|not a tokenizer file"):
        load_and_use(folder)


@settings(max_examples=60)
@given(data=st.data(), name=st.sampled_from([TOKENIZER, SETTINGS]))
def test_a_damaged_tokenizer_works_or_is_refused(data, name, saved, scratch):
    content = (saved / name).read_bytes()
    damages = damaged_bytes(content) | damaged_json(json.loads(content)).map(lambda fields: json.dumps(fields).encode())
    (scratch / name).write_bytes(data.draw(damages))
    with suppress(OSError, ValueError):
        load_and_use(scratch)
    (scratch / name).write_bytes(content)


@given(data=st.data())
def test_a_tokenizer_file_that_is_cut_is_refused(data, saved, scratch):
    content = (saved / TOKENIZER).read_bytes()
    (scratch / TOKENIZER).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(OSError, match=r"tokenizer\.json is not a valid JSON file"):
        load_and_use(scratch)
    (scratch / TOKENIZER).write_bytes(content)


# ==== Vocabularies

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


COUNTED_TEXTS = ["The cat saw the dog.", "the dog didn't see the cat", "a cat <PAD> <S> \ud800 \0\0"]


def words_of(tokenizer):
    return tokenizer.convert_ids_to_tokens(range(3, tokenizer.vocab_size))


def test_a_vocabulary_from_text_is_in_the_order_of_frequency():
    tokenizer = ElmoTokenizer().train_new_from_iterator(COUNTED_TEXTS, vocab_size=10)
    assert words_of(tokenizer) == ["cat", "the", "\0", "<", ">", "dog", "."]
    assert tokenizer.pad_token_id == tokenizer.vocab_size == 10


def test_texts_may_come_in_batches():
    by_text, by_batch = (
        ElmoTokenizer().train_new_from_iterator(texts, 99)
        for texts in (COUNTED_TEXTS, [COUNTED_TEXTS[:2], COUNTED_TEXTS[2:]])
    )
    assert by_text.get_vocab() == by_batch.get_vocab()
    assert words_of(by_batch) == words_of(ElmoTokenizer().train_new_from_iterator(iter([iter(COUNTED_TEXTS)]), 99))


def test_rare_words_are_left_out():
    assert words_of(ElmoTokenizer().train_new_from_iterator(COUNTED_TEXTS, 99, min_frequency=3)) == ["cat", "the"]


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
        ElmoTokenizer().train_new_from_iterator(COUNTED_TEXTS, 99, **option)


@pytest.mark.parametrize("word", ["two\nlines", "end\r"])
def test_a_word_that_a_file_would_cut_is_refused(word):
    with pytest.raises(ValueError, match="holds a line break"):
        index_words(["<S>", word], [])
