"""`elmo-hf`: its help, and that a mistake is one line and exit code 2, never a traceback."""

import re
import subprocess
import sys
from collections.abc import Iterator
from logging import DEBUG, ERROR, INFO, WARNING, getLogger, makeLogRecord
from pathlib import Path
from typing import Any

import pytest
import typer

from elmo_hf import __version__
from elmo_hf.cli import app
from tests.conftest import ROOT
from tests.models import edit_config

TEXT_OPTIONS = ["--pretokenized", "--column", "--split", "Example: elmo-hf"]
SHARED_OPTIONS = ["--vocab", "--out", "--dtype", "Example: elmo-hf"]
HEAD_OPTIONS = ["--dev", "--test", "--out", "--model", "--resume", "--vectors", "--set", "Example: elmo-hf"]
ANALYSIS_OPTIONS = ["--model", "--seed", "--json", "--picture", "--device", "--precision", "Example: elmo-hf analyze"]
COMMANDS = {
    (): [
        "analyze",
        "convert",
        "embed",
        "vocab",
        "pretrain",
        "perplexity",
        "finetune",
        "predict",
        "index",
        "neighbors",
        "--version",
        "--help",
    ],
    ("embed",): [
        "[MODEL] INPUT",
        "--out",
        "--model",
        "--layers",
        "--pooling",
        "--dtype",
        "--format",
        "--input-format",
        "--column",
        "--split",
        "--pretokenized",
        "--batch-tokens",
        "--resume",
        "--skip-bad",
        "Example: elmo-hf",
    ],
    ("vocab",): ["INPUT", "--size", "--min-count", "--out", "--segmenter", *TEXT_OPTIONS],
    ("pretrain",): ["INPUT", "--resume", "--from", "--recipe", "--set", "--steps", "--tracker", *TEXT_OPTIONS],
    ("perplexity",): ["[MODEL] INPUT", *TEXT_OPTIONS],
    ("score",): ["[MODEL] INPUT", "--model", "--tokens", "--format", "--pretokenized", "Example: elmo-hf"],
    ("next",): ["TEXT", "--model", "--number", "Example: elmo-hf"],
    ("previous",): ["TEXT", "--model", "--number", "Example: elmo-hf"],
    ("substitutes",): ["TEXT", "--model", "--number", "Example: elmo-hf"],
    ("similar",): ["WORD", "--model", "--number", "--vectors", "Example: elmo-hf"],
    ("finetune",): ["tagging", "classification"],
    ("finetune", "tagging"): ["--train", "--column", "--tag-column", *HEAD_OPTIONS],
    ("finetune", "classification"): ["--train", "--column", "--label-column", *HEAD_OPTIONS],
    ("finetune", "roles"): ["--train", *HEAD_OPTIONS],
    ("finetune", "coreference"): ["--train", *HEAD_OPTIONS],
    ("predict",): [
        "[FILE]",
        "--predicates",
        "--predicate-tag",
        "--out",
        "--format",
        "--pretokenized",
        "Example: elmo-hf",
    ],
    ("index",): ["INPUT", "--out", "--model", "--layers", "--words", "--dtype", "--approximate", "Example: elmo-hf"],
    ("neighbors",): ["INDEX", "TEXT", "-k", "--same-word", "--distinct", "--exact", "--model", "Example: elmo-hf"],
    ("space",): ["[MODEL]...", "--tagger", "--host", "--port", "--browser", "--out", "--push", "Example: elmo-hf"],
    ("serve",): ["[MODEL]...", "--host", "--port", "--api-key-file", "--max-words", "--timeout", "Example: elmo-hf"],
    ("analyze",): ["senses", "probe", "samples", "layers", "neighbors-table"],
    ("analyze", "senses"): [
        "{TRAIN} [TEST]",
        "--test-share",
        "--neighbors",
        "--first-senses",
        "--work",
        *ANALYSIS_OPTIONS,
    ],
    ("analyze", "probe"): ["{TRAIN} {DEV} [TEST]", "--column", "--tag-column", "--epochs", "--work", *ANALYSIS_OPTIONS],
    ("analyze", "samples"): [
        "{TASK} {TRAIN} {DEV} [TEST]",
        "--shares",
        "--vectors",
        "--set",
        "--work",
        *ANALYSIS_OPTIONS,
    ],
    ("analyze", "layers"): ["[FOLDER]", "--text", "--sentences", "--pretokenized", *ANALYSIS_OPTIONS],
    ("analyze", "neighbors-table"): ["INPUT", "--sentence", "--vectors", "--any-word", *ANALYSIS_OPTIONS],
    ("convert",): ["bilm-hdf5", "allennlp", "bilm-checkpoint", "elmoformanylangs", "original", "to-bilm-hdf5"],
    ("convert", "bilm-hdf5"): ["options.json", "weights (.hdf5)", *SHARED_OPTIONS, "--check"],
    ("convert", "allennlp"): ["best.th", "model.tar.gz", "--options", *SHARED_OPTIONS, "--check"],
    ("convert", "bilm-checkpoint"): ["model.ckpt-400", "--options", *SHARED_OPTIONS, "--check"],
    ("convert", "elmoformanylangs"): ["char.dic", "--splitting", "--out", "--dtype", "--check", "Example: elmo-hf"],
    ("convert", "original"): ["elmo-small", "--weights", "--options", "--from-url", *SHARED_OPTIONS, "--check"],
    ("convert", "to-bilm-hdf5"): ["A model folder", "--out", "Example: elmo-hf"],
}


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_names_its_arguments(run, command, flag):
    code, output, error = run(*command, flag)
    assert (code, error) == (0, "")
    unwrapped = " ".join(output.split())  # where lines end depends on the name of the program
    assert [word for word in COMMANDS[command] if word not in unwrapped] == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_count_has_a_minimum(run, command):
    _, output, _ = run(*command, "--help")
    assert [line for line in output.splitlines() if re.search(r"<int>|INTEGER(?! RANGE)", line)] == []


