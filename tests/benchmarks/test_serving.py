"""The benchmark of the server asks for all texts, and compares every answer."""

import asyncio

import numpy as np
import pytest

from benchmarks.serving import Clients, largest_difference
from elmo_hf.serving import ServingLimits
from tests.embedding.toy import toy_embedder
from tests.serving.running import embedding_model, running

TEXTS = [f"the bank {index}" for index in range(12)]


@pytest.mark.parametrize("per_request", [1, 5])
def test_every_answer_is_compared_with_the_embedders_vectors(per_request):
    vectors = toy_embedder().embed(TEXTS, pooling="mean")
    with running([embedding_model()]) as server:
        clients = Clients(server.port, TEXTS, per_request)
        asyncio.run(clients.run(3, 0.2))
    assert len(clients.answers) == len(clients.seconds) >= 3
    assert largest_difference(clients.answers, per_request, vectors) < 1e-5
    place, body = clients.answers[0]
    assert largest_difference([(place, body)], per_request, np.roll(vectors, 1, axis=0)) > 1e-5


def test_a_refused_request_is_an_error_and_not_a_fast_answer():
    with running([embedding_model()], ServingLimits(texts=1)) as server, pytest.raises(RuntimeError, match="413"):
        asyncio.run(Clients(server.port, TEXTS, 2).run(1, 0.2))
