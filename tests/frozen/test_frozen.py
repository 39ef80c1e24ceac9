"""Repositories as older versions have published them load, and compute the same values ever after."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.bare_python import BARE, PRELUDE
from tests.frozen import numbers
from tests.frozen.make import FOLDER, freeze

pytestmark = pytest.mark.medium

ARCHIVES = sorted([*FOLDER.glob("*.zip"), *FOLDER.glob("*.tar.xz")])


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def frozen(request, tmp_path) -> Path:
    """The folder of the repositories."""
    options = {} if request.param.suffix == ".zip" else {"filter": "data"}
    shutil.unpack_archive(request.param, tmp_path / "frozen", **options)
    return tmp_path / "frozen"


def assert_same_numbers(actual: dict, folder: Path):
    expected = json.loads((folder / "numbers.json").read_text())
    assert actual.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(np.array(actual[name]), np.array(values), atol=1e-5, rtol=0, err_msg=name)


def test_those_that_were_published_are_there():
    assert [path.name for path in ARCHIVES] == ["2026-11-18-heads.tar.xz", "2026-11-18.tar.xz", "2026-11.zip"]


@pytest.mark.parametrize("trust_remote_code", [False, True])
def test_with_this_package(frozen, trust_remote_code):
    assert_same_numbers(numbers.numbers_of(frozen, trust_remote_code), frozen)


def test_without_this_package_by_its_own_code(frozen, tmp_path):
    script = Path(numbers.__file__).read_text("utf-8")
    environment = os.environ | {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [*BARE, PRELUDE + script, str(frozen), "True"], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert_same_numbers(json.loads(run.stdout), frozen)


def test_a_change_of_the_numbers_is_seen(frozen):
    stored = json.loads((frozen / "numbers.json").read_text())
    stored["losses"][0] += 1e-4
    with pytest.raises(AssertionError, match="losses"):
        assert_same_numbers(stored, frozen)


def test_what_is_frozen_is_not_frozen_again(tmp_path):
    (tmp_path / "there.tar.xz").write_bytes(b"")
    with pytest.raises(FileExistsError):
        freeze(tmp_path / "there.tar.xz")