# Other names that an option could have, and what it is called everywhere.
SYNONYMS = {
    "--is-split-into-words": "--pretokenized",
    "--text-name": "--column",
    "--text-column": "--column",
    "--words-name": "--column",
    "--word-column": "--column",
    "--tags-name": "--tag-column",
    "--field": "--tag-column",
    "--pair-name": "--pair-column",
    "--label-name": "--label-column",
    "--force": "--overwrite",
}


def options_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every option of a command and the commands below it."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from options_of(inner, (*path, name))
    yield from ((path, option) for option in command.params if option.opts[0].startswith("-"))


def test_an_option_has_one_name_in_all_commands():
    options = list(options_of(typer.main.get_command(app)))
    assert [path for path, option in options if option.hidden] == []  # no second name that the help does not show
    names = {name for _, option in options for name in option.opts}
    assert not names & SYNONYMS.keys()
    assert set(SYNONYMS.values()) <= names


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("--format", "Format of the output."),
        ("--input-format", "Format of the "),
        ("--pretokenized", "The text is already split into words"),
        ("--column", "Column "),
        ("--words", "Index only these words"),
    ],
)
def test_an_option_has_one_meaning_in_all_commands(name, beginning):
    helps = {path: option.help for path, option in options_of(typer.main.get_command(app)) if name in option.opts}
    assert helps
    assert {path: text for path, text in helps.items() if not text.startswith(beginning)} == {}


@pytest.mark.parametrize("name", sorted(SYNONYMS))
def test_the_documentation_has_no_other_names_of_options(name):
    texts = {path: path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))}
    assert [path for path, text in texts.items() if re.search(rf"{name}(?![-\w])", text)] == []


@pytest.mark.parametrize("command", [(), ("convert",)])
def test_a_command_alone_prints_its_help(run, command):
    assert run(*command) == run(*command, "--help")


def test_the_segmenter_speaks_of_what_is_wrong_alone(run):
    run("--version")
    spoken = [
        level for level in (DEBUG, INFO, WARNING, ERROR) if getLogger("jieba").filter(makeLogRecord({"levelno": level}))
    ]
    assert spoken == [WARNING, ERROR]


def test_the_version_is_printed(run):
    assert run("--version") == (0, f"elmo-hf {__version__}\n", "")


@pytest.mark.medium
def test_the_installed_command_explains_in_one_line_what_the_library_reports_in_twelve(folder, tmp_path):
    edit_config(folder, cell_size=9)
    command = Path(sys.executable).with_name("elmo-hf")
    arguments = [command, "convert", "to-bilm-hdf5", folder, "--out", tmp_path / "out"]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    expected = f"elmo-hf: {folder}: layers.0.bias should be (2, 36) by config.json, found (2, 28).\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)
