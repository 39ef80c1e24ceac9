"""No command and no class of the package runs the code of a model folder, whatever its files and standard input say."""

import ast
import builtins
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import elmo_hf
from elmo_hf import ElmoEmbedder, ElmoLanguageModel
from elmo_hf.conversion import export_bilm_hdf5
from elmo_hf.finetuning import load_head

ROOT = Path(__file__).parents[2]
# What runs the code of a repository, or asks on standard input whether to, unless it is told not to.
LOADERS = ("pipeline", "SentenceTransformer")


def untrusting_calls(source: str) -> list[tuple[int, bool]]:
    """The calls in Python code that may meet foreign code: the line of each, and whether it refuses that code."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [(call.lineno, _refuses(call)) for call in calls if _may_run_code(call.func)]


def _may_run_code(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute) and function.attr in ("from_pretrained", "from_config"):
        return "Auto" in ast.unparse(function.value)
    return ast.unparse(function).split(".")[-1] in LOADERS


def _refuses(call: ast.Call) -> bool:
    values = [keyword.value for keyword in call.keywords if keyword.arg == "trust_remote_code"]
    return [value.value for value in values if isinstance(value, ast.Constant)] == [False]


@pytest.mark.parametrize("folder", ["elmo_hf", "conversion", "model_cards", "benchmarks"])
def test_every_loading_call_refuses_the_code_of_a_repository(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    trusting = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        for line, refuses in untrusting_calls(path.read_text("utf-8"))
        if not refuses
    ]
    assert not trusting


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("AutoConfig.from_pretrained(name)", [(1, False)]),
        ("transformers.AutoModel.from_pretrained(name, trust_remote_code=True)", [(1, False)]),
        ("AutoModel.from_pretrained(name, trust_remote_code=asked)", [(1, False)]),
        ("transformers.pipeline('ner', name)", [(1, False)]),
        ("AutoTokenizer.from_pretrained(name, trust_remote_code=False)", [(1, True)]),
        ("ElmoModel.from_pretrained(name)", []),
    ],
)
def test_the_walk_over_the_source_finds_such_calls(call, names):
    """Without this, the test above could not fail."""
    assert untrusting_calls(call) == names


@pytest.fixture
def marker(tmp_path) -> Path:
    """What the code of `folder` makes when it runs."""
    return tmp_path / "marker"


@pytest.fixture
def folder(tmp_path, marker) -> Path:
    """A model of a type that nobody knows, with code for all Auto classes and the architecture of a tagger."""
    folder = tmp_path / "evil"
    folder.mkdir()
    kinds = ("AutoConfig", "AutoModel", "AutoModelForTokenClassification", "AutoModelForPreTraining")
    config = {
        "model_type": "evil",
        "architectures": ["ElmoForTokenClassification"],
        "auto_map": dict.fromkeys(kinds, "evil.Evil"),
    }
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "evil.py").write_text(
        f"open({str(marker)!r}, 'w')\nfrom transformers import PreTrainedConfig\n"
        "class Evil(PreTrainedConfig):\n    model_type = 'evil'\n"
    )
    return folder


@pytest.mark.medium
def test_predict_does_not_take_its_text_for_a_yes(folder, marker, tmp_path):
    """transformers asks on standard input whether to run code, and that is where `predict` has its text."""
    done = subprocess.run(
        [sys.executable, "-m", "elmo_hf.cli", "predict", str(folder)],
        input="1\nThe cat sat .\n",
        env=os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not marker.exists()
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"elmo-hf: {folder} should hold a model of type elmo, found evil.\n"


@pytest.mark.parametrize(
    "load",
    [
        load_head,
        ElmoEmbedder.from_pretrained,
        ElmoLanguageModel.from_pretrained,
        lambda folder: export_bilm_hdf5(folder, f"{folder}-out"),
        elmo_hf.ElmoConfig.from_pretrained,
        elmo_hf.ElmoModel.from_pretrained,
        elmo_hf.ElmoForTokenClassification.from_pretrained,
        elmo_hf.ElmoTokenizer.from_pretrained,
    ],
)
def test_no_class_asks_for_leave_to_run_code(folder, marker, monkeypatch, load):
    asked = []
    monkeypatch.setattr(builtins, "input", lambda *_: asked.append(True) or "1")
    with suppress(OSError, ValueError):
        load(str(folder))
    assert not asked
    assert not marker.exists()
