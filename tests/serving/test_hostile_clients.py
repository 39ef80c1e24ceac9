"""Slow, broken and malicious clients: they are cut off, and others are answered meanwhile."""

import json
import socket
import threading

import numpy as np
import pytest

from elmo_hf.serving import ServingLimits
from tests.embedding.toy import toy_embedder
from tests.serving.running import Answer, HeldModel, Running, embedding_model, full_queue, received, running

pytestmark = pytest.mark.medium  # most of them wait until the server's patience is over

KEY = "a-secret"
BODY = json.dumps({"inputs": "the bank"}).encode()
IMPATIENT = ServingLimits(body_bytes=10_000, seconds=3.0, header_seconds=2.0, words=10_000)


@pytest.fixture(scope="module")
def server():
    """A server that waits for nobody."""
    with running([embedding_model(limits=IMPATIENT)], IMPATIENT) as server:
        yield server


def assert_others_are_answered(server: Running):
    expected = toy_embedder().embed(["the bank"], pooling="mean")
    np.testing.assert_allclose(server.post("/embed", inputs="the bank").json, expected, rtol=0, atol=1e-5)


def parsed(answer: bytes) -> Answer:
    """An answer as it came."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return Answer(int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /embed HTTP/1.1\r\n",
        b"POST /embed HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /embed HT",  # the second request of a connection
    ],
    ids=["nothing", "first line", "headers", "second request"],
)
def test_a_head_that_does_not_end_ends_the_connection(server, sent):
    with server.connect() as connection:
        connection.sendall(sent)
        assert_others_are_answered(server)
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 200") if b"health" in sent else answer == b""


def test_a_head_that_comes_byte_by_byte_does_not_gain_time(server):
    """Each byte would begin the time anew, if it counted from the last byte."""
    with server.connect() as connection:
        connection.settimeout(0.05)

        def is_closed() -> bool:
            try:
                connection.sendall(b"P")
                return not connection.recv(1)
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        server.wait_until(is_closed)


def test_many_slow_heads_at_once_do_not_stall_others(server):
    connections = [server.connect() for _ in range(50)]
    for connection in connections:
        connection.sendall(b"POST /embed HTTP/1.1\r\nHost:")
    assert_others_are_answered(server)
    for connection in connections:
        assert received(connection) == b""
        connection.close()


def test_a_body_that_does_not_come_is_an_answer(server):
    with server.connect() as connection:
        connection.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert_others_are_answered(server)
        answer = parsed(received(connection))
    assert (answer.status, answer.error["code"]) == (408, "slow_request")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_huge_body_is_refused_while_it_comes_and_never_kept(server, is_chunked):
    """With and without a length that says so. The client may send all of it first, up to a limit."""
    size = 4 * IMPATIENT.body_bytes
    with server.connect() as connection:
        length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
        connection.sendall(f"POST /embed HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode())
        for _ in range(4):
            part = b"a" * IMPATIENT.body_bytes
            connection.sendall(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
        if is_chunked:
            connection.sendall(b"0\r\n\r\n")
        answer = parsed(received(connection))
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert_others_are_answered(server)


def test_a_body_without_end_ends_the_connection(server):
    part = b"a" * IMPATIENT.body_bytes
    chunks = b"%x\r\n%b\r\n" % (len(part), part) * 2000  # 20 MB: far more than is read
    with server.connect() as connection:
        connection.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            connection.sendall(chunks)
    assert_others_are_answered(server)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS
        b"nonsense\r\n\r\n",
        b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n",
        b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",  # no host
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:20]),
)
def test_what_is_no_http_is_refused_in_the_shape_of_all_errors(server, sent):
    with server.connect() as connection:
        connection.sendall(sent)
        answer = received(connection)
    # What was sent beyond the limit may reset the connection before the answer is read.
    assert answer or len(sent) > 1_000_000
    if answer:
        assert (parsed(answer).status, parsed(answer).error["code"]) == (400, "invalid_http")
    assert_others_are_answered(server)


def test_a_chunk_that_is_none_ends_the_request(server):
    with server.connect() as connection:
        connection.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")
        assert parsed(received(connection)).error["code"] == "invalid_http"
    assert_others_are_answered(server)


def test_an_answer_that_nobody_reads_ends_the_connection(server):
    text = "bank " * 1900
    body = json.dumps({"inputs": text, "layers": "all"}).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        head = f"POST /embed_all HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        for _ in range(20):  # pipelined: far more than the buffers of both sides
            connection.sendall(head.encode() + body)
        assert_others_are_answered(server)
        server.wait_until(lambda: len(server.server.server_state.connections) == 0)
    assert_others_are_answered(server)


def test_more_connections_than_the_limit_are_closed():
    limits = ServingLimits(connections=3)
    with running([embedding_model()], limits) as server:
        connections = [server.connect() for _ in range(3)]
        for connection in connections:  # they are taken one after the other: each must be known before the next
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in connection.recv(1000)
        with server.connect() as further:
            assert received(further) == b""
        connections.pop().close()
        server.wait_until(lambda: len(server.server.server_state.connections) == 2)
        assert server.get("/health").status == 200
        for connection in connections:
            connection.close()


# ---- cancelled requests, and those that take too long


def test_the_work_of_a_client_that_has_gone_is_dropped():
    model = HeldModel()
    with running([model]) as server:
        busy = threading.Thread(target=server.post, args=["/embed"], kwargs={"inputs": "busy"})
        busy.start()
        model.is_busy.wait()
        with server.connect() as connection:
            head = f"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n"
            connection.sendall(head.encode() + BODY)
            server.wait_for('elmo_hf_waiting_words{model="held"}', 1)
        server.wait_for('elmo_hf_requests_total{route="/embed",status="499"}', 1)
        model.let_go.set()
        busy.join()
        assert_others_are_answered(server)
    assert [texts for batch in model.batches for texts in batch] == [["busy"], ["the bank"]]


def test_a_request_that_takes_too_long_is_an_answer_and_its_work_is_dropped():
    limits = ServingLimits(seconds=0.3)
    model = HeldModel(limits)
    with running([model], limits) as server:
        first, second = server.post("/embed", inputs="first"), server.post("/embed", inputs="second")
        model.let_go.set()
        assert (first.status, first.error["code"]) == (504, "timeout")
        assert second.status == 504
        server.wait_until(lambda: server.post("/embed", inputs="third").status == 200)
    assert ["second"] not in [texts for batch in model.batches for texts in batch]


def test_a_full_queue_refuses_at_once_and_loses_nothing():
    limits = ServingLimits(queue_words=10)
    model = HeldModel(limits)
    with running([model], limits) as server, full_queue(server, model):
        for _ in range(5):
            answer = server.post("/embed", inputs="a")
            assert (answer.status, answer.error["code"]) == (429, "queue_full")
            assert int(answer.headers["retry-after"]) >= 1
        assert server.get("/health").status == 200


# ---- keys


@pytest.fixture(scope="module")
def locked_server():
    with running([embedding_model()], api_key=KEY) as server:
        yield server


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Basic {KEY}",
        KEY,
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        "Bearer é",
    ],
)
@pytest.mark.parametrize("path", ["/embed", "/v1/models", "/metrics", "/nothing", "/openapi.json"])
def test_a_wrong_key_opens_nothing(locked_server, header, path):
    headers = {} if header is None else {"Authorization": header}
    answer = locked_server.send("POST" if path == "/embed" else "GET", path, BODY, headers)
    assert (answer.status, answer.error["code"]) == (401, "wrong_key")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_right_key_opens_all_and_health_needs_none(locked_server, scheme):
    headers = {"Authorization": f"{scheme} {KEY}"}
    assert locked_server.send("POST", "/embed", BODY, headers).status == 200
    assert locked_server.send("GET", "/metrics", None, headers).status == 200
    assert locked_server.get("/health").status == 200


def test_a_body_without_the_key_is_not_read(locked_server):
    with locked_server.connect() as connection:
        connection.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert parsed(received(connection)).status == 401
