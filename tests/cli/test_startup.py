"""Help, the version and errors in the arguments are fast: they import none of the large libraries."""

import json
import subprocess
import sys

import pytest

# Runs every command line in one process, and says after each which large libraries are imported.
PROGRAM = """
import contextlib, io, json, sys
import typer
from elmo_hf import cli

HEAVY = ("torch", "transformers", "tokenizers", "huggingface_hub", "accelerate", "datasets", "numpy", "pyarrow")

def commands(command, path=()):
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))

paths = list(commands(typer.main.get_command(cli.app)))
lines = [[*path, "--help"] for path in paths] + [["--version"]]
lines += [[*path, "--no-such-option"] for path in paths] + [["no-such-command"], ["embed"], ["index", "--layers"]]
results = []
for line in lines:
    sys.argv = ["elmo-hf", *line]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code
    results.append((line, code, [name for name in HEAVY if name in sys.modules]))
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results() -> list[tuple[list[str], int, list[str]]]:
    """Arguments, exit code and imported libraries of each command line."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.medium
def test_help_version_and_mistakes_import_no_large_library(results):
    assert [(line, imported) for line, _, imported in results if imported] == []


def test_every_command_has_a_help_and_refuses_an_unknown_option(results):
    codes = {" ".join(line): code for line, code, _ in results}
    for command in ("", "embed", "finetune tagging", "convert bilm-hdf5", "push"):
        assert codes[f"{command} --help".strip()] == 0
    assert {code for line, code in codes.items() if line.endswith(("--help", "--version"))} == {0}
    assert {code for line, code in codes.items() if not line.endswith(("--help", "--version"))} == {2}
    assert len(codes) > 40
