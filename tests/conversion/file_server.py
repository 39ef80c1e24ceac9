"""A server of files on the loopback interface, as far as a download needs one: ranges, ETags, and faults on demand."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest
from huggingface_hub import constants


class Seen(NamedTuple):
    """A request that came, and the status of the answer."""

    path: str
    range: str | None
    status: int


class Fault(NamedTuple):
    """
    What goes wrong with one answer.

    Attributes:
        status: Answered instead of the file.
        cut_after: Bytes of the body after which the connection ends.
        stall_after: Bytes of the body after which nothing more comes.
        change: The body that is sent instead; lengths in the headers are the true ones.
        headers: These win over the true ones.
        without_length: The end of the connection is the end of the body.
    """

    status: int | None = None
    cut_after: int | None = None
    stall_after: int | None = None
    change: Callable[[bytes], bytes] = bytes
    headers: dict[str, str] = {}
    without_length: bool = False


class FileServer:
    """
    The server.

    Attributes:
        url: Its address.
        files: Their contents, by path without the slash in front.
        etags: Those of the files; without one: made from the content.
        ranges: Whether it knows them.
        faults: Of the next answers, in this order.
        seen: All requests.
    """

    def __init__(self, port: int):
        self.url = f"http://127.0.0.1:{port}"
        self.files: dict[str, bytes] = {}
        self.etags: dict[str, str | None] = {}
        self.ranges = True
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.closing = threading.Event()

    def etag(self, name: str) -> str | None:
        return self.etags.get(name, f'"{hash(self.files[name])}"')


class _Handler(BaseHTTPRequestHandler):
    server: "_Listener"

    def do_GET(self):
        server, name = self.server.files, self.path.lstrip("/")
        fault = server.faults.pop(0) if server.faults else Fault()
        if fault.status is not None or name not in server.files:
            self._start(fault.status or 404, {"Content-Length": "0", **fault.headers})
            return
        content, etag = server.files[name], server.etag(name)
        headers = {"Content-Length": str(len(content))} | ({"ETag": etag} if etag else {})
        status = 200
        if server.ranges and "Range" in self.headers and self.headers.get("If-Range", etag) == etag:
            first = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if first >= len(content):
                self._start(416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"})
                return
            status = 206
            headers |= {
                "Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}",
                "Content-Length": str(len(content) - first),
            }
            content = content[first:]
        if fault.without_length:
            del headers["Content-Length"]
        self._start(status, headers | fault.headers)
        body = fault.change(content)
        with suppress(ConnectionError):  # a client that has seen enough
            self.wfile.write(body[: fault.cut_after if fault.cut_after is not None else fault.stall_after])
        if fault.stall_after is not None:
            server.closing.wait(10)
        self.close_connection = True

    def _start(self, status: int, headers: dict[str, str]):
        self.server.files.seen.append(Seen(self.path, self.headers.get("Range"), status))
        self.send_response(status)
        for header in headers.items():
            self.send_header(*header)
        self.end_headers()

    def log_message(self, *args):
        pass


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = FileServer(self.server_port)


@contextmanager
def serve_files() -> Iterator[FileServer]:
    """A server until the block ends."""
    with _Listener() as listener:
        threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        yield listener.files
        listener.files.closing.set()
        listener.shutdown()


@pytest.fixture
def file_server(monkeypatch, tmp_path_factory):
    """A server for a test, with a cache of the test's own, and a client that may go there."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_files() as server:
        yield server
