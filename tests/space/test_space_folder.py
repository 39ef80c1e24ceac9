"""The folder of a Space is complete: it is installed and run from alone."""

import os
import re
import socket
import subprocess
import time
import urllib.request
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from huggingface_hub import SpaceCard

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.errors import FolderError, ModelError
from elmo_hf.space.own_wheel import write_own_wheel
from elmo_hf.space.space_folder import write_space
from tests.conftest import ROOT
from tests.models import TINY
from tests.test_packaging import PIP, run

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    ElmoModel(ElmoConfig(**TINY)).save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return write_space(tmp_path_factory.mktemp("space") / "space", [str(folder), "elmo-english-compact"])


def test_the_folder_has_what_the_hub_reads(folder):
    card = SpaceCard.load(folder / "README.md").data
    assert (card.sdk, card.app_file, card.sdk_version) == ("gradio", "app.py", metadata.version("gradio"))
    assert len(card.to_dict()["short_description"]) <= 60  # the Hub refuses a longer one
    (wheel,) = folder.glob("*.whl")
    assert (folder / "requirements.txt").read_text() == f"./{wheel.name}[space,chinese]\n"
    assert "launch_page(['models/tiny', 'models/elmo-english-compact'], [])" in (folder / "app.py").read_text()
    assert (folder / "models/tiny/model.safetensors").exists()


def test_the_wheel_has_every_file_of_the_package_and_their_checksums(tmp_path):
    wheel = write_own_wheel(tmp_path)
    files = zipfile.ZipFile(wheel)
    for folder, name in (("elmo_hf", ""), ("conversion", "conversion/"), ("model_cards", "model_cards/")):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                inside = f"elmo_hf/{name}{path.relative_to(ROOT / folder).as_posix()}"
                assert files.read(inside) == path.read_bytes()
    (record,) = [name for name in files.namelist() if name.endswith("/RECORD")]
    assert {line.split(",")[0] for line in files.read(record).decode().splitlines()} == set(files.namelist())
    assert write_own_wheel(tmp_path).read_bytes() == wheel.read_bytes()


def test_a_folder_in_use_and_a_model_that_is_not_there_are_refused(tmp_path, folder):
    with pytest.raises(FolderError):
        write_space(folder)
    with pytest.raises(ModelError, match=r"There is no folder \./nothing"):
        write_space(tmp_path / "out", ["./nothing"])
    with pytest.raises(ModelError, match="is not a model with a head"):
        write_space(tmp_path / "out", taggers=[str(folder / "models/tiny")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_folder_alone_installs_and_serves_the_page(folder, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    constraints = ["--constraint", ROOT / "constraints.txt"]
    run(python, *PIP, "install", *constraints, "-r", "requirements.txt", cwd=folder, env=environment)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment |= {"HF_HUB_OFFLINE": "1", "GRADIO_SERVER_PORT": str(port)}
    process = subprocess.Popen([python, "app.py"], cwd=folder, env=environment, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10).read().decode()
                break
            except OSError:
                assert process.poll() is None, process.stderr.read().decode()[-2000:]
                assert time.monotonic() < deadline
                time.sleep(0.5)
    finally:
        process.terminate()
        process.wait()
    assert len(re.findall('"label": ?"Language model"', page)) == 2  # a tab per model
