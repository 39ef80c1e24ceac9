"""`elmo-hf index` and `elmo-hf neighbors`."""

import gzip
import os
import re
import shlex

import pytest

from elmo_hf import ElmoIndex, ElmoTokenizer
from tests.conftest import ROOT
from tests.models import tiny_model

TEXT = "The bank of the river.\n\nI don't know.\nA Bank!\n"


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


@pytest.fixture
def made(run, folder, text, tmp_path):
    assert run("index", text, "--out", tmp_path / "index", "--model", folder)[0] == 0
    return tmp_path / "index"


def test_a_terminal_shows_how_far_it_is(run, folder, text, tmp_path):
    assert "tokens/s" in run("index", text, "--out", tmp_path / "index", "--model", folder, terminal=True)[2]


def test_an_index_is_made_and_searched(run, folder, text, tmp_path):
    out = tmp_path / "index"
    code, output, error = run("index", text, "--out", out, "--model", folder)
    assert code == 0
    assert output.startswith(f"{out}: 14 occurrences in 3 sentences, ")
    assert error == ""
    code, output, error = run("neighbors", out, "The **bank** of the river.", "-k", 3)
    assert (code, error) == (0, "")
    lines = output.splitlines()
    assert lines[0] == "1.000  The [bank] of the river."
    assert len(lines) == 3


def test_the_same_word_or_each_word_once(run, made):
    _, output, _ = run("neighbors", made, "the **bank** was", "--same-word")
    assert sorted(line.split("  ")[1] for line in output.splitlines()) == ["A [Bank]!", "The [bank] of the river."]
    _, output, _ = run("neighbors", made, "the **bank** was", "--distinct", "-k", 50)
    assert len(output.splitlines()) == 11


def test_compressed_files_several_formats_and_standard_input_are_read(run, folder, tmp_path, monkeypatch):
    (tmp_path / "text.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "text.jsonl").write_text('{"words": ["a", "bank!"]}\n')
    reading, writing = os.pipe()
    os.write(writing, b"the bank of sand\n")
    os.close(writing)
    files = [tmp_path / "text.gz", tmp_path / "text.jsonl", "-"]
    with open(reading) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert run("index", *files, "--out", tmp_path / "index", "--model", folder)[0] == 0
    index = ElmoIndex.load(tmp_path / "index")
    occurrences = [index[row] for row in range(len(index))]
    assert [occurrence.word for occurrence in occurrences[14:]] == ["a", "bank!", "the", "bank", "of", "sand"]
    assert [occurrence.number for occurrence in occurrences[:14:4]] == [0, 0, 2, 3]


def test_a_column_can_be_chosen(run, refused, folder, tmp_path):
    (tmp_path / "table.csv").write_text("id,sent\n1,the bank\n", "utf-8")
    options = ["--model", folder, "--out", tmp_path / "out"]
    assert "Choose one of them with --column." in refused("index", tmp_path / "table.csv", *options)
    code, output, _ = run("index", tmp_path / "table.csv", *options, "--column", "sent")
    assert code == 0
    assert "2 occurrences in 1 sentence" in output


def test_layers_words_and_dtype_are_those_asked_for(run, folder, text, tmp_path):
    options = ["--layers", 1, "--words", "bank,know", "--dtype", "float32", "--exact"]
    assert run("index", text, "--out", tmp_path / "index", "--model", folder, *options)[0] == 0
    index = ElmoIndex.load(tmp_path / "index")
    assert [index[row].word for row in range(len(index))] == ["bank", "know", "Bank"]
    assert index.layers == 1
    assert (tmp_path / "index" / "vectors.npy").stat().st_size == 128 + 3 * 8 * 4


def test_an_approximate_index_is_made_and_searched_either_way(run, folder, text, tmp_path):
    pytest.importorskip("usearch")
    out = tmp_path / "index"
    assert run("index", text, "--out", out, "--model", folder, "--approximate")[0] == 0
    assert (out / "graph.usearch").exists()
    query = ["neighbors", out, "the **bank** was", "-k", 4]
    assert run(*query)[1] == run(*query, "--exact")[1] != ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "no.txt", "--out", "x"], "no.txt"),
        (["index", "{text}", "--out", "{index}"], "not an empty folder"),
        (["index", "{text}", "--out", "x", "--layers", "all"], "one vector per word"),
        (["index", "{text}", "--out", "x", "--layers", "7"], "0 to 2"),
        (["index", "{text}", "--out", "x", "--words", "Zürich"], "none of the words Zürich"),
        (["index", "{text}", "--out", "x", "--words", ","], "list of words"),
        (["index", "{text}", "--out", "x", "--model", "no-model"], "no-model"),
        (["neighbors", "{folder}", "the **bank**"], "is not an index"),
        (["neighbors", "{index}", "the bank"], "No word is marked"),
        (["neighbors", "{index}", "**the** **bank**"], "2 words are marked"),
        (["neighbors", "{index}", "**the bank**"], "not one word"),
        (["neighbors", "{index}", "the **bank**", "-k", "0"], "1 or more"),
        (["neighbors", "{index}", "the **bank**", "--model", "{other}"], "another model"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line(run, made, folder, text, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    tiny_model(seed=5, vocab_size=3).save_pretrained(tmp_path / "other")
    ElmoTokenizer().save_pretrained(tmp_path / "other")
    names = {"text": text, "index": made, "folder": folder, "other": tmp_path / "other"}
    formatted = [argument.format(**names) if "{" in argument else argument for argument in arguments]
    if formatted[0] == "index" and "--model" not in formatted:
        formatted += ["--model", folder]
    code, output, error = run(*formatted)
    assert (code, output) == (2, "")
    assert error.splitlines()[-1].startswith("elmo-hf: ")
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "x").exists()


def test_a_model_that_has_moved_can_be_named(run, made, folder, tmp_path):
    folder.rename(tmp_path / "moved")
    code, _, error = run("neighbors", made, "the **bank**")
    assert code == 2
    assert "name it with --model" in error
    assert run("neighbors", made, "the **bank**", "--model", tmp_path / "moved")[0] == 0


def test_an_index_of_a_model_without_a_name_asks_for_it(refused, run, made):
    info = (made / "index.json").read_text()
    name = ElmoIndex.load(made).model
    (made / "index.json").write_text(info.replace(name, ""))
    assert "no name" in refused("neighbors", made, "the **bank**")
    assert run("neighbors", made, "the **bank**", "--model", name)[0] == 0


@pytest.mark.medium
def test_the_documentation_shows_what_is_printed(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elmo_hf").symlink_to(ROOT / "elmo_hf")
    (shown,) = re.findall(r"```console\n(.*?)```", (ROOT / "docs/neighbours.md").read_text("utf-8"), flags=re.DOTALL)
    decimal = re.compile(r"\d+\.\d+")
    for part in shown.strip().split("\n\n"):
        command, _, expected = part.partition("\n")
        code, printed, _ = run(*shlex.split(command.removeprefix("$ elmo-hf ")))
        assert code == 0
        assert decimal.sub("", printed.strip()) == decimal.sub("", expected)
        # Another processor may round otherwise.
        values = [[float(value) for value in decimal.findall(text)] for text in (printed, expected)]
        assert values[0] == pytest.approx(values[1], abs=0.002)
