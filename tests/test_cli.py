"""`elmo-hf`: what it prints, and that a mistake is one line and exit code 2, never a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModel
from transformers.utils import logging

from elmo_hf import ElmoModel, ElmoTokenizer, __version__, cli
from elmo_hf.conversion import layer_norms, write_bilm_hdf5
from tests.models import tiny_model

SHARED_OPTIONS = ["--vocab", "--out", "--dtype", "Example: elmo-hf"]
COMMANDS = {
    (): ["convert", "--version", "--help"],
    ("convert",): ["bilm-hdf5", "allennlp", "to-bilm-hdf5"],
    ("convert", "bilm-hdf5"): ["options.json", "weights (.hdf5)", *SHARED_OPTIONS, "--check"],
    ("convert", "allennlp"): ["best.th", "model.tar.gz", "--options", *SHARED_OPTIONS, "--check"],
    ("convert", "to-bilm-hdf5"): ["A model folder", "--out", "Example: elmo-hf"],
}


@pytest.fixture(autouse=True)
def same_logging_afterwards():
    verbosity = logging.get_verbosity()
    yield
    logging.set_verbosity(verbosity)
    logging.enable_progress_bar()


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["elmo-hf", *map(str, arguments)])
        capsys.readouterr()  # the fixtures' progress bars
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def refused(run):
    """Runs a command that is a mistake, and gives its one line on standard error."""

    def refused(*arguments):
        code, output, error = run(*arguments)
        assert (code, output) == (2, "")
        assert error.startswith("elmo-hf: ")
        assert error.count("\n") == 1
        assert error.endswith("\n")
        return error

    return refused


@pytest.fixture
def original(tmp_path):
    options, weights = tmp_path / "options.json", tmp_path / "weights.hdf5"
    write_bilm_hdf5(tiny_model(), options, weights)
    return options, weights


@pytest.fixture
def folder(tmp_path):
    tiny_model(vocab_size=3).save_pretrained(tmp_path / "folder")
    ElmoTokenizer().save_pretrained(tmp_path / "folder")
    return tmp_path / "folder"


# ---- Help.


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_names_its_arguments(run, command, flag):
    code, output, error = run(*command, flag)
    assert (code, error) == (0, "")
    assert [word for word in COMMANDS[command] if word not in output] == []


@pytest.mark.parametrize("command", [(), ("convert",)])
def test_a_command_alone_prints_its_help(run, command):
    assert run(*command) == run(*command, "--help")


def test_the_version_is_printed(run):
    assert run("--version") == (0, f"elmo-hf {__version__}\n", "")


def test_the_installed_command_explains_in_one_line_what_the_library_reports_in_twelve(folder, tmp_path):
    edit_config(folder, cell_size=9)
    command = Path(sys.executable).with_name("elmo-hf")
    arguments = [command, "convert", "to-bilm-hdf5", folder, "--out", tmp_path / "out"]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    expected = f"elmo-hf: {folder}: layers.0.bias should be (2, 36) by config.json, found (2, 28).\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)


def edit_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


# ---- Conversions.


def test_convert_bilm_hdf5_writes_a_folder_and_says_so(run, original, tmp_path):
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    code, output, error = run(
        "convert", "bilm-hdf5", *original, "--vocab", tmp_path / "vocab.txt", "--out", tmp_path / "out"
    )
    assert (code, error) == (0, "")
    assert output == f"{tmp_path / 'out'}: config.json, model.safetensors, tokenizer.json, tokenizer_config.json\n"
    assert AutoModel.from_pretrained(tmp_path / "out").config.vocab_size == 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_dtype_is_the_stored_precision(run, original, tmp_path, dtype):
    assert run("convert", "bilm-hdf5", *original, "--out", tmp_path / "out", "--dtype", dtype)[0] == 0
    assert ElmoModel.from_pretrained(tmp_path / "out").dtype == getattr(torch, dtype)


def test_a_folder_goes_to_the_original_format_and_back(run, folder, tmp_path):
    code, output, _ = run("convert", "to-bilm-hdf5", folder, "--out", tmp_path / "original")
    assert (code, output) == (0, f"{tmp_path / 'original'}: options.json, vocab.txt, weights.hdf5\n")
    files = [tmp_path / "original" / name for name in ("options.json", "weights.hdf5")]
    assert run("convert", "bilm-hdf5", *files, "--out", tmp_path / "back")[0] == 0
    weights = [(path / "model.safetensors").read_bytes() for path in (folder, tmp_path / "back")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("in_file", [False, True])
def test_check_prints_the_norm_of_every_word_in_every_layer(run, original, tmp_path, in_file):
    sentences = ["The river bank.", "I don't know, " + "really " * 100] if in_file else ["A bank " * 100]
    check = tmp_path / "sentences.txt" if in_file else sentences[0]  # a sentence too long for a file's name
    if in_file:
        check.write_text("\n\n".join(sentences))
    code, output, error = run("convert", "bilm-hdf5", *original, "--out", tmp_path / "out", "--check", check)
    assert (code, error) == (0, "")
    _, header, *lines = output.splitlines()
    assert header.split() == ["word", "layer", "0", "layer", "1", "layer", "2"]
    expected = list(layer_norms(tmp_path / "out", sentences))
    assert len(lines) == len(expected) == (4 + 8 if in_file else 8)
    for line, (word, norms) in zip(lines, expected, strict=True):
        assert line.split() == [word, *(f"{norm:.6f}" for norm in norms)]


def test_the_norms_are_those_of_the_model(folder):
    model, tokenizer = ElmoModel.from_pretrained(folder).eval(), ElmoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        output = model(**tokenizer("The bank", return_tensors="pt"), output_hidden_states=True)
    expected = [[float(layer[0, word].norm()) for layer in output.hidden_states] for word in (1, 2)]
    assert list(layer_norms(folder, ["The bank"])) == list(zip(["The", "bank"], expected, strict=True))


# ---- Mistakes.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["konvert"], ["konvert", "--help"]),
        (["convert", "elmo"], ["elmo", "--help"]),
        (["--nonsense"], ["--nonsense"]),
        (["convert", "bilm-hdf5", "--out", "x"], ["options"]),
        (["convert", "bilm-hdf5", "options.json", "--out", "x"], ["weights"]),
        (["convert", "bilm-hdf5", "options.json", "weights.hdf5"], ["--out"]),
        (["convert", "allennlp", "best.th"], ["--out"]),
        (["convert", "to-bilm-hdf5", "model"], ["--out"]),
        (["convert", "to-bilm-hdf5", "model", "more", "--out", "x"], ["more"]),
        (["convert", "allennlp", "best.th", "--out", "x", "--dtype", "int8"], ["--dtype", "int8", "float16"]),
        (["convert", "allennlp", "best.th", "--out"], ["--out"]),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_explained_in_one_line(refused, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refused(*arguments)
    assert [word for word in words if word not in line.lower()] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["bilm-hdf5", "allennlp", "to-bilm-hdf5"])
@pytest.mark.parametrize("content", [None, "folder", b"", b"garbage\n\nof two lines"])
def test_files_that_are_none_are_refused_and_nothing_is_left(refused, tmp_path, command, content):
    path = tmp_path / "file"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    files = [path, path] if command == "bilm-hdf5" else [path]
    assert str(path) in refused("convert", command, *files, "--out", tmp_path / "new" / "out")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cell_size": 9}, "by config.json"),
        ({"cell_size": -1}, "`cell_size` must be greater than 0"),  # two lines, by the library
        ({"model_type": "bert", "hidden_size": 8}, "found bert"),
    ],
)
def test_a_damaged_model_folder_is_explained_in_one_line(refused, folder, tmp_path, fields, message):
    edit_config(folder, **fields)
    assert message in refused("convert", "to-bilm-hdf5", folder, "--out", tmp_path / "out")


def test_what_is_in_out_already_is_refused_and_untouched(refused, original, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    assert "not an empty folder" in refused("convert", "bilm-hdf5", *original, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "precious"
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_sentences_that_are_no_text_are_refused_before_the_conversion(refused, original, tmp_path):
    (tmp_path / "sentences").write_bytes(b"\xff\xfe")
    line = refused("convert", "bilm-hdf5", *original, "--out", tmp_path / "out", "--check", tmp_path / "sentences")
    assert "--check" in line
    assert "not UTF-8" in line
    assert not (tmp_path / "out").exists()


def test_h5py_is_named_where_it_is_missing(refused, original, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    line = refused("convert", "bilm-hdf5", *original, "--out", tmp_path / "out")
    assert 'pip install "elmo-hf[convert]"' in line


def test_ctrl_c_leaves_neither_a_traceback_nor_files(run, original, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_hf.conversion.bilm_hdf5.read_bilm_hdf5", interrupt)
    before = sorted(tmp_path.iterdir())
    assert run("convert", "bilm-hdf5", *original, "--out", tmp_path / "out") == (130, "", "")
    assert sorted(tmp_path.iterdir()) == before
