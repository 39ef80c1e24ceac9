"""A stop loses nothing: what is in the queue is answered, and what is new is refused."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from elmo_hf.serving import ServingLimits
from tests.conftest import ROOT
from tests.embedding.toy import TOKENIZER, toy_embedder
from tests.models import tiny_model
from tests.serving.running import PATIENCE, HeldModel, embedding_model, full_queue, received, running

HEAD = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n"


def test_what_is_in_the_queue_is_answered_and_what_is_new_is_refused():
    model = HeldModel()
    with running([model]) as server:
        with server.connect() as connection:  # its body comes after the signal
            connection.sendall(HEAD)
            server.wait_until(lambda: len(server.server.server_state.tasks) == 1)
            with full_queue(server, model) as answers:
                server.stop()
                server.wait_until(lambda: not server.gate.is_open)
                connection.sendall(b'{"inputs": "new"}')
                refused = received(connection)
                server.wait_until(lambda: not accepts_connections(server))
        server.join()
    assert refused.startswith(b"HTTP/1.1 503")
    assert b'"shutting_down"' in refused
    expected = toy_embedder().embed(["b" * 400], pooling="mean")
    for answer in answers:
        np.testing.assert_allclose(answer.json, expected, rtol=0, atol=1e-5)


def accepts_connections(server) -> bool:
    try:
        server.connect().close()
    except ConnectionError:
        return False
    return True


def test_an_idle_connection_does_not_delay_the_stop():
    with running([embedding_model()], ServingLimits(header_seconds=10 * PATIENCE)) as server:
        connection = server.connect()
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        server.stop()
        server.join()
        connection.close()


@pytest.mark.medium
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_command_under_load_without_losing_an_answer(tmp_path, signum):
    folder = tmp_path / "toy"
    tiny_model().save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    key = tmp_path / "key"
    key.write_text("a-secret\n")
    command = [sys.executable, "-m", "elmo_hf.cli", "serve", folder, "--port", "0", "--api-key-file", key]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        announced = re.fullmatch(r"Serving toy \(embedding\) on (http://127.0.0.1:\d+) .*\n", server.stdout.readline())
        if (shown := Path(f"/proc/{server.pid}/cmdline")).exists():  # what `ps` shows
            assert b"a-secret" not in shown.read_bytes()
        clients = [Client(announced[1], index) for index in range(8)]
        for client in clients:
            client.enough.wait(PATIENCE)
        server.send_signal(signum)
        output, errors = server.communicate(timeout=PATIENCE)
        for client in clients:
            client.thread.join(PATIENCE)
    finally:
        server.kill()
        server.wait()
    assert (server.returncode, output, errors) == (0, "", "")
    expected = toy_embedder().embed([client.text for client in clients], pooling="mean")
    for client, vector in zip(clients, expected, strict=True):
        assert client.problems == []
        assert len(client.answers) > 5
        np.testing.assert_allclose(client.answers, [[vector]] * len(client.answers), rtol=0, atol=1e-5)


class Client:
    """Asks for one text again and again, until the server takes no more connections; each answer must be whole."""

    def __init__(self, url: str, index: int):
        self.url, self.text = url, f"the bank {index}"
        self.answers, self.problems = [], []
        self.enough = threading.Event()
        self.thread = threading.Thread(target=self._ask, daemon=True)
        self.thread.start()

    def _ask(self):
        headers = {"Authorization": "Bearer a-secret", "Connection": "close"}
        while True:
            connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
            try:
                connection.connect()
                connection.request("POST", "/embed", json.dumps({"inputs": self.text}), headers)
                answer = connection.getresponse()
                body = answer.read()
            except (ConnectionError, http.client.RemoteDisconnected):
                return  # the server has stopped: it had not taken the request
            finally:
                connection.close()
            if answer.status == 200:
                self.answers.append(json.loads(body))
            elif answer.status != 503:
                self.problems.append((answer.status, body))
            if len(self.answers) > 5:
                self.enough.set()
