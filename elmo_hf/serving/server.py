"""Runs the server: binds the address, loads the models, serves until a signal, and stops without losing an answer."""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path

import uvicorn

from ..errors import TextError
from ..runtime.addresses import bound_socket
from ..runtime.model_loading import Precision
from .app import create_app
from .connections import LimitedConnection
from .gate import Gate
from .served_models import ServedModel, load_models
from .serving_limits import ServingLimits

API_KEY = "ELMO_HF_API_KEY"  # the environment variable with the key
SWITCH_SECONDS = 0.0005  # see `_quick_switches`
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """
    A uvicorn server that refuses new requests from the signal on, and answers those that it has.

    Args:
        gate: The application, as [`create_app`] makes it.
        limits: The limits of connections.
        announcement: A line to print when the server listens.
    """

    def __init__(self, gate: Gate, limits: ServingLimits, announcement: str | None = None):
        connection = type("Connection", (LimitedConnection,), {"limits": limits})
        config = uvicorn.Config(
            gate,
            http=connection,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",  # of this program's faults: what clients do wrong is in the metrics
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=limits.header_seconds,  # ty: ignore[invalid-argument-type]
            timeout_graceful_shutdown=2 * limits.seconds + 1,  # ty: ignore[invalid-argument-type]
        )
        super().__init__(config)
        self._gate, self._announcement = gate, announcement

    async def startup(self, sockets: list[socket.socket] | None = None):
        """Listens."""
        await super().startup(sockets)
        if self._announcement is not None:
            print(self._announcement, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None):
        """Refuses new requests, then waits for those that are being answered."""
        self._gate.is_open = False
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """As uvicorn does, but a stop by a signal is a normal end of the process."""
        in_main_thread = threading.current_thread() is threading.main_thread()  # others cannot have handlers
        handlers = {signum: signal.signal(signum, self.handle_exit) for signum in SIGNALS if in_main_thread}
        try:
            yield
        finally:
            for signum, handler in handlers.items():
                signal.signal(signum, handler)


def serve(
    names: Sequence[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    limits: ServingLimits | None = None,
    api_key: str | None = None,
    device: str | None = None,
    precision: Precision | None = None,
):
    """
    Serves models until SIGINT or SIGTERM. Prints the address when it is ready.

    Args:
        names: Folders, or names on the Hub. Default: the model that comes with this package.
        host, port: The address to listen on; port 0 takes a free one.
        limits, api_key: As in [`create_app`].
        device, precision: As in [`load_models`].
    """
    limits = limits or ServingLimits()
    with bound_socket(host, port) as listener:
        models = load_models(names, limits, device=device, precision=precision)
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        announcement = f"{_described(models)} on {address} (Ctrl-C stops)"
        with _quick_switches():
            Server(create_app(models, limits, api_key), limits, announcement).run([listener])


def read_api_key(file: Path | None) -> str | None:
    """The key in a file, or in the environment variable `ELMO_HF_API_KEY`; `None` if neither is given."""
    source = API_KEY if file is None else str(file)
    if file is None:
        key = os.environ.get(API_KEY)
        if key is None:
            return None
    else:
        try:
            key = file.read_text("utf-8")
        except FileNotFoundError as error:
            raise TextError(f"No such file or folder: {file}.") from error
        except UnicodeDecodeError as error:
            raise TextError(f"{file} holds no API key: it is not UTF-8.") from error
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise TextError(f"{source} holds no API key: it should be one line of ASCII characters without blanks.")
    return key


def _described(models: Sequence[ServedModel]) -> str:
    return "Serving " + ", ".join(f"{model.name} ({model.task})" for model in models)


@contextlib.contextmanager
def _quick_switches() -> Generator[None]:
    """
    Lets threads take over from each other sooner. Between two time steps of an LSTM the model needs the interpreter for
    microseconds, and would wait up to 5 ms whenever the event loop has it.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


__all__ = ["API_KEY", "Server", "read_api_key", "serve"]
