"""No folder, however bad, makes loading run code, read files elsewhere, or take memory that its weights do not need."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from elmo_hf.modeling.checks_elmo import check_shapes, is_inner_path, is_weights_name, tensor_shapes
from tests.models import TINY, edit_config
from tests.untrusted import damaged_bytes, damaged_json, evil_pickle, header_of, save_tiny_folder, with_header

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
REFUSALS = OSError, ValueError, StrictDataclassError


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


@pytest.fixture(scope="module")
def little_memory():
    """At most 8 GiB more addresses than this process has now: more is a `MemoryError`."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 8 * 2**30, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def shard(folder, **files: str):
    """Makes two files and an index of the weights, which may name other files."""
    model = AutoModel.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"] |= files
    (folder / INDEX).write_text(json.dumps(index))


def assert_weights_are(folder, expected: ElmoModel, **options):
    for load in (AutoModel.from_pretrained, ElmoModel.from_pretrained):
        torch.testing.assert_close(load(folder, **options).state_dict(), expected.state_dict(), rtol=0, atol=0)


# Pickles


@pytest.mark.parametrize("auto", [AutoModel, ElmoModel, AutoModelForTokenClassification])
def test_a_folder_with_a_pickle_only_is_refused_and_the_pickle_stays_unread(folder, tmp_path, auto):
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(evil_pickle(tmp_path / "marker"))
    with pytest.raises(OSError, match=r"holds no model\.safetensors, but a pickle.*elmo-hf convert"):
        auto.from_pretrained(folder)
    assert not (tmp_path / "marker").exists()


def test_asking_for_a_pickle_is_refused(folder):
    for name in (folder, "somebody/some-model"):
        with pytest.raises(ValueError, match=r"`use_safetensors=False` asks for a pickle.*elmo-hf convert"):
            ElmoForTokenClassification.from_pretrained(name, use_safetensors=False)
    ElmoModel.from_pretrained(folder, use_safetensors=True)


def test_a_pickle_given_by_its_path_is_refused(folder, tmp_path, monkeypatch):
    (folder / "weights.bin").write_bytes(evil_pickle(tmp_path / "marker"))
    config = ElmoConfig.from_pretrained(folder)
    with pytest.raises(ValueError, match=r"weights\.bin is not a \.safetensors file"):
        ElmoModel.from_pretrained(folder / "weights.bin", config=config)
    assert not (tmp_path / "marker").exists()
    # Where PEFT is installed, transformers takes the path of a file for a name on the Hub, as of every model.
    monkeypatch.setattr("transformers.integrations.peft.is_peft_available", lambda: False)
    model = ElmoModel.from_pretrained(folder / WEIGHTS, config=config)
    torch.testing.assert_close(model.state_dict(), ElmoModel.from_pretrained(folder).state_dict())


@pytest.mark.parametrize("dtype", ["float32", None])
def test_an_index_that_names_a_pickle_is_refused_and_the_pickle_stays_unread(folder, tmp_path, dtype):
    """Without a `dtype` in the config, transformers looks into the first file before the model is made."""
    shard(folder, **{"mixer.gamma": "a.bin"})
    edit_config(folder, dtype=dtype)
    (folder / "a.bin").write_bytes(evil_pickle(tmp_path / "marker"))
    with pytest.raises(ValueError, match=r"index\.json places mixer\.gamma in 'a\.bin'.*elmo-hf convert"):
        AutoModel.from_pretrained(folder)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "adapter_model.bin", "../x.safetensors", "/x.safetensors", 7])
