"""A server of files, and a client that may go to it."""

import pytest
from huggingface_hub import constants

from tests.conversion.file_server import serve_files


@pytest.fixture
def file_server(monkeypatch, tmp_path_factory):
    """A server on the loopback interface, with a cache of the test's own."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_files() as server:
        yield server
