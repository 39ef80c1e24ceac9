"""The real client in a process of its own, as it reads its environment when it is imported."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.bare_python import BARE, PRELUDE
from tests.hub.server import HubServer

ROOT = Path(__file__).parent.parent.parent


def client_environment(hub: HubServer, home: Path, token: str | None = None) -> dict[str, str]:
    """The environment of a process that knows this Hub and no other, and keeps its cache in `home`."""
    foreign = ("HF_", "HUGGINGFACE_", "HUGGING_FACE_", "TRANSFORMERS_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment |= {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1",
    }
    return environment | ({"HF_TOKEN": token} if token else {})


def run_client(
    hub: HubServer,
    home: Path,
    code: str,
    *arguments: str,
    token: str | None = None,
    environment: Mapping[str, str] | None = None,
    check: bool = True,
    with_package: bool = True,
) -> subprocess.CompletedProcess[str]:
    """
    Runs Python code in a fresh process.

    Args:
        home: Where its cache is; the same for several processes, or one for each.
        arguments: What it has as `sys.argv[1:]`.
        token: What it has as `HF_TOKEN`.
        environment: More variables, such as `HF_HUB_OFFLINE`.
        check: An exit code other than 0 is an error.
        with_package: Whether `elmo_hf` can be imported.
    """
    command = [sys.executable, "-c", code] if with_package else [*BARE, PRELUDE + code]
    result = subprocess.run(
        [*command, *arguments],
        env=client_environment(hub, home, token) | dict(environment or {}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or result.returncode == 0, result.stderr
    return result
