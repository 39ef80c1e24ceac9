"""The tokenizer in the hands of stock code: pad(), collators, datasets, pickle, saving and loading, decoding."""

import copy
import json
import pickle
import re

import datasets
import numpy as np
import pytest
import torch
from datasets.fingerprint import Hasher
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, DataCollatorForTokenClassification, DataCollatorWithPadding

from elmo_hf import ElmoTokenizer

VOCABULARY = ["<S>", "</S>", "<UNK>", "I", "do", "n't", "know", ".", "東京"]
TEXTS = ["I don't know Zyx.", "東京", ""]
WORDS = [["I", "know", "Zyx"], ["", "I do"], []]
LABELS = [[1, 2, 3], [4, 5], []]


@pytest.fixture
def tokenizer():
    return ElmoTokenizer(vocab=VOCABULARY)


def as_lists(batch):
    return {name: getattr(values, "tolist", lambda values=values: values)() for name, values in batch.items()}


def cut_with_a_function(run):
    return [run[:1], run[1:]]


# ---- padding later is padding at once


def from_lists(examples):
    return examples


def from_arrays(examples):
    return [{name: np.array(values) for name, values in example.items()} for example in examples]


def from_tensors(examples):
    return [{name: torch.tensor(values) for name, values in example.items()} for example in examples]


def from_dataset(examples):
    return list(datasets.Dataset.from_list([dict(example) for example in examples]))


def from_dataset_of_tensors(examples):
    return list(datasets.Dataset.from_list([dict(example) for example in examples]).with_format("torch"))


SOURCES = [from_lists, from_arrays, from_tensors, from_dataset, from_dataset_of_tensors]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_padding_collator_gives_what_a_padded_call_gives(tokenizer, source, side):
    tokenizer.padding_side = side
    examples = source([tokenizer(text) for text in TEXTS])
    batch = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=4)(examples)
    expected = tokenizer(TEXTS, padding=True, pad_to_multiple_of=4, return_tensors="pt")
    assert as_lists(batch) == as_lists(expected)
    assert batch["char_ids"].dtype == torch.int64


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_labelling_collator_keeps_labels_beside_their_words(tokenizer, source, side):
    tokenizer.padding_side = side
    examples = []
    for words, labels in zip(WORDS, LABELS, strict=True):
        example = tokenizer(words, is_split_into_words=True)
        examples.append({**example, "labels": [-100 if i is None else labels[i] for i in example.word_ids()]})
    batch = DataCollatorForTokenClassification(tokenizer)(source(examples))
    padded = tokenizer(WORDS, is_split_into_words=True, padding=True)
    numbers = [[-100 if n is None else LABELS[i][n] for n in padded.word_ids(i)] for i in range(3)]
    assert as_lists(batch) == {**padded, "labels": numbers}


def test_pad_takes_one_example_and_every_option(tokenizer):
    one = tokenizer("I know")
    options = {"padding": "max_length", "max_length": 5, "pad_to_multiple_of": 4, "padding_side": "left"}
    for kind in (None, "np", "pt"):
        assert as_lists(tokenizer.pad(one, return_tensors=kind, **options)) == tokenizer("I know", **options).data
    assert tokenizer.pad(dict(one), "max_length", 5, 4, "left").data == tokenizer("I know", **options).data
    assert tokenizer.pad(one, padding=False).data == one.data
    assert len(one["char_ids"]) == 4  # what was given is as it was


def test_pad_takes_a_batch_and_one_without_characters(tokenizer):
    batch = tokenizer(TEXTS)
    assert tokenizer.pad(batch).data == tokenizer(TEXTS, padding=True).data
    del batch["char_ids"]
    assert set(tokenizer.pad(batch)) == {"input_ids", "token_type_ids", "attention_mask"}
    assert tokenizer.pad({"input_ids": [], "char_ids": []})["char_ids"] == []


@pytest.mark.parametrize("count", [1, 3])
def test_pad_refuses_rows_that_are_not_the_words(tokenizer, count):
    longer = {"input_ids": [0, 3, 3, 1], "char_ids": [[0] * 50] * 4}
    with pytest.raises(
        ValueError, match=f"`char_ids` must have one row of 50 for each of 2 words, found .*{count}, 50"
    ):
        tokenizer.pad([longer, {"input_ids": [0, 1], "char_ids": [[0] * 50] * count}])


@pytest.mark.parametrize("slots", [25, 49, 100])
def test_pad_refuses_rows_of_another_size(tokenizer, slots):
    with pytest.raises(ValueError, match=f"found .*2, {slots}"):
        tokenizer.pad({"input_ids": [0, 1], "char_ids": [[0] * slots] * 2})


# ---- datasets


@pytest.mark.parametrize("batched", [False, True])
def test_a_mapped_dataset_holds_what_the_tokenizer_gives(tokenizer, batched):
    data = datasets.Dataset.from_dict({"text": TEXTS})
    mapped = data.map(lambda rows: tokenizer(rows["text"]), batched=batched, remove_columns="text")
    assert mapped[:] == tokenizer(TEXTS).data
    loader = torch.utils.data.DataLoader(
        mapped.with_format("torch"), batch_size=3, collate_fn=DataCollatorWithPadding(tokenizer)
    )
    assert as_lists(next(iter(loader))) == tokenizer(TEXTS, padding=True).data


