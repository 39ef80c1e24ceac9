"""Every format, read back with the library that its users have."""

import io
import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset, load_dataset
from safetensors.torch import load_file

from elmo_hf.corpus import embed_corpus
from elmo_hf.corpus.formats import FORMATS, find_format
from elmo_hf.corpus.shards import Layout
from elmo_hf.errors import FolderError
from tests.embedding.toy import toy_embedder

TEXTS = ["The bank of the river.", "", "宝玉 in Zürich", "the bank"]
WORDS = [["The", "bank", "of", "the", "river", "."], [], ["宝", "玉", "in", "Zürich"], ["the", "bank"]]
EMBEDDER = toy_embedder()
SHAPES = [("mix", None), ("all", None), ([2, 0], None), ("mix", "mean"), ("all", "max")]
DTYPES = ["float32", "float16"]


@pytest.fixture
def embedded(tmp_path):
    """Embeds the texts, a shard each or two, and gives the output's path."""

    def embed(ending: str, texts=TEXTS, **options) -> Path:
        (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts), "utf-8")
        embed_corpus(
            [str(tmp_path / "texts.txt")], tmp_path / f"out{ending}", embedder=EMBEDDER, progress=False, **options
        )
        return tmp_path / f"out{ending}"

    return embed


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr("elmo_hf.corpus.embed.SHARD_CHARACTERS", 24)  # the first two texts, and the others


def expected(layers, pooling, dtype="float32"):
    vectors = EMBEDDER.embed(TEXTS, layers=layers, pooling=pooling)
    return [np.asarray(record, dtype) for record in vectors]


def assert_same(actual, layers, pooling, dtype="float32"):
    for ours, record in zip(actual, expected(layers, pooling, dtype), strict=True):
        assert np.shape(ours) == record.shape
        np.testing.assert_allclose(
            np.asarray(ours, "float32"), record.astype("float32"), atol=1e-5 if dtype == "float32" else 1e-2
        )


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
@pytest.mark.parametrize(("layers", "pooling"), SHAPES)
def test_safetensors(embedded, layers, pooling, dtype):
    out = embedded(".safetensors", layers=layers, pooling=pooling, dtype=dtype)
    index = json.loads(out.with_name("out.safetensors.index.json").read_text())
    assert [(shard["file"], shard["records"]) for shard in index["shards"]] == [
        ("out-00001-of-00002.safetensors", 2),
        ("out-00002-of-00002.safetensors", 2),
    ]
    assert (index["records"], index["words"], index["dtype"]) == (4, 12, dtype)
    assert (index["layers"], index["pooling"]) == (layers, pooling)
    vectors, words = [], []
    for shard in index["shards"]:
        tensors = load_file(out.with_name(shard["file"]))
        assert tensors["vectors"].dtype == getattr(torch, dtype)
        assert tensors["lengths"].sum() == shard["words"]
        assert list(tensors["vectors"].shape[1:]) == index["shape"][1:]
        sizes = [1] * shard["records"] if pooling else tensors["lengths"].tolist()
        parts = [part.float().numpy() for part in tensors["vectors"].split(sizes)]
        if pooling:
            vectors += [part[0] for part in parts]
        else:
            vectors += [part if part.ndim == 2 else part.transpose(1, 0, 2) for part in parts]  # words come first here
        words += [json.loads(line)["words"] for line in bytes(tensors["records"].tolist()).splitlines()]
    assert_same(vectors, layers, pooling, "float32" if dtype == "float32" else "float16")
    assert words == WORDS


@pytest.mark.parametrize(("layers", "pooling"), SHAPES)
@pytest.mark.parametrize(("ending", "dtype"), [("parquet", "float32"), ("parquet", "float16"), ("arrow", "float32")])
def test_parquet_and_arrow_open_as_datasets(embedded, tmp_path, ending, layers, pooling, dtype):
    out = embedded(f".{ending}", layers=layers, pooling=pooling, dtype=dtype)
    dataset = load_dataset(ending, data_files=str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert dataset["text"][:] == TEXTS
    assert dataset["words"][:] == WORDS
    numbers = dataset.features["vectors"]
    while hasattr(numbers, "feature"):
        numbers = numbers.feature
    assert numbers.dtype == dtype
    vectors = [row["vectors"] for row in dataset.with_format("numpy")]
    if not pooling:
        assert dataset[1]["vectors"] == ([] if layers == "mix" else [[]] * len(vectors[1]))
        vectors[1] = expected(layers, pooling)[1]  # NumPy cannot tell how long the vectors of no words are
    assert_same(vectors, layers, pooling, dtype)
    if ending == "arrow":
        assert Dataset.from_file(str(out))["text"][:] == TEXTS  # mapped, not copied


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("layers", "pooling"), SHAPES)
def test_hdf5_is_as_allennlp_wrote_it(embedded, layers, pooling, dtype):
    out = embedded(".hdf5", layers=layers, pooling=pooling, dtype=dtype)
    with h5py.File(out, "r") as file:  # as readers of `allennlp elmo` did
        assert set(file.keys()) == {"0", "1", "2", "3", "sentence_to_index"}
        assert file["0"].dtype == dtype
        assert_same([file[str(index)][...] for index in range(4)], layers, pooling, dtype)
        numbers = json.loads(file["sentence_to_index"][0])
        assert numbers == {text: str(index) for index, text in enumerate(TEXTS)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("layers", "pooling"), SHAPES)
