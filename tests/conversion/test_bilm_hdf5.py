"""The original format and back: exact to the bit, the golden vectors, and nothing but a clear refusal of bad files."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from transformers import AutoModel, AutoTokenizer

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.conversion import ConversionError, bilm_hdf5, convert_bilm_hdf5, export_bilm_hdf5, write_bilm_hdf5
from elmo_hf.conversion.bilm_hdf5 import read_bilm_hdf5
from elmo_hf.modeling.configuration_elmo import ORIGINAL_FILTERS
from tests.conversion.refusals import assert_refused, damages, make_file
from tests.full_disk import files_of_at_most
from tests.models import reference_of, tiny_model

ROOT = Path(__file__).parent.parent.parent
WORDS = ["<S>", "</S>", "<UNK>", *(f"word{index}" for index in range(17))]
# What the characters of a word-only model are after its way through a format that does not tell of them.
UNUSED_CHARACTERS = {"char_embedding_size": 16, "char_filters": ORIGINAL_FILTERS, "num_highway_layers": 2}
CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
RNN_0_BIAS, FIRST_KERNEL = f"{CELL}/B", "CNN/W_cnn_0"


def read_arrays(path):
    arrays = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: arrays.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
    return arrays


def write_arrays(path, arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def save(model, folder, words=WORDS):
    model.save_pretrained(folder)
    ElmoTokenizer(vocab=words).save_pretrained(folder)
    return folder


def assert_same_tensors(actual, expected):
    actual, expected = actual.state_dict(), expected.state_dict()
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(actual[name], tensor), name


@pytest.fixture
def original(tmp_path):
    """A tiny model as `options.json` and `weights.hdf5`."""
    options, weights = tmp_path / "options.json", tmp_path / "weights.hdf5"
    write_bilm_hdf5(tiny_model(), options, weights)
    return options, weights


# ---- The golden models.


@pytest.mark.golden
def test_the_converted_folder_loads_with_auto_classes_and_gives_the_golden_vectors(golden, tmp_path):
    convert_bilm_hdf5(golden.options, golden.weights, tmp_path / "out")
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path / "out"), AutoModel.from_pretrained(tmp_path / "out")
    reference = reference_of(model)
    reference.arrays = {name: array.astype(np.float64) for name, array in read_arrays(golden.weights).items()}
    for row, published in enumerate(golden.top_layers()):
        batch = tokenizer([golden.sentences[row][0]], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            layers = torch.cat(model(**batch, output_hidden_states=True).hidden_states).numpy()
        expected, _ = reference.sentence([reference.token_vector(chars) for chars in batch["char_ids"][0].numpy()])
        np.testing.assert_allclose(layers, expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(layers[-1, 1:-1], np.concatenate(published[0], axis=-1), rtol=1e-6, atol=1e-6)


@pytest.mark.golden
def test_the_way_to_a_folder_and_back_is_exact_to_the_bit(golden, tmp_path):
    convert_bilm_hdf5(golden.options, golden.weights, tmp_path / "folder")
    export_bilm_hdf5(tmp_path / "folder", tmp_path / "back")
    written, expected = read_arrays(tmp_path / "back" / "weights.hdf5"), read_arrays(golden.weights)
    assert written.keys() == expected.keys()
    for name, array in expected.items():
        assert written[name].dtype == array.dtype
        assert written[name].tobytes() == array.tobytes(), name
    stated = [ElmoConfig.from_bilm_options(path) for path in (tmp_path / "back" / "options.json", golden.options)]
    assert stated[0] == stated[1]


# ---- Both ways, small.


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"projection_size": None},
        {"projection_size": None, "cell_size": 12, "num_highway_layers": 0},  # no token projection either
        {"num_highway_layers": 0},
        {"directions": "forward"},
        {"token_inputs": "words", **UNUSED_CHARACTERS},
        {"num_hidden_layers": 1},
        {"num_hidden_layers": 3},
        {"char_activation": "tanh", "max_characters_per_token": 20},
        {"cell_clip": None, "projection_clip": None},
        {"skip_connections": False, "dropout": 0.25},
    ],
    ids=str,
)
def test_a_model_comes_back_from_the_original_format_as_it_was(fields, tmp_path):
    model = tiny_model(**fields)
    exported = export_bilm_hdf5(save(model, tmp_path / "folder"), tmp_path / "original")
    files = (exported / name for name in ("options.json", "weights.hdf5"))
    convert_bilm_hdf5(*files, tmp_path / "back", vocab=exported / "vocab.txt")
    back = ElmoModel.from_pretrained(tmp_path / "back")
    assert_same_tensors(back, model)
    # `to_diff_dict` leaves out the path
    assert back.config.to_diff_dict() == ElmoConfig.from_pretrained(tmp_path / "folder").to_diff_dict()
    assert (exported / "vocab.txt").read_text().split() == WORDS


def test_the_folder_is_complete(original, tmp_path):
    out = convert_bilm_hdf5(*original, tmp_path / "out")
    names = {path.name for path in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "modeling_elmo.py"} <= names
    auto_map = json.loads((out / "config.json").read_text())["auto_map"]
    assert auto_map["AutoConfig"] == "configuration_elmo.ElmoConfig"
    assert auto_map["AutoModel"] == "modeling_elmo.ElmoModel"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_stored_and_loads(original, tmp_path, dtype):
    convert_bilm_hdf5(*original, tmp_path / "out", dtype=dtype)
    model = AutoModel.from_pretrained(tmp_path / "out")
    assert model.dtype == getattr(torch, dtype)
    assert_same_tensors(model, tiny_model().to(model.dtype))


@pytest.mark.parametrize("dtype", [">f4", "<f8", ">f8"])
def test_any_floats_that_hold_the_same_numbers_give_the_same_model(original, tmp_path, dtype):
    arrays = {name: array.astype(dtype) for name, array in read_arrays(original[1]).items()}
    write_arrays(tmp_path / "other.hdf5", arrays)
    config = ElmoConfig.from_bilm_options(original[0])
    assert_same_tensors(read_bilm_hdf5(config, tmp_path / "other.hdf5"), read_bilm_hdf5(config, original[1]))


@pytest.mark.parametrize("words", [WORDS[:3], ["the", "<UNK>", "</S>", "<S>"], ["<PAD>", *WORDS]], ids=len)
def test_the_config_has_the_vocabularys_ids(original, tmp_path, words):
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    out = convert_bilm_hdf5(*original, tmp_path / "out", vocab=tmp_path / "vocab.txt")
    config, tokenizer = ElmoConfig.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert config.vocab_size == tokenizer.vocab_size == len(words)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(config, name) == getattr(tokenizer, name)


# ---- Refusals.


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("token_inputs", {"token_inputs": "both"}),
        ("directions", {"directions": "backward"}),
        ("forget_bias", {"forget_bias": 0.0}),
        ("char_vocab_size", {"char_vocab_size": 300}),
        ("char_pad_id", {"char_pad_id": 260}),
        ("token_projection", {"projection_size": None, "cell_size": 12, "token_projection": True}),
        ("projection_size", {"projection_size": 7}),
        ("word_embedding_size", {"token_inputs": "words", "word_embedding_size": 9}),
    ],
)
def test_what_the_original_format_cannot_say_is_refused_by_name(tmp_path, field, fields):
    folder = save(tiny_model(**fields), tmp_path / "folder")
    assert_refused(tmp_path, lambda out: export_bilm_hdf5(folder, out), f"`{field}=")


@pytest.mark.parametrize(
    ("match", "change"),
    [
        (rf"lacks {RNN_0_BIAS}", lambda a: a.pop(RNN_0_BIAS)),
        ("holds softmax/W", lambda a: a.update({"softmax/W": np.zeros(3, "f4")})),
        (r"B should have shape \(28,\), found \(27,\)", lambda a: a.update({RNN_0_BIAS: a[RNN_0_BIAS][1:]})),
        (r"shape \(1, 1, 3, 4\), found \(1, 3, 4\)", lambda a: a.update({FIRST_KERNEL: a[FIRST_KERNEL][0]})),
        (r"shape \(28,\), found \(\)", lambda a: a.update({RNN_0_BIAS: np.float32(0)})),
        (r"shape \(28,\), found None", lambda a: a.update({RNN_0_BIAS: h5py.Empty("f4")})),
        ("floats, found int64", lambda a: a.update({RNN_0_BIAS: np.zeros(28, int)})),
        ("B should hold finite numbers", lambda a: np.put(a[RNN_0_BIAS], 5, np.nan)),
        ("B should hold finite numbers", lambda a: np.put(a[RNN_0_BIAS], 5, -np.inf)),
        ("B should hold finite numbers", lambda a: a.update({RNN_0_BIAS: np.full(28, 1e300)})),
    ],
)
def test_arrays_that_are_not_the_models_are_refused(original, tmp_path, match, change):
    options, weights = original
    arrays = read_arrays(weights)
    change(arrays)
    write_arrays(weights, arrays)
    assert_refused(tmp_path, lambda out: convert_bilm_hdf5(options, weights, out), match)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x89HDF\r\n\x1a\n", None, "folder"])
def test_weights_that_are_no_hdf5_are_refused(original, tmp_path, content):
    weights = make_file(tmp_path / "other.hdf5", content)
    assert_refused(tmp_path, lambda out: convert_bilm_hdf5(original[0], weights, out), "other.hdf5 cannot be read")


@pytest.mark.parametrize(
    ("match", "change"),
    [
        ("'lstm' is missing", lambda o: o.pop("lstm")),
        ("'activation' is missing", lambda o: o["char_cnn"].pop("activation")),
        ("'cell_size' expected int, got str", lambda o: o["lstm"].update(dim="big")),
        ("`cell_size` must be greater than 0", lambda o: o["lstm"].update(dim=-7)),
        ("wider than the 50 slots", lambda o: o["char_cnn"].update(filters=[[51, 4]])),
        ("261 or 262", lambda o: o["char_cnn"].update(n_characters=100)),
        (r"W_0 should have shape \(8, 36\), found \(8, 28\)", lambda o: o["lstm"].update(dim=9)),
        ("holds RNN_0/RNN/MultiRNNCell/Cell1", lambda o: o["lstm"].update(n_layers=1)),
        ("holds CNN_high_0", lambda o: o["char_cnn"].update(n_highway=0)),
        ("holds RNN_1", lambda o: o.update(bidirectional=False)),
        ("`cell_size` must be 1000000 or less", lambda o: o["lstm"].update(dim=10**30)),
        ("`cell_size` must be 1000000 or less", lambda o: o["lstm"].update(dim=10**17)),
        ("options say 7 words, the vocabulary .* has 20", lambda o: o.update(n_tokens_vocab=7)),
        ("needs its vocabulary", lambda o: o.pop("char_cnn")),
    ],
)
def test_options_that_are_wrong_or_disagree_with_the_weights_are_refused(original, tmp_path, match, change):
    path, weights = original
    options, vocab = json.loads(path.read_text()), tmp_path / "vocab.txt"
    change(options)
    path.write_text(json.dumps(options))
    vocab.write_text("\n".join(WORDS) + "\n")
    vocab = None if "char_cnn" not in options else vocab
    assert_refused(tmp_path, lambda out: convert_bilm_hdf5(path, weights, out, vocab=vocab), match)


# ---- Malice.


@pytest.fixture
def secret(tmp_path):
    """A file of somebody's machine, of the size of a bias."""
    return make_file(tmp_path / "secret", bytes(range(1, 29)) * 4)


