"""
What does the server cost? 64 clients ask `elmo-hf serve` for sentence vectors for a minute: latencies, and the speed
beside that of calling the embedder on the same texts.

    python -m benchmarks.serving
    python -m benchmarks.serving --json benchmarks/results/serving.json

Both sides have the shipped model, processes of their own, and all cores; they alternate. The clients are on the same
machine, in a further process, so that their work is at the server's expense. Each waits for its answer before it asks
again. They ask as OpenAI's client does, for base64, first with one text per request and then with several. Every answer
is compared with the embedder's vectors after the time is over.
"""

import argparse
import asyncio
import base64
import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.report import add_json_option, describe, machine, spread, table, write_results
from benchmarks.sides import TOLERANCE
from benchmarks.texts import read_corpus
from elmo_hf import ElmoEmbedder

ADDRESS = "127.0.0.1"
HEAD = "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"


def read_texts(count: int) -> list[str]:
    """Distinct sentences."""
    sentences, _ = read_corpus(count)
    return list(dict.fromkeys(" ".join(words) for words in sentences))


def embedded(embedder: ElmoEmbedder, texts: Sequence[str]) -> np.ndarray:
    """The vectors that the server gives, `(texts, size)`."""
    pooling = "mean" if embedder.model.sentence_pooling is None else "sentence"
    return embedder.embed(texts, pooling=pooling)


def measure_embedder(texts: Sequence[str], seconds: float) -> float:
    """Texts per second, in this process: the texts again and again, after one pass to warm up."""
    embedder = ElmoEmbedder.from_pretrained()
    embedded(embedder, texts)
    start, passes = time.perf_counter(), 0
    while (spent := time.perf_counter() - start) < seconds:
        embedded(embedder, texts)
        passes += 1
    return passes * len(texts) / spent


@contextlib.contextmanager
def running_server() -> Iterator[int]:
    """The port of a server in a process of its own, which must stop in order."""
    command = [sys.executable, "-m", "elmo_hf.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            yield int(line.split("127.0.0.1:")[1].split()[0])
        finally:
            server.send_signal(signal.SIGTERM)
            if code := server.wait(60):
                raise RuntimeError(f"The server ended with code {code}.")


class Clients:
    """
    Clients that ask and wait, again and again.

    Args:
        port: The port of the server.
        texts: The texts. Each client asks for other ones.
        per_request: The number of texts per request.
    """

    def __init__(self, port: int, texts: Sequence[str], per_request: int):
        self._port = port
        starts = range(0, len(texts) - per_request + 1, per_request)
        bodies = [
            json.dumps({"input": texts[start : start + per_request], "encoding_format": "base64"}) for start in starts
        ]
        self._requests = [(HEAD.format(len(body.encode())) + body).encode() for body in bodies]
        self._places = itertools.cycle(range(len(self._requests)))
        self.seconds: list[float] = []
        self.answers: list[tuple[int, bytes]] = []  # the number of a request, and the body of its answer

    async def run(self, count: int, seconds: float) -> float:
        """Runs so many clients for so long, and until the last answer is there. The seconds that this took."""
        start = time.perf_counter()
        await asyncio.gather(*(self._client(start + seconds) for _ in range(count)))
        return time.perf_counter() - start

    async def _client(self, end: float):
        reader, writer = await asyncio.open_connection(ADDRESS, self._port, limit=1 << 24)
        while (asked := time.perf_counter()) < end:
            place = next(self._places)
            writer.write(self._requests[place])
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"A request was refused: {head.decode()}")
            if b"content-length: " in head:
                body = await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
            else:
                body = await _read_chunks(reader)
            self.seconds.append(time.perf_counter() - asked)
            self.answers.append((place, body))
        writer.close()


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)


def largest_difference(answers: Sequence[tuple[int, bytes]], per_request: int, vectors: np.ndarray) -> float:
    """Between the vectors of the answers and those of the embedder, in their order."""
    largest = 0.0
    for place, body in answers:
        rows = [base64.b64decode(entry["embedding"]) for entry in json.loads(body)["data"]]
        answered = np.stack([np.frombuffer(row, "<f4") for row in rows])
        largest = max(largest, float(np.abs(answered - vectors[place * per_request :][:per_request]).max()))
    return largest


def measure_server(texts: Sequence[str], vectors: np.ndarray, per_request: int, clients: int, seconds: float) -> dict:
    """One run of the server, warmed up by every text once."""
    with running_server() as port:
        asyncio.run(Clients(port, texts, 16).run(4, min(seconds, 5.0)))
        asking = Clients(port, texts, per_request)
        spent = asyncio.run(asking.run(clients, seconds))
    difference = largest_difference(asking.answers, per_request, vectors)
    if not difference < TOLERANCE:
        raise RuntimeError(f"The vectors of the server differ by {difference:g} from those of the embedder.")
    cuts = statistics.quantiles(asking.seconds, n=100)
    return {
        "texts/s": len(asking.answers) * per_request / spent,
        "p50": cuts[49],
        "p99": cuts[98],
        "requests": len(asking.answers),
        "difference": difference,
    }


def measure(texts: Sequence[str], sizes: Sequence[int], clients: int, seconds: float, repeats: int) -> dict[str, Any]:
    """Both sides, alternating: the embedder, then the server with each number of texts per request."""
    vectors = embedded(ElmoEmbedder.from_pretrained(), texts)
    results: dict[str, Any] = {"embedder": [], "server": {str(size): [] for size in sizes}}
    for _ in range(repeats):
        command = [sys.executable, "-m", "benchmarks.serving", "--embedder", "--texts", str(len(texts))]
        command += ["--seconds", str(seconds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results["embedder"].append(float(done.stdout))
        for size in sizes:
            measured = measure_server(texts, vectors, size, clients, seconds)
            results["server"][str(size)].append(measured | {"share": measured["texts/s"] / results["embedder"][-1]})
    return results


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--embedder", action="store_true", help="measure the embedder in this process, and print its speed"
    )
    parser.add_argument("--texts", type=int, default=2048, help="sentences of the held-out text")
    parser.add_argument("--per-request", type=int, nargs="+", default=[1, 16], help="texts per request")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--repeats", type=int, default=3)
    add_json_option(parser)
    options = parser.parse_args()
    texts = read_texts(options.texts)
    if options.embedder:
        print(measure_embedder(texts, options.seconds))
        return
    load = os.getloadavg()[0]
    results = measure(texts, options.per_request, options.clients, options.seconds, options.repeats)
    lines = [["the embedder, called directly", spread(results["embedder"]), "–", "–", "–"]]
    for size, runs in results["server"].items():
        columns = [[run[name] * scale for run in runs] for name, scale in (("p50", 1e3), ("p99", 1e3), ("share", 100))]
        lines.append(
            [f"{options.clients} clients, {size} text(s) per request", spread([run["texts/s"] for run in runs])]
        )
        lines[-1] += [spread(column) for column in columns]
    print(table(["side", "texts per second", "p50, ms", "p99, ms", "% of the embedder"], lines), end="\n\n")
    print(f"{options.repeats} repetitions: median (smallest–largest). {describe(machine())}")
    facts = {"texts": len(texts), "clients": options.clients, "seconds": options.seconds, "load": load}
    write_results(options.json, "serving", results, **facts)


if __name__ == "__main__":
    main()