def test_hdf5_is_byte_for_byte_what_h5py_writes(embedded, layers, pooling, dtype):
    out, memory = embedded(".hdf5", layers=layers, pooling=pooling, dtype=dtype), io.BytesIO()
    with h5py.File(out, "r") as ours, h5py.File(memory, "w") as theirs:
        for key in map(str, range(4)):
            theirs.create_dataset(key, data=ours[key][...])
        index = theirs.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        index[0] = ours["sentence_to_index"][0]
    assert out.read_bytes() == memory.getvalue()


def test_a_sentence_that_comes_twice_has_the_number_of_the_last_as_in_allennlp(embedded):
    with h5py.File(embedded(".h5", ["a", "b", " a "]), "r") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a": "2", "b": "1"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("layers", "pooling"), SHAPES)
def test_npz(embedded, layers, pooling, dtype):
    with np.load(embedded(".npz", layers=layers, pooling=pooling, dtype=dtype)) as arrays:
        vectors, lengths = arrays["vectors"], arrays["lengths"]
        words = [json.loads(line)["words"] for line in arrays["records"].tobytes().splitlines()]
    assert vectors.dtype == dtype
    assert lengths.tolist() == [6, 0, 4, 2]
    assert words == WORDS
    if pooling:
        assert_same(vectors, layers, pooling, dtype)
    else:
        parts = np.split(vectors, np.cumsum(lengths)[:-1])
        assert_same([part if part.ndim == 2 else part.transpose(1, 0, 2) for part in parts], layers, pooling, dtype)


@pytest.mark.parametrize("layers", ["mix", "all"])
def test_npy_holds_pooled_vectors(embedded, layers):
    assert_same(np.load(embedded(".npy", layers=layers, pooling="mean")), layers, "mean")


@pytest.mark.parametrize("ending", [".safetensors", ".parquet", ".arrow", ".hdf5", ".npz", ".npy"])
def test_a_corpus_without_a_line_is_an_output_without_a_record(embedded, ending):
    out = embedded(ending, [], pooling="mean")
    if ending == ".safetensors":
        assert json.loads(out.with_name("out.safetensors.index.json").read_text())["shards"] == []
    elif ending in (".parquet", ".arrow"):
        table = Dataset.from_file(str(out)) if ending == ".arrow" else pq.read_table(out)
        assert (table.num_rows, table.column_names) == (0, ["text", "words", "vectors"])
    elif ending == ".hdf5":
        with h5py.File(out) as file:
            assert list(file) == ["sentence_to_index"]
    else:
        table = np.load(out)
        assert (table if ending == ".npy" else table["vectors"]).shape == (0, EMBEDDER.hidden_size)


# ---- what is refused


@pytest.mark.parametrize("name", ["parquet", "arrow", "hdf5", "npz", "npy"])
def test_what_has_no_bfloat16_says_so(name):
    with pytest.raises(FolderError, match=r"has no bfloat16: use --dtype float32 or float16, or --format safetensors"):
        FORMATS[name](Layout(4, dtype="bfloat16", pooled=True), {})


def test_npy_holds_no_words():
    with pytest.raises(FolderError, match=r"use --pooling mean, or \.npz"):
        FORMATS["npy"](Layout(4), {})


@pytest.mark.parametrize(("name", "module"), [("parquet", "pyarrow"), ("arrow", "pyarrow"), ("hdf5", "h5py")])
def test_without_its_library_a_format_names_the_extra(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'needs {module}: pip install "elmo-hf\[embed\]"'):
        FORMATS[name](Layout(4), {})


def test_the_format_is_in_the_name_or_is_said():
    assert find_format(Path("a.H5"), None) is FORMATS["hdf5"]
    assert find_format(Path("a.txt"), "npz") is FORMATS["npz"]
    with pytest.raises(FolderError, match=r"end it in \.safetensors, \.parquet"):
        find_format(Path("vectors"), None)
    with pytest.raises(FolderError, match="no format 'xml'"):
        find_format(Path("a.npz"), "xml")
