"""The wheel: complete, and working in an environment that has nothing else."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_hf import ElmoTokenizer
from elmo_hf.conversion import write_bilm_hdf5
from tests.conftest import ROOT
from tests.models import tiny_model

pytestmark = pytest.mark.medium

SENTENCE = "The cat sat on the mat."
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]


def run(*command, **options) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "tests", "benchmarks")
    shutil.copytree(ROOT, folder / "source", ignore=ignored)
    run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, folder / "source")
    (built,) = folder.glob("elmo_hf-*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package_under_its_import_name(wheel):
    expected = set()
    for folder, name in (
        ("elmo_hf", "elmo_hf"),
        ("conversion", "elmo_hf/conversion"),
        ("model_cards", "elmo_hf/model_cards"),
    ):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                expected.add(f"{name}/{path.relative_to(ROOT / folder).as_posix()}")
    files = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert files == expected


@pytest.mark.slow
def test_the_wheel_alone_in_an_empty_environment_works_as_the_checkout_does(wheel, tmp_path):
    model = tiny_model(vocab_size=3)
    write_bilm_hdf5(model, tmp_path / "options.json", tmp_path / "weights.hdf5")
    venv.create(tmp_path / "venv", with_pip=True)
    bin_folder = tmp_path / "venv" / "bin"
    run(bin_folder / "python", *PIP, "install", "--constraint", ROOT / "constraints.txt", f"{wheel}[convert]")

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    options = {"cwd": tmp_path, "env": environment}
    run(bin_folder / "elmo-hf", "convert", "bilm-hdf5", "options.json", "weights.hdf5", "--out", "model", **options)
    code = f"""
import numpy, torch, elmo_hf, elmo_hf.model_cards, elmo_hf.demo
from transformers import AutoModel, AutoTokenizer
assert elmo_hf.__file__.startswith({str(tmp_path)!r})
batch = AutoTokenizer.from_pretrained("model")({SENTENCE!r}, return_tensors="pt")
with torch.no_grad():
    numpy.save("vectors.npy", AutoModel.from_pretrained("model")(**batch).last_hidden_state.numpy())
"""
    run(bin_folder / "python", "-c", code, **options)
    with torch.no_grad():
        expected = model(**ElmoTokenizer()(SENTENCE, return_tensors="pt")).last_hidden_state.numpy()
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), expected)
