"""The clients that people have: openai, and InferenceClient of huggingface_hub."""

import threading

import numpy as np
import openai
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from elmo_hf.serving import ServingLimits
from tests.embedding.toy import toy_embedder
from tests.serving.running import HeldModel, classifying_model, embedding_model, full_queue, running, tagging_model

pytestmark = pytest.mark.medium

KEY = "a-secret"
TEXTS = ["the bank", "A river, the Zürich bank n't 宝玉 .", ""]
TOLERANCE = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(scope="module")
def server():
    models = [embedding_model(), embedding_model("other", seed=1), tagging_model(), classifying_model()]
    with running(models, ServingLimits(texts=8), KEY) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def inference(server, path: str, key: str = KEY) -> InferenceClient:
    return InferenceClient(model=f"{server.url}{path}", token=key)


@pytest.fixture(autouse=True)
def online(monkeypatch):
    """The client asks no other address, but would refuse ours."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


# ---- openai


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}, {"dimensions": 8, "user": "me"}])
def test_openai_gets_the_embedders_vectors(client, options):
    answer = client.embeddings.create(model="toy", input=TEXTS, **options)
    expected = toy_embedder().embed(TEXTS, pooling="mean")
    np.testing.assert_allclose([entry.embedding for entry in answer.data], expected, **TOLERANCE)
    assert answer.usage.total_tokens == sum(len(each.words) for each in toy_embedder().tokenize(TEXTS))
    one = client.embeddings.create(model="other", input=TEXTS[0], **options)
    expected = toy_embedder(seed=1).embed(TEXTS[:1], pooling="mean")
    np.testing.assert_allclose([entry.embedding for entry in one.data], expected, **TOLERANCE)
    assert one.model == "other"


def test_openai_lists_the_models(client):
    assert [model.id for model in client.models.list()] == ["toy", "other", "tagger", "classifier"]


def test_openai_raises_its_errors_with_our_messages(server, client):
    with pytest.raises(openai.NotFoundError, match="did you mean 'toy'"):
        client.embeddings.create(model="toys", input="a")
    with pytest.raises(openai.UnprocessableEntityError, match="toy, other") as error:
        client.embeddings.create(model="tagger", input="a")
    assert (error.value.code, error.value.type) == ("invalid_request", "invalid_request_error")
    with pytest.raises(openai.APIStatusError, match="9 texts") as error:
        client.embeddings.create(model="toy", input=["a"] * 9)
    assert error.value.status_code == 413
    with pytest.raises(openai.AuthenticationError, match="API key"):
        client.with_options(api_key="wrong").embeddings.create(model="toy", input="a")


def test_openai_tries_again_after_a_full_queue():
    limits = ServingLimits(queue_words=10)
    model = HeldModel(limits)
    with (
        running([model], limits) as server,
        full_queue(server, model),
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0) as client,
    ):
        with pytest.raises(openai.RateLimitError, match="try again later") as refused:
            client.embeddings.create(model="held", input="bank")
        assert refused.value.response.headers["Retry-After"] == "1"
        refusals = 'elmo_hf_requests_total{route="/v1/embeddings",status="429"}'
        let_go = threading.Thread(target=lambda: (server.wait_for(refusals, 2), model.let_go.set()))
        let_go.start()
        answer = client.with_options(max_retries=20).embeddings.create(model="held", input="bank")
        let_go.join()
    np.testing.assert_allclose(answer.data[0].embedding, toy_embedder().embed(["bank"], pooling="mean")[0], **TOLERANCE)


# ---- InferenceClient


@pytest.mark.parametrize("path", ["", "/", "/embed", "/embed?model=toy"])
def test_inference_client_gets_sentence_vectors(server, path):
    expected = toy_embedder().embed(TEXTS, pooling="mean")
    vectors = inference(server, path).feature_extraction(TEXTS)
    np.testing.assert_allclose(vectors, expected, **TOLERANCE)
    one = inference(server, path).feature_extraction(TEXTS[0], normalize=True, truncate=False)
    np.testing.assert_allclose(one, expected[:1] / np.linalg.norm(expected[0]), **TOLERANCE)


def test_inference_client_gets_word_vectors(server):
    vectors = inference(server, "/embed_all").feature_extraction(TEXTS[1])
    np.testing.assert_allclose(vectors, [toy_embedder().embed(TEXTS[1:2])[0]], **TOLERANCE)


@pytest.mark.parametrize("path", ["/predict", "/predict?model=tagger", "/?model=tagger"])
def test_inference_client_gets_tags(server, path):
    entries = inference(server, path).token_classification(TEXTS[1], ignore_labels=[])
    assert [entry.word for entry in entries] == [TEXTS[1][entry.start : entry.end] for entry in entries]
    assert {entry.entity for entry in entries} <= {"O", "B-PER", "I-PER"}
    spans = inference(server, path).token_classification(TEXTS[1], aggregation_strategy="simple", ignore_labels=[])
    assert {entry.entity_group for entry in spans} <= {"O", "PER"}
    assert (spans[0].start, spans[-1].end) == (0, len(TEXTS[1]))


def test_inference_client_gets_labels(server):
    entries = inference(server, "/?model=classifier").text_classification(TEXTS[0])
    assert sorted(entry.label for entry in entries) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert sum(entry.score for entry in entries) == pytest.approx(1, abs=1e-5)


def test_inference_client_shows_our_messages(server):
    with pytest.raises(HfHubHTTPError, match="`truncate` is wrong"):
        inference(server, "/embed").feature_extraction("a", truncate=True)
    with pytest.raises(HfHubHTTPError, match="API key"):
        inference(server, "/embed", "wrong").feature_extraction("a")