def replaced(file: h5py.File, name: str, **arguments) -> h5py.Dataset:
    """The dataset of a name made anew, with its shape unless another one is given."""
    shape = file[name].shape
    del file[name]
    return file.create_dataset(name, dtype="f4", **({"shape": shape} | arguments))


def test_arrays_whose_values_are_in_another_file_are_refused(original, secret, tmp_path):
    options, weights = original
    with h5py.File(weights, "a") as file:
        replaced(file, RNN_0_BIAS, external=[(str(secret), 0, 28 * 4)])
    assert_refused(
        tmp_path, lambda out: convert_bilm_hdf5(options, weights, out), rf"{RNN_0_BIAS} is stored in another file"
    )


@pytest.mark.parametrize("elsewhere", [True, False])
def test_virtual_arrays_are_refused(original, tmp_path, elsewhere):
    options, weights = original
    other = tmp_path / "other.hdf5"
    write_arrays(other, read_arrays(weights))
    with h5py.File(weights, "a") as file:
        del file[RNN_0_BIAS]
        layout = h5py.VirtualLayout((28,), "f4")
        source = other if elsewhere else "."
        layout[:] = h5py.VirtualSource(source, RNN_0_BIAS if elsewhere else f"{CELL}/other", (28,))
        file.create_virtual_dataset(RNN_0_BIAS, layout)
    assert_refused(
        tmp_path, lambda out: convert_bilm_hdf5(options, weights, out), rf"{RNN_0_BIAS} is stored in another file"
    )


