"""No tokenizer, however bad, reads files elsewhere, panics or takes much memory."""

import json
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from elmo_hf import ElmoTokenizer, tokenizer_files_elmo
from elmo_hf.tokenizer_files_elmo import load_backend
from tests.untrusted import damaged_bytes, damaged_json, save_tiny_folder

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
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokenizer file: .*again"):
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
            ValueError, match=rf"tokenizer\.json is no tokenizer file: its `{part}` is (?:{kind}).*again"
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


@pytest.mark.parametrize("where", ["single", "ids"])
def test_a_template_that_makes_many_tokens_of_one_sentence_is_refused(folder, where):
    template = json.loads((folder / TOKENIZER).read_text())["post_processor"]
    if where == "single":
        template["single"] *= 100_000
    else:
        template["special_tokens"]["<S>"] |= {"ids": [0] * 100_000, "tokens": ["<S>"] * 100_000}
    edit(folder / TOKENIZER, post_processor=template)
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokenizer file: its `post_processor` adds .*again"):
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
    with pytest.raises(ValueError, match=r"cannot use this tokenizer|no tokenizer file"):
        load_and_use(folder)


@settings(max_examples=150, deadline=timedelta(seconds=30))
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
