"""A Hub for each test, and the real client for it."""

import sys
from collections.abc import Iterator
from functools import partial

import pytest
from huggingface_hub import HfApi, close_session, constants, hf_api
from transformers.utils import logging

from elmo_hf import cli
from tests.hub.client import run_client
from tests.hub.server import HubServer


def pytest_collection_modifyitems(items: list[pytest.Item]):
    """A test that starts a client of its own is no fast one."""
    for item in items:
        if "run_python" in getattr(item, "fixturenames", ()):
            item.add_marker("medium")


@pytest.fixture
def hub() -> Iterator[HubServer]:
    """A Hub with a user, a token to write and a token to read."""
    with HubServer() as server:
        yield server


@pytest.fixture(scope="session")
def session() -> Iterator[None]:
    """One HTTP session of this process for all tests, as it takes long to make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        close_session()
        yield
        close_session()


@pytest.fixture
def online(hub, session, tmp_path, monkeypatch):
    """The client of this process as if it had been imported with `client_environment`."""
    home = tmp_path / "home"
    settings = {
        "ENDPOINT": hub.endpoint,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_HUB_DISABLE_PROGRESS_BARS": True,
        "HF_HUB_DISABLE_TELEMETRY": True,
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_OFFLINE": False,
        "HF_TOKEN_PATH": str(home / "token"),
    }
    for name, value in settings.items():
        monkeypatch.setattr(constants, name, value)
    # The clients that the functions of huggingface_hub and transformers share; transformers makes its own when needed.
    monkeypatch.setattr(hf_api.api, "endpoint", hub.endpoint)
    monkeypatch.setattr("transformers.utils.hub._hf_api", None, raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)


@pytest.fixture
def api(hub, online) -> HfApi:
    """The client of this process, with the token to write."""
    return HfApi(endpoint=hub.endpoint, token=hub.write_token)


@pytest.fixture
def reader(hub, online) -> HfApi:
    """The client of this process, with the token to read."""
    return HfApi(endpoint=hub.endpoint, token=hub.read_token)


@pytest.fixture
def stranger(hub, online) -> HfApi:
    """The client of this process, without a token."""
    return HfApi(endpoint=hub.endpoint, token=False)


@pytest.fixture
def run_python(hub, tmp_path):
    """Runs Python code in a fresh process that knows the Hub; see `run_client`."""
    return partial(run_client, hub, tmp_path / "home")


@pytest.fixture
def run_command(online, monkeypatch, capsys):
    """Runs `elmo-hf` in this process, with or without a token: exit code, standard output, standard error."""

    def run(*arguments: object, token: str | None = None) -> tuple[int, str, str]:
        if token is None:
            monkeypatch.delenv("HF_TOKEN", raising=False)
        else:
            monkeypatch.setenv("HF_TOKEN", token)
        monkeypatch.setattr(sys, "argv", ["elmo-hf", *map(str, arguments)])
        capsys.readouterr()  # what the fixtures have printed
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    verbosity = logging.get_verbosity()
    yield run
    logging.set_verbosity(verbosity)
    logging.enable_progress_bar()