@pytest.mark.parametrize("link", [h5py.ExternalLink, lambda name, path: h5py.SoftLink(path)])
def test_links_are_not_followed(original, tmp_path, link):
    options, weights = original
    other = tmp_path / "other.hdf5"
    write_arrays(other, read_arrays(weights))
    with h5py.File(weights, "a") as file:
        file.move(RNN_0_BIAS, "moved")
        file[RNN_0_BIAS] = link(str(other), RNN_0_BIAS if link is h5py.ExternalLink else "/moved")
    assert_refused(tmp_path, lambda out: convert_bilm_hdf5(options, weights, out), f"lacks {RNN_0_BIAS}")


def huge_options(path) -> ElmoConfig:
    """Options of a model of 7 GB."""
    options = json.loads(path.read_text())
    options["lstm"] |= {"dim": 10_000, "projection_dim": 5_000}
    path.write_text(json.dumps(options))
    return ElmoConfig.from_bilm_options(path)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_arrays_that_are_far_larger_than_their_file_are_refused(original, tmp_path, monkeypatch, compression):
    options, weights = original
    config = huge_options(options)
    with torch.device("meta"):
        views = bilm_hdf5.bilm_views(ElmoModel(config))
    with h5py.File(weights, "w") as file:
        for name, parts in views.items():
            shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
            chunks = tuple(min(size, 1000) for size in shape)
            file.create_dataset(name, shape, "f4", chunks=chunks, compression=compression)
    assert weights.stat().st_size < 100_000
    monkeypatch.setattr(torch, "from_numpy", None)  # nothing is read
    assert_refused(
        tmp_path,
        lambda out: convert_bilm_hdf5(options, weights, out),
        r"weights.hdf5 has [\d]{2},\d{3} bytes and asks for [\d,]{13} bytes of memory: more than 20 times",
    )


