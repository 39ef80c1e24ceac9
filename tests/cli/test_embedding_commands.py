"""`elmo-hf embed`."""

import gzip
import json
import re
import sys

import h5py
import numpy as np
import pytest
import typer

from elmo_hf.cli.parameters import model_and_inputs
from elmo_hf.embedding import ElmoEmbedder

TEXT = "He sat on the bank of the river.\n\nThe bank was closed.\n"


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    return "text.txt"


def test_text_becomes_vectors_with_the_model_that_comes_with_the_package(run, text, tmp_path):
    code, output, error = run("embed", text, "--out", "out.hdf5")
    assert (code, output, error) == (0, "out.hdf5: 3 records, 14 words\n", "")
    expected = ElmoEmbedder.from_pretrained().embed(TEXT.splitlines())
    with h5py.File("out.hdf5") as file:
        for index, vectors in enumerate(expected):
            np.testing.assert_allclose(file[str(index)][...], vectors, atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "shape"),
    [("all", (3, 9, 8)), ("0,2", (2, 9, 8)), ("1", (9, 8)), ("-1", (9, 8)), ("top", (9, 8)), ("0,", None)],
)
def test_layers_are_named_or_numbered(run, folder, text, layers, shape):
    code, _, error = run("embed", folder, text, "--out", "out.hdf5", "--layers", layers)
    if shape is None:
        assert code == 2
        assert "`layers` must be one of" in error
    else:
        with h5py.File("out.hdf5") as file:
            assert file["0"].shape == shape


def test_a_column_of_words_may_be_pooled_into_an_array(run, folder, text):
    with open("text.jsonl", "w") as file:
        file.writelines(json.dumps({"id": 1, "tokens": line.split()}) + "\n" for line in TEXT.splitlines())
    options = ["--column", "tokens", "--pooling", "max", "--dtype", "float16", "--format", "npy", "--batch-tokens", 5]
    assert run("embed", "--model", folder, "text.jsonl", "--out", "out", *options)[0] == 0
    sentences = [line.split() for line in TEXT.splitlines()]
    expected = ElmoEmbedder.from_pretrained(folder).embed(sentences, pooling="max")
    np.testing.assert_allclose(np.load("out").astype("float32"), expected, atol=1e-2)


def test_a_terminal_shows_how_far_it_is(run, folder, text):
    _, _, error = run("embed", folder, text, "--out", "out.npz", terminal=True)
    assert re.search(r"embedding: 100%.*tokens/s\]", error)


def test_the_files_of_safetensors_are_named(run, folder, text, tmp_path):
    _, output, _ = run("embed", folder, text, "--out", "out.safetensors", "--pretokenized")
    assert output == "out.safetensors.index.json: 3 records, 12 words\n"


def test_standard_input_is_text_or_what_is_said(run, folder, text, monkeypatch):
    for name, content, options in (
        ("a", TEXT, []),
        ("b", "".join(json.dumps({"text": line}) + "\n" for line in TEXT.splitlines()), ["--input-format", "jsonl"]),
    ):
        (folder.parent / "input").write_text(content)
        with open(folder.parent / "input") as file:
            monkeypatch.setattr(sys, "stdin", file)
            code, _, error = run("embed", folder, "-", "--out", f"{name}.npz", *options, terminal=True)
        assert code == 0
        assert re.search(r"embedding: \S+B \[.*tokens/s\]", error)  # without an end that is not known
    assert (folder.parent / "a.npz").read_bytes() == (folder.parent / "b.npz").read_bytes()


def test_bad_lines_are_named_and_counted(run, folder, text, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"text": "a b"}\nno\n{"other": 1}\n{"text": ""}\n')
    code, output, error = run("embed", folder, "bad.jsonl", "--out", "out.npz")
    assert (code, output) == (2, "")
    assert error.splitlines()[-1].startswith("elmo-hf: bad.jsonl, line 2: not JSON")
    code, output, error = run("embed", folder, "bad.jsonl", "--out", "out.npz", "--resume", "--skip-bad")
    assert (code, output) == (0, "out.npz: 2 records, 2 words, 2 bad lines skipped\n")
    assert re.findall(r"skipped: bad.jsonl, line (\d)", error) == ["2", "3"]


