"""`elmo-hf convert`: what it writes and prints, and what it refuses."""

import sys

import pytest
import torch
from transformers import AutoModel

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.conversion import layer_norms
from tests.conversion.tiny_original import TinyOriginal
from tests.models import edit_config


def test_convert_bilm_hdf5_writes_a_folder_and_says_so(run, original, tmp_path):
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    code, output, error = run(
        "convert", "bilm-hdf5", *original, "--vocab", tmp_path / "vocab.txt", "--out", tmp_path / "out"
    )
    assert (code, error) == (0, "")
    names = "README.md, config.json, conversion.json, model.safetensors, tokenizer.json, tokenizer_config.json"
    assert output == f"{tmp_path / 'out'}: {names}\n"
    assert "\n# out\n" in (tmp_path / "out" / "README.md").read_text()
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


# ---- Published originals


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A published model that the command knows, and its files."""
    tiny = TinyOriginal(tmp_path)
    monkeypatch.setattr("elmo_hf.conversion.originals.ORIGINALS", tiny.registry)
    return tiny


def test_convert_original_says_what_was_checked_and_what_was_not(run, tiny, tmp_path):
    files = ["--weights", tiny.weights, "--options", tiny.options]
    code, output, error = run("convert", "original", "elmo-tiny", *files, "--out", tmp_path / "out")
    assert (code, error) == (0, "")
    names = "README.md, config.json, conversion.json, model.safetensors, tokenizer.json, tokenizer_config.json"
    assert output.splitlines() == [
        f"{tmp_path / 'out'}: {names}",
        "checked: options as in the card",
        "checked: names and sizes of all arrays",
        f"checked: {tiny.facts['parameters']:,} parameters",
        "checked: layer 0 of 3 words against its makers",
        "not checked: checksum of the weights: none is known",
    ]


def test_convert_original_downloads_from_another_address_once(run, tiny, tmp_path, file_server):
    url = tiny.serve(file_server)
    arguments = ["2x7_4_12cnn_1xhighway", "--from-url", url, "--with-vocab", "--dtype", "float16"]
    for name in ("first", "second"):
        code, output, error = run("convert", "original", *arguments, "--check", "the cat", "--out", tmp_path / name)
        assert (code, error) == (0, "")
        assert "layer 2" in output
    assert len(file_server.seen) == 3
    model = AutoModel.from_pretrained(tmp_path / "second")
    assert (model.dtype, model.config.vocab_size) == (torch.float16, 4)


def test_mistakes_with_published_originals_are_one_line(refused, tiny, tmp_path, file_server):
    def refusal(*arguments):
        line = refused("convert", "original", *arguments, "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()
        return line

    assert "'elmo-huge': choose from elmo-tiny." in refusal("elmo-huge")
    assert "give both files" in refusal("elmo-tiny", "--weights", tiny.weights)
    assert "no such file (404)" in refusal("elmo-tiny", "--from-url", file_server.url)
    assert "should begin with https" in refusal("elmo-tiny", "--from-url", tmp_path)
    tiny.facts["layer_0"]["values"][1][2] += 1
    tiny.describe()
    files = ["--weights", tiny.weights, "--options", tiny.options]
    assert "the first component of 'cat' in layer 0" in refusal("elmo-tiny", *files)


def test_without_a_network_the_address_is_named(refused, tmp_path):
    line = refused("convert", "original", "elmo-small", "--out", tmp_path / "out")  # tests run offline
    assert "elmo_2x1024_128_2048cnn_1xhighway_options.json" in line
    assert "HF_HUB_OFFLINE" in line


# ---- Mistakes


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
        (["convert", "original", "elmo-small"], ["--out"]),
        (["convert", "original", "--out", "x"], ["name"]),
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


def test_convert_without_a_format_says_what_it_found(run, original, tmp_path):
    folder = original[0].parent
    code, output, error = run("convert", folder / "options.json", "--out", tmp_path / "out")
    assert (code, error) == (0, "")
    assert output.startswith(f"found: bilm-hdf5 (weights {original[1]}, options {original[0]}")
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_dry_run_prints_the_configuration_and_writes_nothing(run, original, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    for arguments in (["--dry-run", original[1]], [original[1], "--dry-run", "--out", tmp_path / "out"]):
        code, output, error = run("convert", *arguments)
        assert (code, error) == (0, "")
        for part in (
            "found: bilm-hdf5",
            "  cell_size: 7",
            "layers: ",
            "ElmoModel: ",
            "would write",
            "model.safetensors",
        ):
            assert part in output
    assert sorted(tmp_path.rglob("*")) == before


def test_a_path_needs_a_folder_to_write(refused, original):
    assert "--dry-run" in refused("convert", original[1])


def test_a_path_that_does_not_exist_is_named(refused, tmp_path):
    assert "does not exist" in refused("convert", tmp_path / "nothing", "--out", tmp_path / "out")
