"""A command run in this process, and models for it."""

import sys

import pytest
from transformers.utils import logging

from elmo_hf import ElmoTokenizer, cli
from elmo_hf.conversion import write_bilm_hdf5
from tests.conversion.file_server import file_server
from tests.models import tiny_model

__all__ = ["file_server", "folder", "original", "refused", "run", "same_logging_afterwards"]


@pytest.fixture(autouse=True)
def same_logging_afterwards():
    verbosity = logging.get_verbosity()
    yield
    logging.set_verbosity(verbosity)
    logging.enable_progress_bar()


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command in this process: exit code, standard output, standard error (taken for a terminal, or not)."""

    def run(*arguments, terminal=False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
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
