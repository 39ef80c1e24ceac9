"""
A Hugging Face Hub on the loopback interface, for the real client.

It speaks what `huggingface_hub` speaks over plain HTTP with `HF_HUB_DISABLE_XET=1`, for repositories of models and
Spaces. Like the Hub it sends the client elsewhere for large files: the storage listens on a port of its own, so that
the client takes it for a foreign host.
"""

import os
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.hub import api, files, protocol  # noqa: F401  (api and files declare their routes)
from tests.hub.faults import (
    BreakDownload,
    BreakUpload,
    CorruptDownload,
    CorruptUpload,
    Fault,
    Faults,
    OddAnswer,
    corrupt,
)
from tests.hub.protocol import Answer, Request
from tests.hub.store import Refusal, Repository, Store


@dataclass(frozen=True)
class LoggedRequest:
    """
    A request that came.

    Attributes:
        path: With the query.
        range: What the header `Range` asked for.
        token: What came as `HF_TOKEN`.
        status: What was answered; none if the connection broke before.
        time: When it was answered, in seconds of the monotonic clock.
    """

    method: str
    path: str
    range: str | None
    token: str | None
    status: int | None
    time: float


class HubServer:
    """
    The server, from `with` to its end.

    Attributes:
        endpoint: What the client takes as `HF_ENDPOINT`.
        storage: Where large objects are, not for the client to know before.
        user, write_token, read_token: A user, and the user's tokens.
        store: All that is kept; a test may look into it and change it.
        faults: What will go wrong.
        log: All requests.
    """

    def __init__(self, user: str = "ada"):
        self.store = Store()
        self.user = user
        self.write_token = self.store.create_token(user, "write")
        self.read_token = self.store.create_token(user, "read")
        self.log: list[LoggedRequest] = []
        self.faults = Faults()
        self.lock = threading.Lock()  # one request after the other reads and changes the store
        self._listeners = [_Listener(self), _Listener(self)]
        hub, storage = (listener.server_port for listener in self._listeners)
        # Another name of this machine: the client takes all ports of one host for the Hub itself.
        self.endpoint, self.storage = f"http://127.0.0.1:{hub}", f"http://localhost:{storage}/storage"

    def __enter__(self) -> "HubServer":
        for listener in self._listeners:
            threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """From now on nobody is there."""
        for listener in self._listeners:
            listener.close()

    def repository(self, name: str) -> Repository:
        """What is kept of a repository."""
        return self.store.repositories[name]

    def requests(self, method: str = "", path: str = "") -> list[LoggedRequest]:
        """The logged requests of a method, or of any, whose path or query has that piece."""
        return [request for request in self.log if method in ("", request.method) and path in request.path]


class _Listener(ThreadingHTTPServer):
    def __init__(self, hub: HubServer):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub
        self._connections: set[socket.socket] = set()

    def close(self):
        """Ends the connections too, which the client would keep and use again."""
        self.shutdown()
        self.server_close()
        for connection in self._connections.copy():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request, client_address):
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):  # a client may go away at any moment
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def hub(self) -> HubServer:
        assert isinstance(self.server, _Listener)
        return self.server.hub

    def do_GET(self):
        hub = self.hub
        fault = hub.faults.take(self.command, self.path)
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(min(fault.after, length) if isinstance(fault, BreakUpload) else length)
        if isinstance(fault, BreakUpload) or len(body) < length:
            self._log(None)
            return self._break()
        if isinstance(fault, CorruptUpload):
            body = corrupt(body)
        if isinstance(fault, Refusal):
            answer = protocol.refused(fault)
        else:
            request = Request(hub.store, hub.endpoint, hub.storage, self.command, self.path, self.headers, body)
            with hub.lock:
                answer = protocol.answer(request)
        self._send(answer, fault)

    do_DELETE = do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def _send(self, answer: Answer, fault: Fault | None):
        body = answer.body
        if isinstance(fault, CorruptDownload):
            body = corrupt(body)
        if isinstance(fault, OddAnswer):
            body = fault.body
        self._log(answer.status)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(fault, BreakDownload):
            self.wfile.write(body[: fault.after])
            self._break(fault.reset)
        else:
            self.wfile.write(body)

    def _break(self, reset: bool = False):
        if reset:  # what is not sent yet is not waited for
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())  # at once, though streams are open on it
        self.close_connection = True

    def _log(self, status: int | None):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
        request = LoggedRequest(self.command, self.path, self.headers.get("Range"), token, status, time.monotonic())
        self.hub.log.append(request)

    def log_message(self, *_):
        """Nothing on standard error: there is the log."""
