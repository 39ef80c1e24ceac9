"""Many clients for five seconds: nothing is lost, and every vector is the embedder's, in the order of the texts."""

import itertools
import threading
import time

import numpy as np
import pytest

from tests.embedding.toy import toy_embedder
from tests.serving.running import PATIENCE, embedding_model, running, tagging_model

pytestmark = pytest.mark.medium

SECONDS = 5
CLIENTS = 16
WORDS = ["the", "bank", "river", "Zürich", "宝玉", "a", ".", "unknown"]


def test_many_clients_at_once_lose_nothing():
    texts = [" ".join(words) for words in itertools.permutations(WORDS, 3)]
    expected = toy_embedder().embed(texts, pooling="mean")
    vectors, words = toy_embedder().embed(texts), [each.words for each in toy_embedder().tokenize(texts)]
    end = time.monotonic() + SECONDS
    counts, problems = [0] * CLIENTS, []

    def ask(client: int):
        starts = itertools.cycle(range(client, len(texts) - 7, CLIENTS))
        kinds = itertools.cycle(range(4))
        while time.monotonic() < end and not problems:
            kind, start = next(kinds), next(starts)
            own = slice(start, start + 1 + counts[client] % 7)
            try:
                if kind == 3:
                    answers = server.post("/predict", inputs=texts[own], parameters={"ignore_labels": []}).json
                    assert [[entry["word"] for entry in each] for each in answers] == words[own]
                elif kind == 2:
                    for each, vector in zip(
                        server.post("/embed_all", inputs=texts[own]).json, vectors[own], strict=True
                    ):
                        np.testing.assert_allclose(each, vector, rtol=0, atol=1e-5)
                else:
                    entries = server.post("/v1/embeddings", input=texts[own], model="toy").json["data"]
                    answers = [entry["embedding"] for entry in entries]
                    np.testing.assert_allclose(answers, expected[own], rtol=0, atol=1e-5)
            except Exception as error:
                problems.append(error)
            counts[client] += 1

    with running([embedding_model(), tagging_model()]) as server:
        threads = [threading.Thread(target=ask, args=[client]) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + PATIENCE)
            assert not thread.is_alive()
        paths = ("/v1/embeddings", "/embed_all", "/predict")
        answered = sum(server.metric(f'elmo_hf_requests_total{{route="{path}",status="200"}}') for path in paths)
        computed = server.metric('elmo_hf_batch_texts_count{model="toy"}')
    assert problems == []
    assert answered == sum(counts)
    assert min(counts) > 0
    assert 0 < computed <= answered