def test_a_small_file_with_a_line_without_end_is_one_line(run, folder, tmp_path):
    bomb = tmp_path / "text.gz"
    bomb.write_bytes(gzip.compress(b"a" * 2**23))
    for command in (
        ("embed", folder, bomb, "--out", tmp_path / "out.npz"),
        ("vocab", bomb, "--out", tmp_path / "v.txt"),
    ):
        code, output, error = run(*command)
        assert (code, output) == (2, "")
        assert error.splitlines()[-1].startswith(f"elmo-hf: {bomb}, line 1, has more than 4 MiB")  # after the bar


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text.txt"], "--out"),
        (["none.txt", "--out", "out.npz"], "No such file or folder: none.txt"),
        (["folder", "--out", "out.npz"], "name at least one file or dataset"),
        (["missing-model", "text.txt", "--out", "out.npz"], "There is no folder missing-model here"),
        (["folder", "text.txt", "--out", "out.xml"], "give --format"),
        (["folder", "text.txt", "--out", "out.hdf5", "--dtype", "bfloat16"], "HDF5 has no bfloat16"),
        (["folder", "text.txt", "--out", "out.npy"], "use --pooling mean"),
        (["folder", "text.txt", "--out", "out.npz", "--layers", "7"], "from 0 to 2"),
        (["folder", "text.txt", "--out", "out.npz", "--batch-tokens", "0"], "must be 1 or more, found 0"),
        (["folder", "text.txt", "--out", "out.npz", "--column", "text"], "--column: no input has columns"),
        (["folder", "text.txt", "--out", "out.npz", "--split", "tset"], "--split: no input is a dataset"),
        (["folder", "text.txt", "--out", "none/out.npz"], "There is no folder"),
        (["folder", "text.txt", "--out", "text.txt", "--format", "npz"], "text.txt exists"),
        (["folder", "binary", "--out", "out.npz"], "binary, line 1, is not UTF-8 text"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(run, folder, text, tmp_path, arguments, message):
    (tmp_path / "binary").write_bytes(b"\0")
    code, output, error = run("embed", *arguments)
    assert (code, output) == (2, "")
    line = error.splitlines()[-1]
    assert line.startswith("elmo-hf: ")
    assert message in line
    assert not (tmp_path / "out.npz").exists()


# ---- which argument is the model


@pytest.mark.parametrize(
    ("arguments", "option", "model", "texts"),
    [
        (["text.txt"], None, None, ["text.txt"]),
        (["folder", "text.txt"], None, "folder", ["text.txt"]),
        (["me/elmo", "text.txt"], None, "me/elmo", ["text.txt"]),
        (["me/elmo", "me/dataset", "-"], None, "me/elmo", ["me/dataset", "-"]),
        (["me/dataset"], None, None, ["me/dataset"]),
        (["wikitext:wikitext-2", "text.txt"], None, None, ["wikitext:wikitext-2", "text.txt"]),
        (["missing.txt", "text.txt"], None, None, ["missing.txt", "text.txt"]),
        (["missing.parquet", "text.txt"], None, None, ["missing.parquet", "text.txt"]),
        (["-", "text.txt"], None, None, ["-", "text.txt"]),
        (["me/one", "me/other"], "folder", "folder", ["me/one", "me/other"]),
        (["elmo-english-compact", "text.txt"], None, "elmo-english-compact", ["text.txt"]),
    ],
    ids=str,
)
def test_the_first_argument_is_the_model_if_it_can_be_no_text(folder, text, arguments, option, model, texts):
    assert model_and_inputs(arguments, option) == (model, texts)


def test_a_model_alone_is_not_enough(folder, text):
    with pytest.raises(typer.BadParameter, match="name at least one file or dataset"):
        model_and_inputs(["folder"])


FASTA = ">sp|P1|A first\nSEQ\nWENCE\n>two\nPROTEIN\n>none\n"


@pytest.mark.parametrize("name", ["proteins.fasta", "proteins.faa.gz", "proteins.fa"])
def test_every_sequence_of_fasta_is_a_record_with_its_id(run, folder, text, name, tmp_path):
    (tmp_path / name).write_bytes(gzip.compress(FASTA.encode()) if name.endswith(".gz") else FASTA.encode())
    options = ["--input-format", "fasta"] if name.endswith(".fa") else []
    code, output, error = run("embed", folder, name, "--out", "out.parquet", *options)
    assert (code, output, error) == (0, "out.parquet: 3 records, 15 words\n", "")
    rows = pytest.importorskip("pyarrow.parquet").read_table("out.parquet").to_pylist()
    assert [row["id"] for row in rows] == ["sp|P1|A", "two", "none"]
    expected = ElmoEmbedder.from_pretrained(folder).embed([list("SEQWENCE"), list("PROTEIN"), []])
    for row, vectors in zip(rows, expected, strict=True):
        np.testing.assert_allclose(np.array(row["vectors"]).reshape(vectors.shape), vectors, atol=1e-5)
    for out in ("out.hdf5", "out.npy"):  # of residues, and of proteins
        pooling = ["--pooling", "mean"] if out == "out.npy" else []
        assert run("embed", folder, name, "--out", out, *pooling, *options)[0] == 0
    np.testing.assert_allclose(np.load("out.npy")[1], expected[1].mean(axis=0), atol=1e-5)


def test_the_description_of_a_sequence_is_kept_if_it_is_asked_for(run, folder, text, tmp_path):
    (tmp_path / "a.fasta").write_text(FASTA)
    assert run("embed", folder, "a.fasta", "--out", "out.parquet", "--keep-columns", "description")[0] == 0
    rows = pytest.importorskip("pyarrow.parquet").read_table("out.parquet").to_pylist()
    assert (rows[0]["id"], rows[0]["description"]) == ("sp|P1|A", "first")
    code, _, error = run("embed", folder, "a.fasta", "--out", "b.parquet", "--keep-columns", "organism")
    assert (code, "choose from id, description" in error) == (2, True)
