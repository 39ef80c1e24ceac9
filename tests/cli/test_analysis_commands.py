"""`elmo-hf analyze …`: tables, files, and mistakes that are reported before any work."""

import json

import pytest

from elmo_hf.analysis import sample_efficiency
from elmo_hf.finetuning import FinetuningRun
from tests.finetuning.toy import sentences, write_conll

DOCUMENT = """# document = d{number}
the\tthe\tDT\t-\t-
bank\tbank\tNN\tbank%1:0{sense}:00::\t-
runs\trun\tVB\trun%2:38:00::\t-

"""
SEMCOR = "".join(DOCUMENT.format(number=index, sense=index % 2) for index in range(6))
TEXT = "the bank of the river\nthe old bank\na bank in Zürich\nthe bank is closed\nno bank here\nthe river\n"
SENSES = ("analyze", "senses", "data.tsv", "--test-share", "0.34", "--model", "folder")
LAYERS = ("analyze", "layers", "--text", "text.txt", "--model", "folder")
NEIGHBOURS = ("analyze", "neighbors-table", "text.txt", "--sentence", "by the **bank**", "--model", "folder")
PROBE = ("analyze", "probe", "train.conll", "dev.conll", "--model", "folder", "--epochs", "1")
SAMPLES = ("analyze", "samples", "tagging", "train.conll", "dev.conll", "--work", "heads", "--model", "folder")