def test_a_chunk_that_is_far_larger_than_its_file_is_refused(original, tmp_path):
    options, weights = original
    with h5py.File(weights, "a") as file:
        bias = replaced(file, RNN_0_BIAS, maxshape=(None,), chunks=(2**26,), compression="gzip", compression_opts=1)
        bias[:] = 1
    assert_refused(
        tmp_path, lambda out: convert_bilm_hdf5(options, weights, out), "asks for 268,4[0-9,]+ bytes of memory"
    )


def test_compressed_arrays_are_read(original, tmp_path):
    arrays = read_arrays(original[1])
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip", shuffle=True, fletcher32=True)
    config = ElmoConfig.from_bilm_options(original[0])
    assert_same_tensors(read_bilm_hdf5(config, tmp_path / "other.hdf5"), tiny_model())


# ---- A full disk.


def test_a_disk_that_is_full_for_the_weights_is_told_and_nothing_is_left(tmp_path):
    options, weights = tmp_path / "options.json", tmp_path / "weights.hdf5"
    write_bilm_hdf5(tiny_model(cell_size=1000), options, weights)
    with files_of_at_most(50_000):  # enough for all other files
        assert_refused(tmp_path, lambda out: convert_bilm_hdf5(options, weights, out), "cannot be written .*make room")