# ---- copies


@pytest.mark.parametrize("segmenter", ["character", "run", "jieba", cut_with_a_function])
@pytest.mark.parametrize(
    "duplicate", [lambda it: pickle.loads(pickle.dumps(it)), copy.deepcopy], ids=["pickle", "copy"]
)
def test_a_copy_does_the_same(segmenter, duplicate):
    tokenizer = ElmoTokenizer(vocab=VOCABULARY, segmenter=segmenter, model_max_length=77)
    expected = tokenizer(TEXTS), tokenizer(WORDS, is_split_into_words=True)
    twin = duplicate(tokenizer)
    assert (twin(TEXTS).data, twin(WORDS, is_split_into_words=True).data) == tuple(item.data for item in expected)
    assert twin.model_max_length == 77


def test_using_a_tokenizer_does_not_change_its_fingerprint(tokenizer):
    before = Hasher.hash(tokenizer)
    tokenizer(TEXTS, padding=True, truncation=True, max_length=4)
    tokenizer(WORDS, is_split_into_words=True)
    tokenizer("<S> I", split_special_tokens=False)
    tokenizer.tokenize(TEXTS[0])
    tokenizer.pad(tokenizer(TEXTS))
    assert Hasher.hash(tokenizer) == before == Hasher.hash(ElmoTokenizer(vocab=VOCABULARY))
    tokenizer.add_tokens(["New York"])
    assert Hasher.hash(tokenizer) != before


def test_a_second_map_comes_from_the_cache(tokenizer, tmp_path):
    table = datasets.Dataset.from_dict({"text": TEXTS})
    table.save_to_disk(tmp_path / "table")
    table = datasets.load_from_disk(tmp_path / "table")
    first, second = (table.map(lambda example: tokenizer(example["text"])) for _ in range(2))
    assert first._fingerprint == second._fingerprint
    assert first.cache_files == second.cache_files != []


def test_a_copy_does_not_carry_the_rows_along(tokenizer):
    size = len(pickle.dumps(tokenizer))
    tokenizer(TEXTS)
    assert abs(len(pickle.dumps(tokenizer)) - size) < 500


# ---- saving and loading

LOADERS = {"auto": AutoTokenizer.from_pretrained, "own": ElmoTokenizer.from_pretrained}
SETTINGS = [
    {},
    {"splitting": "whitespace"},
    {"segmenter": "run"},
    {"segmenter": "jieba"},
    {"max_characters_per_token": 20, "padding_side": "left", "truncation_side": "left", "model_max_length": 9},
    {"split_special_tokens": False},
    {"bos_token": "[", "eos_token": "]", "unk_token": "?", "pad_token": "_", "vocab": ["[", "]", "?", "know"]},
]


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_is_saved_comes_back(tmp_path, settings, load):
    tokenizer = ElmoTokenizer(**{"vocab": VOCABULARY} | settings)
    tokenizer("I know", truncation=True, max_length=3, padding="max_length")
    tokenizer.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert type(loaded) is ElmoTokenizer
    for texts in (TEXTS, ["I <S> know ] " * 5]):
        assert loaded(texts, padding=True).data == tokenizer(texts, padding=True).data
        assert loaded(texts, truncation=True, max_length=4).data == tokenizer(texts, truncation=True, max_length=4).data
    assert loaded(WORDS, is_split_into_words=True).data == tokenizer(WORDS, is_split_into_words=True).data
    for name in (
        "splitting",
        "segmenter",
        "max_characters_per_token",
        "padding_side",
        "model_max_length",
        "vocab_size",
    ):
        assert getattr(loaded, name) == getattr(tokenizer, name)


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize("name", ["bos_token", "eos_token", "unk_token"])
def test_other_marks_than_the_saved_ones_are_refused(tmp_path, tokenizer, name, load):
    tokenizer.save_pretrained(tmp_path)
    for mark in ("[SEP]", "know"):
        with pytest.raises(
            ValueError, match=rf"`{name}` must be.*found '{re.escape(mark)}'.*ElmoTokenizer\(vocab=.*{name}="
        ):
            load(tmp_path, **{name: mark})
    same = load(tmp_path, **{name: getattr(tokenizer, name)})
    assert as_lists(same(TEXTS)) == as_lists(tokenizer(TEXTS))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(json.loads((tmp_path / "tokenizer_config.json").read_text()) | {name: "[SEP]"})
    )
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        load(tmp_path)
    setattr(tokenizer, name, "know")
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        tokenizer(TEXTS)


def test_a_word_of_the_saved_vocabulary_is_no_padding(tmp_path, tokenizer):
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="`pad_token` must not be a word of the vocabulary, found 'know'"):
        ElmoTokenizer.from_pretrained(tmp_path, pad_token="know")
    other = ElmoTokenizer.from_pretrained(tmp_path, pad_token="[PAD]")
    assert other(TEXTS, padding=True)["char_ids"] == tokenizer(TEXTS, padding=True)["char_ids"]


