"""TensorFlow's checkpoints without TensorFlow: every number, every checksum, and a clear refusal of anything else."""

import contextlib
import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_hf.conversion import ConversionError
from elmo_hf.conversion.tf_checkpoint import TensorFlowCheckpoint
from tests.conftest import find_data
from tests.conversion.refusals import damages
from tests.conversion.tf_checkpoint_writer import entry, field, table, write_checkpoint

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a/b": np.array([0.5, -2.0], dtype=np.float64),
    "scalar": np.array(7, dtype=np.float32),
    "step": np.array(400, dtype=np.int64),
    "empty": np.zeros((0, 3), dtype=np.float32),
    "half": np.array([1.5], dtype=np.float16),
    **{f"many/{value:02d}": np.full(value, value, dtype=np.float32) for value in range(1, 40)},
}


@pytest.fixture
def prefix(tmp_path):
    return write_checkpoint(tmp_path / "model.ckpt-7", ARRAYS)


def data_file(prefix):
    return prefix.with_name(prefix.name + ".data-00000-of-00001")


def index_file(prefix):
    return prefix.with_name(prefix.name + ".index")


@pytest.mark.golden
@pytest.mark.parametrize("name", ["chars", "chars-forward-only", "chars-no-projection", "words"])
def test_every_variable_is_what_tensorflow_reads(name):
    folder = find_data("fixtures", "tf-checkpoints", name)
    checkpoint = TensorFlowCheckpoint(folder / "model.ckpt-400")
    shapes = json.loads((folder / "variables.json").read_text())
    assert {variable_name: list(variable.shape) for variable_name, variable in checkpoint.variables.items()} == shapes
    expected = np.load(folder / "variables.npz")
    compared = 0
    for variable_name in checkpoint.variables:
        key = variable_name if variable_name in expected else variable_name.replace("/", "|")
        if key in expected and expected[key].dtype == np.float32:
            assert np.array_equal(checkpoint.read(variable_name).numpy(), expected[key])
            compared += 1
    assert compared > len(shapes) / 3


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_all_that_was_written_is_read(tmp_path, shards):
    checkpoint = TensorFlowCheckpoint(write_checkpoint(tmp_path / "model.ckpt", ARRAYS, shards=shards))
    assert checkpoint.variables.keys() == ARRAYS.keys()
    assert len(checkpoint.files) == shards
    for name, array in ARRAYS.items():
        assert checkpoint.variables[name].shape == array.shape
        if array.dtype != np.int64:
            assert np.array_equal(checkpoint.read(name).numpy(), array.astype(np.float32)), name


def test_bfloat16_is_read(tmp_path):
    values = torch.tensor([1.5, -0.25, 1e30]).bfloat16()
    bits = values.view(torch.int16).numpy().view(np.float16)  # as bytes
    prefix = write_checkpoint(tmp_path / "model.ckpt", {"a": bits})
    described = entry(bits, 0, 0).replace(field(1, 19), field(1, 14), 1)
    index_file(prefix).write_bytes(table({b"": field(1, 1), b"a": described}))
    assert torch.equal(TensorFlowCheckpoint(prefix).read("a"), values.float())


def test_numbers_that_are_no_floats_are_refused_by_name(prefix):
    with pytest.raises(ConversionError, match=r"step should hold floats, found int64"):
        TensorFlowCheckpoint(prefix).read("step")


def test_a_flipped_bit_is_found_by_its_checksum(prefix):
    data = bytearray(data_file(prefix).read_bytes())
    data[TensorFlowCheckpoint(prefix).variables["many/39"].offset] ^= 1
    data_file(prefix).write_bytes(data)
    checkpoint = TensorFlowCheckpoint(prefix)
    assert checkpoint.read("many/38") is not None
    with pytest.raises(ConversionError, match=r"data-00000-of-00001 is damaged: the checksum of many/39 is wrong"):
        checkpoint.read("many/39")


def test_a_data_file_that_is_cut_short_is_named(prefix):
    data_file(prefix).write_bytes(data_file(prefix).read_bytes()[:-1])
    with pytest.raises(ConversionError, match=r"data-00000-of-00001 is cut short: step ends at byte"):
        TensorFlowCheckpoint(prefix)._bytes("step", TensorFlowCheckpoint(prefix).variables["step"])


def test_a_missing_file_is_named(prefix):
    data_file(prefix).unlink()
    with pytest.raises(ConversionError, match=r"data-00000-of-00001 cannot be read"):
        TensorFlowCheckpoint(prefix).read("a")
    with pytest.raises(ConversionError, match=r"other\.index cannot be read"):
        TensorFlowCheckpoint(prefix.with_name("other"))


SLICE = field(7, field(1, b""))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"", "end is not marked"),
        (b"text" * 100, "end is not marked"),
        (bytes(40) + struct.pack("<Q", 0xDB4775248B80FB57), "no index"),
        (b"\xff" * 40 + struct.pack("<Q", 0xDB4775248B80FB57), "too long"),
        (table({b"": field(1, 1), b"a": b"\xff\xff"}), "no index"),
        (table({b"": field(1, 1), b"a": field(2, 5)}), "a message is missing"),
        (table({b"": field(1, 1), b"a": field(2, field(2, field(1, 1)) * 100)}), "100 dimensions"),
        (table({b"": field(1, 1) + field(2, 1)}), "big-endian"),
        (table({b"": field(1, b"many")}), "the number of data files is missing"),
        (table({b"": field(1, 1)}, compression=1), "compressed"),
    ],
)
def test_an_index_that_is_none_is_refused(tmp_path, index, message):
    (tmp_path / "model.ckpt.index").write_bytes(index)
    with pytest.raises(ConversionError, match=message):
        TensorFlowCheckpoint(tmp_path / "model.ckpt")


def test_sliced_variables_are_refused(prefix):
    described = entry(ARRAYS["a"], 0, 0, extra=SLICE)
    index_file(prefix).write_bytes(table({b"": field(1, 1), b"a": described}))
    with pytest.raises(ConversionError, match=r"a is stored in slices"):
        TensorFlowCheckpoint(prefix).read("a")


@pytest.mark.parametrize("size", [2**62, 10**6])
def test_a_variable_that_claims_to_be_huge_takes_no_memory(prefix, size):
    shape = field(2, field(1, size))
    described = field(1, 1) + field(2, shape) + field(5, 4 * size)
    index_file(prefix).write_bytes(table({b"": field(1, 1), b"a": described}))
    with pytest.raises(ConversionError, match="is cut short"):
        TensorFlowCheckpoint(prefix).read("a")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(damage=damages(), of_index=st.booleans())
def test_damage_is_refused_or_without_effect(tmp_path_factory, damage, of_index):
    prefix = write_checkpoint(tmp_path_factory.mktemp("damaged") / "model.ckpt", ARRAYS)
    path = index_file(prefix) if of_index else data_file(prefix)
    path.write_bytes(damage(path.read_bytes()))
    with contextlib.suppress(ConversionError):
        checkpoint = TensorFlowCheckpoint(prefix)
        for name in checkpoint.variables:
            with contextlib.suppress(ConversionError):
                assert np.array_equal(checkpoint.read(name).numpy(), ARRAYS[name].astype(np.float32))