EXPORT = """
import sys
from elmo_hf.conversion import ConversionError, export_bilm_hdf5
from tests.full_disk import files_of_at_most

for size in (0, 100, 3000, 8000, 12_000):
    try:
        with files_of_at_most(size):
            export_bilm_hdf5(*sys.argv[1:])
    except ConversionError as error:
        print(error)
"""


@pytest.mark.medium
def test_a_disk_that_is_full_for_an_export_is_told_and_nothing_is_left(tmp_path):
    """In a process of its own, as HDF5 ends the process where an error is not kept from it."""
    folder, out = save(tiny_model(), tmp_path / "folder"), tmp_path / "work" / "out"
    out.parent.mkdir()
    command = [sys.executable, "-c", EXPORT, str(folder), str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out} cannot be written (File too large): make room and convert again.\n" * 5
    assert list(out.parent.iterdir()) == []


def test_without_h5py_the_remedy_is_named(original, tmp_path, monkeypatch):
    folder = save(tiny_model(), tmp_path / "folder")
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert_refused(tmp_path, lambda out: convert_bilm_hdf5(*original, out), r"pip install .elmo-hf\[convert\]")
    assert_refused(tmp_path, lambda out: export_bilm_hdf5(folder, out), r"pip install .elmo-hf\[convert\]")


@pytest.mark.parametrize(
    ("match", "damage"),
    [
        ("type elmo, found bert", lambda f: (f / "config.json").write_text('{"model_type": "bert"}')),
        ("not a valid JSON", lambda f: (f / "config.json").write_text("{")),
        ("can be loaded", lambda f: (f / "config.json").write_text("[]")),
        ("`cell_size` must be greater", lambda f: edit_config(f, cell_size=-1)),
        (r"bias should be \(2, 36\) by config.json, found \(2, 28\)", lambda f: edit_config(f, cell_size=9)),
        ("lacks the weights .*layers.2", lambda f: edit_config(f, num_hidden_layers=3)),
        ("holds the weights .*highways.0", lambda f: edit_config(f, num_highway_layers=0)),
        ("can be loaded", lambda f: (f / "model.safetensors").unlink()),
        ("can be loaded", lambda f: os.truncate(f / "model.safetensors", 1000)),
        ("can be loaded", shutil.rmtree),
    ],
)
def test_a_damaged_model_folder_is_not_exported(tmp_path, match, damage):
    folder = save(tiny_model(), tmp_path / "folder")
    damage(folder)
    assert_refused(tmp_path, lambda out: export_bilm_hdf5(folder, out), match)


def edit_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_word_model_is_not_exported_with_a_vocabulary_of_another_size(tmp_path):
    folder = save(tiny_model(token_inputs="words"), tmp_path / "folder", WORDS[:-1])
    assert_refused(tmp_path, lambda out: export_bilm_hdf5(folder, out), "has 20 words, its tokenizer 19")


# ---- Any damage.


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(damages())
def test_a_damaged_file_is_refused_or_read_and_nothing_else(original, monkeypatch, damage):
    monkeypatch.setattr(bilm_hdf5, "save_folder", lambda *args: None)  # its files take most of the time
    options, weights = original
    damaged = make_file(weights.with_name("damaged.hdf5"), damage(weights.read_bytes()))
    with contextlib.suppress(ConversionError):
        convert_bilm_hdf5(options, damaged, weights.with_name("out")).rmdir()
    assert {path.name for path in weights.parent.iterdir()} == {options.name, weights.name, damaged.name}
