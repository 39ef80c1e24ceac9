"""A server in a thread of this process, with small models, and plain HTTP to it."""

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoForTokenClassification
from elmo_hf.serving import ClassifyingModel, EmbeddingModel, ServingLimits, TaggingModel, create_app
from elmo_hf.serving.gate import Gate
from elmo_hf.serving.server import Server
from tests.embedding.toy import TOKENIZER, toy_embedder
from tests.models import TINY

LIMITS = ServingLimits()
TAGS = {0: "O", 1: "B-PER", 2: "I-PER"}
PATIENCE = 60  # seconds until a test that hangs fails


def embedding_model(name: str = "toy", limits: ServingLimits = LIMITS, **fields) -> EmbeddingModel:
    return EmbeddingModel(name, toy_embedder(**fields), limits)


def tagging_model(limits: ServingLimits = LIMITS, **fields) -> TaggingModel:
    head = ElmoForTokenClassification(ElmoConfig(**TINY, id2label=TAGS, task_layer_size=3, **fields)).eval()
    return TaggingModel("tagger", head, TOKENIZER, limits)


def classifying_model(name: str = "classifier", limits: ServingLimits = LIMITS, **fields) -> ClassifyingModel:
    fields = {"num_labels": 3, "task_layer_size": 3} | fields
    return ClassifyingModel(name, ElmoForSequenceClassification(ElmoConfig(**TINY, **fields)).eval(), TOKENIZER, limits)


class HeldModel(EmbeddingModel):
    """A model that computes only while it is let go."""

    def __init__(self, limits: ServingLimits = LIMITS):
        super().__init__("held", toy_embedder(), limits)
        self.let_go = threading.Event()
        self.is_busy = threading.Event()
        self.batches: list[list[Sequence[Any]]] = []

    def run(self, jobs):
        self.batches.append([job.texts for job in jobs])
        self.is_busy.set()
        assert self.let_go.wait(PATIENCE)
        return super().run(jobs)


class Answer:
    """The status, the headers and the body of an answer."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, str]:
        """The error, of which the shape is checked."""
        assert self.headers["content-type"] == "application/json"
        (error,) = self.json.values()
        assert list(self.json) == ["error"]
        assert set(error) == {"message", "type", "code"}
        assert error["type"] == ("invalid_request_error" if self.status < 500 else "server_error")
        return error


class Running:
    """A running server."""

    def __init__(self, server: Server, gate: Gate, port: int, thread: threading.Thread):
        self.server, self.gate, self.port, self._thread = server, gate, port, thread
        self.url = f"http://127.0.0.1:{port}"

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())

    def post(self, path: str, **fields: Any) -> Answer:
        """A request with a JSON body."""
        return self.send("POST", path, json.dumps(fields).encode(), {"Content-Type": "application/json"})

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def metric(self, name: str) -> float:
        """The value of a line of `/metrics`; 0 if it is not there."""
        lines = self.get("/metrics").body.decode().splitlines()
        return sum(float(line.removeprefix(f"{name} ")) for line in lines if line.startswith(f"{name} "))

    def wait_for(self, name: str, least: float):
        """Waits until a metric has reached a value."""
        self.wait_until(lambda: self.metric(name) >= least)

    def wait_until(self, condition: Callable[[], bool]):
        """Waits for something that must happen."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.01)

    def stop(self):
        """What a signal does."""
        self.server.should_exit = True

    def join(self):
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def running(models: Sequence[Any], limits: ServingLimits = LIMITS, api_key: str | None = None) -> Iterator[Running]:
    """A server, stopped at the end."""
    gate = create_app(models, limits, api_key)
    server = Server(gate, limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
        thread.start()
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive()
        server_running = Running(server, gate, port, thread)
        try:
            yield server_running
        finally:
            server_running.stop()
            server_running.join()


@contextlib.contextmanager
def full_queue(server: Running, model: HeldModel) -> Iterator[list[Answer]]:
    """
    One request is being computed and one waits, which fills the queue if it has room for few words. At the end the
    model is let go, and both must have been answered; the list then has the answers.
    """
    answers: list[Answer] = []
    threads = []
    for metric, least in (("elmo_hf_texts_total", 1), ("elmo_hf_waiting_words", 1)):
        threads.append(threading.Thread(target=lambda: answers.append(server.post("/embed", inputs="b" * 400))))
        threads[-1].start()
        server.wait_for(f'{metric}{{model="held"}}', least)
    try:
        yield answers
    finally:
        model.let_go.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert [answer.status for answer in answers] == [200, 200]


def received(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)
