"""A Hub for each test, and the real client for it."""

from collections.abc import Iterator
from functools import partial

import pytest
from huggingface_hub import HfApi, close_session, constants

from tests.hub.client import run_client
from tests.hub.server import HubServer


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
