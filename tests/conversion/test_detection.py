"""A path without a format: the format is detected, named, and converted as its own command converts it."""

import json
import shutil

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from elmo_hf import ElmoModel
from elmo_hf.cli import app
from elmo_hf.conversion import ConversionError, convert_path, detect, plan_conversion, read_provenance, write_bilm_hdf5
from elmo_hf.conversion.detection import PICKLES
from tests.conftest import find_data
from tests.conversion.refusals import assert_refused
from tests.conversion.test_bilm_checkpoint import SHAPES, random_arrays, write_original
from tests.models import tiny_model


@pytest.fixture
def hdf5(tmp_path):
    folder = tmp_path / "hdf5"
    folder.mkdir()
    write_bilm_hdf5(tiny_model(), folder / "options.json", folder / "weights.hdf5")
    return folder


@pytest.fixture
def checkpoint(tmp_path):
    options = SHAPES["characters"]
    return write_original(tmp_path / "run", options, random_arrays(options, np.random.default_rng(1)))


def many_langs():
    return find_data("fixtures", "elmoformanylangs", "both-cnn-elmo")


def allennlp():
    return find_data("fixtures", "allennlp", "simple_tagger")


def assert_same_as_plan(path, out, **files):
    """The folder has what the plan says."""
    plan = plan_conversion(path, **files)
    convert_path(path, out, **files)
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == [plan.model_class.__name__]
    assert set(plan.files) <= {file.name for file in out.iterdir()}
    assert {file.name for file in out.iterdir() if file.suffix != ".py"} - set(plan.files) <= {
        *("curve.svg", "mixes.svg", "vocab.txt", "scalar_mixes.json", "special_tokens_map.json")
    }
    assert abs((out / "model.safetensors").stat().st_size - plan.size) < 20_000
    model = plan.model_class.from_pretrained(out)
    assert sum(parameter.numel() for parameter in model.parameters()) == sum(plan.parameters.values())
    assert model.config.hidden_size == plan.config.hidden_size
    assert model.config.char_filters == plan.config.char_filters
    return plan


@pytest.mark.parametrize("name", ["", "weights.hdf5", "options.json"])
def test_hdf5_weights_are_found_by_folder_and_by_either_file(hdf5, tmp_path, name):
    detected = detect(hdf5 / name)
    assert (detected.format, detected.files["options"]) == ("bilm-hdf5", hdf5 / "options.json")
    assert_same_as_plan(hdf5 / name, tmp_path / "out")
    assert read_provenance(tmp_path / "out")["format"] == "bilm-hdf5"


@pytest.mark.parametrize(
    "name", ["", "model.ckpt-3", "model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001", "options.json"]
)
def test_checkpoints_are_found_by_folder_prefix_and_file(checkpoint, tmp_path, name):
    assert detect(checkpoint / name).format == "bilm-checkpoint"
    plan = assert_same_as_plan(checkpoint / name, tmp_path / "out")
    assert plan.parameters["softmax"] == 9 * 5


def test_the_file_that_names_the_last_checkpoint_stands_for_it(checkpoint):
    (checkpoint / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-3"\n')
    assert detect(checkpoint / "checkpoint") == detect(checkpoint)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["", "encoder.pkl", "char.dic", "config.json"])
def test_folders_of_elmoformanylangs_are_found(tmp_path, name):
    assert detect(many_langs() / name).format == "elmoformanylangs"
    assert_same_as_plan(many_langs() / name, tmp_path / "out")


@pytest.mark.golden
@pytest.mark.parametrize("name", ["", "best.th"])
def test_state_dicts_of_allennlp_are_found(tmp_path, name):
    assert detect(allennlp() / name).format == "allennlp"
    assert_same_as_plan(allennlp() / name, tmp_path / "out")


def test_of_two_formats_the_one_with_the_softmax_is_taken_and_the_other_is_named(checkpoint, hdf5):
    shutil.copy(hdf5 / "weights.hdf5", checkpoint)
    detected = detect(checkpoint)
    assert (detected.format, detected.also) == ("bilm-checkpoint", ("bilm-hdf5",))
    assert "also there, and not used: bilm-hdf5" in str(detected)


def test_files_that_lie_elsewhere_may_be_given(hdf5, tmp_path):
    options = tmp_path / "elsewhere.json"
    shutil.move(hdf5 / "options.json", options)
    with pytest.raises(ConversionError, match="should hold one of options files, found 0"):
        detect(hdf5)
    assert_same_as_plan(hdf5, tmp_path / "out", options=options)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "holds no known ELMo checkpoint"),
        ({"notes.txt": b"x"}, "holds no known ELMo checkpoint"),
        ({"config.json": b'{"model_type": "elmo"}', "model.safetensors": b""}, "already: from_pretrained loads it"),
        ({"a.hdf5": b"", "b.hdf5": b""}, "found 2: a.hdf5, b.hdf5. Give the one to take"),
        ({"config.json": b"{}", "encoder.pkl": b""}, "holds no known ELMo checkpoint"),
    ],
)
def test_a_folder_without_a_model_is_refused(tmp_path, names, message):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, content in names.items():
        (folder / name).write_bytes(content)
    assert_refused(tmp_path, lambda out: convert_path(folder, out), message)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "does not exist"),
        ("model.zip", b"PK\x03\x04....", "unpack it"),
        ("model.tar.xz", b"\xfd7zXZ\x00..", "unpack it"),
        ("model.bin", b"text", "is not a known kind of file"),
        ("model.json", b"{}", "is not a known kind of file"),
        ("empty.th", b"", "is no state dict"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert_refused(tmp_path, lambda out: convert_path(path, out), message)


def test_a_plan_writes_nothing_and_reads_no_numbers(checkpoint, tmp_path):
    data = checkpoint / "model.ckpt-3.data-00000-of-00001"
    data.write_bytes(bytes(data.stat().st_size))
    before = sorted(tmp_path.rglob("*"))
    plan = plan_conversion(checkpoint, dtype="float16")
    assert sorted(tmp_path.rglob("*")) == before
    assert plan.size == 2 * sum(plan.parameters.values())
    assert_refused(tmp_path, lambda out: convert_path(checkpoint, out), "checksum")


def test_the_precision_is_passed_on(hdf5, tmp_path):
    assert ElmoModel.from_pretrained(convert_path(hdf5, tmp_path / "out", dtype="float16")).dtype == torch.float16


def test_the_name_of_a_missing_file_is_no_unknown_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["convert", "model.ckpt-400", "--out", "out"])
    assert "model.ckpt-400 does not exist: give a folder with" in str(result.exception)


def test_what_elmoformanylangs_has_in_its_folder_cannot_be_given(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    for name in PICKLES:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ConversionError, match="leave out the vocab"):
        detect(tmp_path, vocab="v.txt")