def test_a_config_that_names_a_pickle_or_a_file_elsewhere_is_refused(folder, name):
    shutil.copy(folder / WEIGHTS, folder.parent / "x.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"")
    edit_config(folder, transformers_weights=name)
    for load in (AutoConfig.from_pretrained, AutoModel.from_pretrained, ElmoModel.from_pretrained):
        with pytest.raises(ValueError, match=r"`transformers_weights` must be the name of a \.safetensors file in"):
            load(folder)


def test_a_config_may_name_another_safetensors_file_of_its_folder(folder):
    expected = AutoModel.from_pretrained(folder)
    (folder / WEIGHTS).rename(folder / "other.safetensors")
    edit_config(folder, transformers_weights="other.safetensors")
    assert_weights_are(folder, expected)


def test_a_gguf_file_is_refused(folder):
    with pytest.raises(ValueError, match=r"no ELMo models in GGUF files: .* not x\.gguf"):
        ElmoModel.from_pretrained(folder, gguf_file="x.gguf")


# Files elsewhere


@pytest.mark.parametrize("name", ["../x.safetensors", "a/../../x.safetensors", "/x.safetensors", r"..\x.safetensors"])
def test_an_index_that_names_a_file_elsewhere_is_refused(folder, name):
    shard(folder, **{"mixer.gamma": name})
    save_file({"mixer.gamma": torch.ones(1)}, folder.parent / "x.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"places mixer\.gamma in .* must be \.safetensors files of the same folder"):
        AutoModel.from_pretrained(folder)


@pytest.mark.parametrize("index", [b"", b"[]", b"{}", b'{"weight_map": {}, "metadata": {}}', b"\xff", b"[" * 10**5])
def test_an_index_that_is_malformed_is_refused_by_its_name(folder, index):
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_bytes(index)
    with pytest.raises(OSError, match=r"model\.safetensors\.index\.json (is|should)"):
        AutoModel.from_pretrained(folder)


def test_an_index_that_names_no_type_is_refused(folder):
    shard(folder)
    edit_config(folder, dtype=None)
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps(index | {"metadata": {"dtype": "load"}}))
    with pytest.raises(OSError, match="names a dtype that torch does not have: 'load'"):
        AutoModel.from_pretrained(folder)


def test_names_are_of_files_in_the_folder_on_every_system():
    for name in ("a.safetensors", "a/b.safetensors", "a..safetensors"):
        assert is_weights_name(name)
    for name in ("a.bin", "a", "", None, 3, ["a.safetensors"]):
        assert not is_weights_name(name)
    for name in ("..", "../a", "a/../b", r"..\a", "/a", r"\a", "C:a", r"C:\a", r"\\host\share\a"):
        assert not is_inner_path(name)


def test_files_that_are_fine_load_as_before(folder, tmp_path):
    expected = AutoModel.from_pretrained(folder)
    expected.save_pretrained(folder, variant="fp16")
    expected.save_pretrained(folder / "inner", max_shard_size="4KB")
    linked = tmp_path / "linked"  # as the Hub's cache is
    linked.mkdir()
    for name in ("config.json", WEIGHTS):
        (linked / name).symlink_to(folder / name)
    assert_weights_are(folder, expected, variant="fp16")
    assert_weights_are(folder, expected, subfolder="inner")
    assert_weights_are(linked, expected)
    state_dict, config = expected.state_dict(), expected.config
    loaded = ElmoModel.from_pretrained(None, config=config, state_dict=state_dict)
    torch.testing.assert_close(loaded.state_dict(), state_dict, rtol=0, atol=0)


# Headers and configs that lie


def lying_headers(header: dict, data: bytes) -> dict[str, bytes]:
    name = "layers.0.bias"
    entry, (start, stop) = header[name], header[name]["data_offsets"]
    return {
        "other shape": with_header(header | {name: entry | {"shape": [10**6, 10**6]}}, data),
        "overflowing shape": with_header(header | {name: entry | {"shape": [2**63, 2**63]}}, data),
        "data beyond the file": with_header(header | {name: entry | {"data_offsets": [start, stop + 2**40]}}, data),
        "data of another tensor": with_header(header | {name: entry | {"data_offsets": [start + 4, stop + 4]}}, data),
        "unknown type": with_header(header | {name: entry | {"dtype": "F33"}}, data),
        "too little data": with_header(header, data[:-1]),
        "too much data": with_header(header, data + b"."),
        "a header longer than the file": (2**40).to_bytes(8, "little") + b"{}",
        "no header": b"{}",
        "nothing": b"",
        "a pickle": b"\x80\x04N.",
    }


@pytest.mark.parametrize("lie", lying_headers({"layers.0.bias": {"data_offsets": [0, 0]}}, b""))
@pytest.mark.parametrize("dtype", ["float32", None])
def test_a_header_that_lies_is_refused(folder, lie, dtype):
    edit_config(folder, dtype=dtype)
    header, data = header_of((folder / WEIGHTS).read_bytes())
    (folder / WEIGHTS).write_bytes(lying_headers(header, data)[lie])
    with pytest.raises(OSError, match=r"(damaged|cut short).*(download|save) it again"):
        AutoModel.from_pretrained(folder)


def test_a_config_of_other_sizes_than_the_weights_names_the_tensors(folder):
    edit_config(folder, cell_size=9)
    message = r"layers\.0\.input_weight \(.*\), by the config \(.*\); .*; and \d+ more.*ignore_mismatched_sizes=True"
    for auto in (AutoModel, AutoModelForTokenClassification, ElmoForPreTraining):
        with pytest.raises(ValueError, match=message):
            auto.from_pretrained(folder)
    assert ElmoModel.from_pretrained(folder, ignore_mismatched_sizes=True).config.cell_size == 9


def test_a_heads_weights_are_compared_with_an_encoders_and_the_other_way_round(tmp_path):
    head = ElmoForTokenClassification(ElmoConfig(**TINY, num_labels=3))
    head.save_pretrained(tmp_path)
    edit_config(tmp_path, projection_size=5)
    with pytest.raises(ValueError, match=r"token_encoder.* by the config"):
        ElmoModel.from_pretrained(tmp_path)
    head.elmo.save_pretrained(tmp_path)
    edit_config(tmp_path, projection_size=5)
    with pytest.raises(ValueError, match=r"elmo\.token_encoder.* by the config"):
        ElmoForTokenClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize("options", [{}, {"ignore_mismatched_sizes": True}, {"device_map": "auto"}])
def test_a_config_that_asks_for_terabytes_is_refused_before_memory_is_taken(folder, options, little_memory):
    edit_config(folder, cell_size=10**6, projection_size=10**6)
    with pytest.raises(ValueError, match=r"by the config|asks for weights of .* GiB that the file does not hold"):
        AutoModel.from_pretrained(folder, **options)


def test_parts_that_the_file_lacks_are_made_up_to_a_bound(folder, little_memory):
    edit_config(folder, vocab_size=10**9, pad_token_id=None)
    AutoModel.from_pretrained(folder)  # has no part of that size
    with pytest.raises(ValueError, match=r"asks for weights of 19 GiB that the file does not hold: more than 16 GiB"):
        ElmoForPreTraining.from_pretrained(folder)
    edit_config(folder, vocab_size=20, word_vector_size=10**6, num_word_vectors=10**9)
    with pytest.raises(ValueError, match=r"asks for weights of 3,\d{3},\d{3} GiB"):
        AutoModelForTokenClassification.from_pretrained(folder)


def test_a_quantised_config_is_no_way_around_the_bound():
    """Quantised weights have other shapes: what differs counts as made anew."""
    with torch.device("meta"):
        model = ElmoModel(ElmoConfig(**(TINY | {"cell_size": 10**6, "projection_size": 10**6})))
    with pytest.raises(ValueError, match="more than 16 GiB are not initialised"):
        check_shapes(model, {"layers.0.input_weight": (3,)}, "elmo", mismatches_are_fine=True)


def test_parts_of_several_processes_with_an_absurd_config_are_refused(folder, little_memory):
    """For such files transformers makes all of the model's memory first. Older versions do not know them."""
    (folder / WEIGHTS).rename(folder / "shard-00000-model-00001-of-00001.safetensors")
    edit_config(folder, cell_size=10**6, projection_size=10**6)
    message = r"The config asks for [\d,]+ weights, the files hold [\d,]+|no file named model\.safetensors"
    with pytest.raises((ValueError, OSError), match=message):
        AutoModel.from_pretrained(folder)


def test_shapes_are_read_from_headers_alone(folder):
    shapes = tensor_shapes([str(folder / WEIGHTS)])
    assert shapes == {
        name: tuple(tensor.shape) for name, tensor in ElmoModel.from_pretrained(folder).state_dict().items()
    }


# Damage of any kind


def assert_loads_or_is_refused(load, folder):
    """Other errors, a crash, or more memory than there is let the test fail."""
    with suppress(*REFUSALS):
        load(folder)


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_config_loads_or_is_refused(data, saved, scratch, little_memory):
    content = (saved / "config.json").read_bytes()
    changed = data.draw(
        damaged_bytes(content) | damaged_json(json.loads(content)).map(lambda document: json.dumps(document).encode())
    )
    (scratch / "config.json").write_bytes(changed)
    assert_loads_or_is_refused(ElmoModel.from_pretrained, scratch)
    (scratch / "config.json").write_bytes(content)


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_weight_file_loads_or_is_refused(data, saved, scratch, little_memory):
    content = (saved / WEIGHTS).read_bytes()
    header, tensors = header_of(content)
    end = len(content) - len(tensors)
    changes = damaged_bytes(content, end) | damaged_json(header).map(lambda header: with_header(header, tensors))
    (scratch / WEIGHTS).write_bytes(data.draw(changes))
    assert_loads_or_is_refused(ElmoModel.from_pretrained, scratch)
    (scratch / WEIGHTS).write_bytes(content)


@given(data=st.data())
def test_a_weight_file_that_is_cut_is_refused(data, saved, scratch):
    content = (saved / WEIGHTS).read_bytes()
    (scratch / WEIGHTS).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(OSError, match="damaged"):
        ElmoModel.from_pretrained(scratch)
    (scratch / WEIGHTS).write_bytes(content)