@pytest.fixture(autouse=True)
def files(tmp_path, folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.tsv").write_text(SEMCOR)
    (tmp_path / "text.txt").write_text(TEXT)
    write_conll(tmp_path / "train.conll", sentences(20, 0))
    write_conll(tmp_path / "dev.conll", sentences(8, 1))
    (tmp_path / "one-tag.conll").write_text("the\tO\ncat\tO\n")


def outputs(run, *command, error: str = ""):
    """What a command prints and writes; `error` begins what it says on standard error."""
    code, output, said = run(*command, "--json", "out.json", "--picture", "out.svg")
    assert code == 0
    assert said.startswith(error) if error else said == ""
    with open("out.svg", encoding="utf-8") as picture:
        assert "</svg>" in picture.read()
    with open("out.json", encoding="utf-8") as file:
        return output, json.load(file)


@pytest.mark.medium
def test_senses_are_split_by_documents_and_reported(run):
    output, results = outputs(run, *SENSES)
    assert results["groups"] == ["all", "ambiguous", "noun", "verb"]
    assert results["counts"] == [4, 2, 2, 2]
    assert results["representations"] == ["layer 0", "layer 1", "layer 2", "mix"]
    assert "answers" not in results
    assert sum(results["learned_mix"]) == pytest.approx(1)
    assert output.splitlines()[1].startswith("most frequent sense ")


def test_senses_of_a_test_text_with_first_senses_and_without_neighbours(run, tmp_path):
    (tmp_path / "test.tsv").write_text("the castle\t1\tcastle%1:06:00::\n")
    (tmp_path / "index.sense").write_text("castle%1:06:00:: 1 1 0\n")
    options = ("--first-senses", "index.sense", "--neighbors", "0", "--model", "folder")
    _, results = outputs(run, "analyze", "senses", "data.tsv", "test.tsv", *options)
    assert (results["fallback"], results["accuracy"][0]) == (1, [1.0, 1.0])
    assert (len(results["methods"]), results["learned_mix"]) == (6, None)  # no word of the test has several candidates


def test_an_interrupted_analysis_of_senses_continues_in_its_folder(run, tmp_path):
    first = run(*SENSES, "--work", "work")
    assert sorted(path.name for path in (tmp_path / "work").glob("*.npy")) == ["test-00000.npy", "train-00000.npy"]
    assert run(*SENSES, "--work", "work") == first


@pytest.mark.medium
def test_probes_are_reported_for_every_representation(run):
    output, results = outputs(run, *PROBE, "--seed", "0", "--seed", "1")
    assert results["seeds"] == [0, 1]
    assert len(results["scores"]["dev"]["accuracy"]) == 2
    assert [line.split("  ")[0] for line in output.splitlines()[1:7]] == [
        "most frequent tag",
        "layer 0",
        "layer 1",
        "layer 2",
        "mix",
        "concatenation",
    ]


def test_samples_trains_heads_as_asked(run, monkeypatch):
    runs = []

    def begin(self, folder):
        runs.append(self)
        folder.mkdir()
        (folder / "results.json").write_text(json.dumps({"dev": {"f1": 0.25 * len(runs)}}))

    monkeypatch.setattr(FinetuningRun, "begin", begin)
    settings = ("--seed", "7", "--precision", "int8", "--set", "epochs=3", "--set", "tag_decoder=crf")
    _, results = outputs(run, *SAMPLES, "--shares", "0.5,1", *settings, error="with ELMo, 50 %")
    assert results["examples"] == [10, 20]
    assert results["scores"]["dev"] == {"with ELMo": [[0.25], [0.75]], "without ELMo": [[0.5], [1.0]]}
    assert runs[0].settings == {"epochs": 3, "precision": "int8", "seed": 7}
    assert runs[1].fields == {"tag_decoder": "crf", "elmo_places": "none"}
    assert runs[0].vectors_size == sample_efficiency.VECTORS_SIZE


def test_samples_says_which_head_is_trained_without_a_terminal_too(run, monkeypatch):
    def begin(self, folder):
        folder.mkdir()
        (folder / "results.json").write_text('{"dev": {"f1": 0.5}}')

    monkeypatch.setattr(FinetuningRun, "begin", begin)
    _, output, error = run(*SAMPLES, "--shares", "0.5")
    assert error.splitlines() == [
        "with ELMo, 50 % of the training data, 10 examples",
        "without ELMo, 50 % of the training data, 10 examples",
    ]
    assert "10 examples" not in output


@pytest.mark.medium
def test_layers_shows_mixes_and_similarities(run):
    output, results = outputs(run, "analyze", "layers", "folder", "folder", *LAYERS[2:])
    assert [mix["weights"] for mix in results["mixes"]["mixes"]] == [pytest.approx([1 / 3] * 3)] * 2
    assert len(results["similarity"]["between"]) == 4
    assert results["similarity"]["measured_words"] == 1
    assert "folder, model" in output
    assert "anisotropy" in output
    _, results = outputs(run, "analyze", "layers", "folder")
    assert results["similarity"] is None
    _, results = outputs(run, *LAYERS, "--sentences", "2")
    assert (results["mixes"], results["similarity"]["sentences"]) == (None, 2)


def test_a_table_of_neighbours_is_printed(run):
    output, results = outputs(run, *NEIGHBOURS, "-k", "2")
    (row,) = results["rows"]
    assert len(row["uses"]) == len(row["words"]) == 2
    assert "by the [bank]" in output.splitlines()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ((*SENSES[:3], "--model", "folder"), "name a text to test on or give --test-share, not both."),
        (
            (*SENSES[:3], "data.tsv", "--test-share", "0.2"),
            "name a text to test on or give --test-share, not both.",
        ),
        ((*SENSES, "--test-keys", "x"), "there is no TEST that it belongs to"),
        (("analyze", "layers", "folder", "--sentences", "5"), "it is for --text"),
        ((*SENSES, "--picture", "out.pdf"), "the name should end in .png or .svg, found out.pdf"),
        ((*SENSES, "--json", "no/out.json"), "no/out.json cannot be written: there is no folder no"),
        ((*SENSES, "--json", "folder"), "folder is a folder"),
        ((*SENSES, "--input-format", "xml"), "the senses of an XML file are in another one"),
        ((*SENSES, "--neighbors", "-1"), "'--neighbors': must be 0 or more, found -1"),
        ((*SENSES[:4], "1.5"), "The share of the test must be above 0 and below 1, found 1.5"),
        ((*SENSES, "--work", "folder"), "folder exists and holds no analysis"),
        (("analyze", "senses", "text.txt", "--test-share", "0.2"), "text.txt, line 1: none of the three formats"),
        (("analyze", "senses", "no.tsv", "--test-share", "0.2"), "No such file: no.tsv"),
        ((*PROBE[:3], "text.txt", "--model", "folder"), "text.txt, line 2: 3 columns, but 5 in the lines before"),
        ((*PROBE[:4], "--tag-column", "x"), "the columns of train.conll have no names"),
        ((*PROBE, "--model", "no-model", "--epochs", "0"), "'--epochs': must be 1 or more, found 0"),
        ((*SAMPLES, "--shares", "0,1"), "shares are numbers above 0 and at most 1, separated by commas, found '0,1'"),
        ((*SAMPLES, "--label-column", "x"), "this column belongs to classification"),
        ((*SAMPLES, "--set", "epoch=3"), "There is no setting or field of the config 'epoch' (did you mean 'epochs'?)"),
        ((*SAMPLES, "--shares", "0.5,0.501"), "two shares have 10 examples each, 50.1 % and a smaller one"),
        (("analyze", "layers"), "name fine-tuned models, or a text with --text, or both."),
        (("analyze", "layers", "text.txt"), "text.txt is a file: name the folder of a model."),
        (("analyze", "layers", "/tmp/not/here"), "There is no folder /tmp/not/here."),
        (("analyze", "probe", "one-tag.conll", *PROBE[3:]), "one-tag.conll: every word has the tag 'O', so there is"),
        ((*LAYERS, "--sentences", "0"), "'--sentences': must be 1 or more, found 0"),
        ((*NEIGHBOURS[:4], "no mark"), "No word is marked in 'no mark'"),
        ((*NEIGHBOURS, "--layers", "all"), "choose mix, top, average or one layer"),
        ((*NEIGHBOURS, "--vectors", "text.txt"), "text.txt, line 1"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_line(refused, command, message):
    assert message in refused(*command)


def test_a_bar_shows_progress_on_a_terminal_only(run):
    assert "embedding" in run(*LAYERS, terminal=True)[2]
    assert run(*LAYERS)[2] == ""