def test_a_calls_truncation_and_padding_are_not_saved(tmp_path, tokenizer):
    tokenizer("I know", truncation=True, max_length=3, padding="max_length")
    tokenizer.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    assert saved["truncation"] is saved["padding"] is None


def test_added_words_are_saved(tmp_path, tokenizer):
    tokenizer.add_tokens(["Zyx"])
    tokenizer.save_pretrained(tmp_path)
    for load in LOADERS.values():
        assert load(tmp_path)("I Zyx").data == tokenizer("I Zyx").data
        assert load(tmp_path)(["Zyx"], is_split_into_words=True)["input_ids"] == [0, len(VOCABULARY) + 1, 1]


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize(
    "settings", [{"splitting": "whitespace"}, {"segmenter": "run"}, {"segmenter": cut_with_a_function}]
)
def test_another_splitting_may_be_asked_for(tmp_path, tokenizer, settings, load):
    tokenizer.save_pretrained(tmp_path)
    loaded, expected = load(tmp_path, **settings), ElmoTokenizer(vocab=VOCABULARY, **settings)
    assert loaded("I don't 東京都.").data == expected("I don't 東京都.").data != tokenizer("I don't 東京都.").data
    loaded.save_pretrained(tmp_path / "again")  # and stays
    again = load(tmp_path / "again", **{name: value for name, value in settings.items() if callable(value)})
    assert again("I don't 東京都.").data == expected("I don't 東京都.").data


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_a_function_is_not_saved_and_asked_for(tmp_path, load):
    tokenizer = ElmoTokenizer(vocab=VOCABULARY, segmenter=cut_with_a_function)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"segmenter=function"):
        load(tmp_path)
    assert load(tmp_path, segmenter=cut_with_a_function)("東京都").data == tokenizer("東京都").data
    assert len(load(tmp_path, segmenter="run")("東京都")["input_ids"]) == 3


def test_a_folder_with_an_original_vocabulary_alone_is_enough(tmp_path, tokenizer):
    tokenizer.save_vocabulary(str(tmp_path))
    assert ElmoTokenizer.from_pretrained(tmp_path)(TEXTS).data == tokenizer(TEXTS).data


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a tokenizer file"):
        ElmoTokenizer(tokenizer_file=str(tmp_path / "tokenizer.json"))


# ---- ids → words


@pytest.mark.parametrize("kind", [None, "np", "pt"])
def test_characters_give_the_very_words_back(tokenizer, kind):
    batch = tokenizer(TEXTS, padding=True, return_tensors=kind)
    words = [
        "<S> I do n't know Zyx . </S>",
        "<S> 東京 </S>".replace("東京", "東 京") + " <PAD>" * 4,
        "<S> </S>" + " <PAD>" * 6,
    ]
    assert tokenizer.batch_decode(batch["char_ids"]) == tokenizer.decode(batch["char_ids"]) == words
    bare = ["I do n't know Zyx .", "東 京", ""]
    assert tokenizer.batch_decode(batch["char_ids"], skip_special_tokens=True) == bare
    assert [tokenizer.decode(rows, skip_special_tokens=True) for rows in batch["char_ids"]] == bare
    assert tokenizer.convert_char_ids_to_tokens(batch["char_ids"][0])[5:7] == ["Zyx", "."]


@pytest.mark.parametrize("kind", [None, "np", "pt"])
def test_word_ids_give_known_words_back(tokenizer, kind):
    batch = tokenizer(TEXTS[:2], padding=True, return_tensors=kind)
    words = ["<S> I do n't know <UNK> . </S>", "<S> <UNK> <UNK> </S>" + " <PAD>" * 4]
    assert tokenizer.batch_decode(batch["input_ids"]) == tokenizer.decode(batch["input_ids"]) == words
    assert tokenizer.decode(batch["input_ids"][0], skip_special_tokens=True) == "I do n't know <UNK> ."
    assert tokenizer.convert_ids_to_tokens(batch["input_ids"][1])[:4] == ["<S>", "<UNK>", "<UNK>", "</S>"]
    assert tokenizer.decode(3) == tokenizer.decode([3]) == "I"
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("ids", [[3, 999], [-100]])
def test_an_id_of_no_word_is_refused(tokenizer, ids):
    with pytest.raises(ValueError, match=rf"{ids[-1]} is not the id of a word: ids are 0 to 9"):
        tokenizer.decode(ids)


@given(st.lists(st.text(max_size=12)))  # 12 characters have at most 48 bytes
def test_any_words_come_back_from_their_characters(words):
    tokenizer = ElmoTokenizer()
    rows = tokenizer(words, is_split_into_words=True)["char_ids"]
    assert tokenizer.convert_char_ids_to_tokens(rows, skip_special_tokens=True) == words
    assert tokenizer.decode(rows) == " ".join(["<S>", *words, "</S>"])
