"""What every route gives, and that all errors have one shape."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from elmo_hf.finetuning.classification_data import LabelledText
from elmo_hf.finetuning.prediction import predict_labels, predict_scored_tags
from elmo_hf.serving import ServingLimits
from elmo_hf.serving.request_bodies import EmbedBody, OpenAIEmbeddingsBody, PredictBody
from tests.embedding.toy import TOKENIZER, toy_embedder
from tests.serving.running import classifying_model, embedding_model, running, tagging_model

LIMITS = ServingLimits(body_bytes=4000, texts=5, words=30, request_words=80)
TEXTS = ["the bank", "", "A river, the Zürich bank n't 宝玉 .", "<S> </S>"]
TOLERANCE = {"rtol": 0, "atol": 1e-5}
POSTS = ["/v1/embeddings", "/embed", "/embed_all", "/predict", "/"]


@pytest.fixture(scope="module")
def models():
    return [
        embedding_model(limits=LIMITS),
        embedding_model("other", LIMITS, seed=1),
        tagging_model(LIMITS),
        classifying_model(limits=LIMITS),
        classifying_model("pairs", LIMITS, text_pairs=True),
        classifying_model("number", LIMITS, num_labels=1, problem_type="regression"),
    ]


@pytest.fixture(scope="module")
def server(models):
    with running(models, LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def embedder():
    return toy_embedder()


# ---- vectors


@pytest.mark.parametrize("encoding_format", [None, "float", "base64"])
def test_v1_embeddings_gives_the_embedders_vectors_in_both_encodings(server, embedder, encoding_format):
    fields = {} if encoding_format is None else {"encoding_format": encoding_format}
    answer = server.post("/v1/embeddings", model="toy", input=TEXTS, **fields).json
    assert [entry["index"] for entry in answer["data"]] == [0, 1, 2, 3]
    vectors = [entry["embedding"] for entry in answer["data"]]
    if encoding_format == "base64":
        vectors = [np.frombuffer(base64.b64decode(vector), "<f4") for vector in vectors]
    np.testing.assert_allclose(vectors, embedder.embed(TEXTS, pooling="mean"), **TOLERANCE)
    words = sum(len(sentence.words) for sentence in embedder.tokenize(TEXTS))
    assert answer["usage"] == {"prompt_tokens": words, "total_tokens": words}
    assert (answer["object"], answer["model"]) == ("list", "toy")


def test_floats_in_json_are_exactly_those_in_base64(server):
    as_float = server.post("/v1/embeddings", input=TEXTS[2]).json["data"][0]["embedding"]
    as_base64 = server.post("/v1/embeddings", input=TEXTS[2], encoding_format="base64").json["data"][0]["embedding"]
    assert np.float32(as_float).tobytes() == base64.b64decode(as_base64)


def test_the_models_own_sentence_pooling_is_the_default(embedder):
    embedder = toy_embedder()
    embedder.fit_sentence_pooling([["bank", f"w{index}"] for index in range(200)])
    model = embedding_model()
    model.embedder, model.pooling = embedder, "sentence"
    with running([model]) as server:
        expected = embedder.embed(TEXTS, pooling="sentence")
        np.testing.assert_allclose(server.post("/embed", inputs=TEXTS).json, expected, **TOLERANCE)
        vectors = [entry["embedding"] for entry in server.post("/v1/embeddings", input=TEXTS).json["data"]]
        np.testing.assert_allclose(vectors, expected, **TOLERANCE)
        assert server.get("/info").json["models"][0]["sentence_size"] == expected.shape[1]
        assert "sentence" in server.post("/embed", inputs="a", pooling="sentence", layers="top").error["message"]


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("layers", ["mix", "top", "average", "all", 0, -1, [0, 2]])
def test_embed_has_the_layers_and_poolings_of_the_embedder(server, embedder, layers, pooling):
    answer = server.post("/embed", inputs=[*TEXTS, ["the", "bank"]], layers=layers, pooling=pooling).json
    expected = embedder.embed([*TEXTS, ["the", "bank"]], layers=layers, pooling=pooling)
    np.testing.assert_allclose(answer, expected, **TOLERANCE)


def test_normalized_vectors_have_length_1_and_that_of_an_empty_text_is_zero(server, embedder):
    answer = np.array(server.post("/embed", inputs=TEXTS, normalize=True, truncate=False).json)
    np.testing.assert_allclose(np.linalg.norm(answer, axis=1), [1, 0, 1, 1], **TOLERANCE)
    expected = embedder.embed(TEXTS, pooling="mean")
    np.testing.assert_allclose(answer * np.linalg.norm(expected, axis=1, keepdims=True), expected, **TOLERANCE)


@pytest.mark.parametrize("layers", ["mix", "all"])
def test_embed_all_gives_a_vector_per_word_and_on_request_words_and_offsets(server, embedder, layers):
    texts = [*TEXTS, ["the", "bank"]]
    expected = embedder.embed(texts, layers=layers)
    plain = server.post("/embed_all", inputs=texts, layers=layers).json
    with_words = server.post("/embed_all", inputs=texts, layers=layers, return_words=True).json
    sentences = list(embedder.tokenize(texts))
    for vectors, entry, own, sentence in zip(plain, with_words, expected, sentences, strict=True):
        np.testing.assert_allclose(np.reshape(vectors, own.shape), own, **TOLERANCE)
        assert (entry["text"], entry["words"]) == (sentence.text, sentence.words)
        assert [entry["text"][start:end] for start, end in entry["offsets"]] == entry["words"]
        assert entry["embeddings"] == vectors


@pytest.mark.medium
def test_a_long_answer_comes_in_pieces(server, embedder):
    limits = ServingLimits(words=2**14, body_bytes=2**20)
    with running([embedding_model(limits=limits)], limits) as server:
        text = "bank river " * 5000
        answer = server.post("/embed_all", inputs=[text, "a"])
        assert answer.headers["transfer-encoding"] == "chunked"
        for vectors, expected in zip(answer.json, embedder.embed([text, "a"]), strict=True):
            np.testing.assert_allclose(vectors, expected, **TOLERANCE)


def test_a_model_is_chosen_in_the_body_or_in_the_query_and_the_first_is_the_default(server, embedder):
    other = toy_embedder(seed=1)
    for response, expected in (
        (server.post("/embed", inputs="bank"), embedder),
        (server.post("/embed", inputs="bank", model="other"), other),
        (server.post("/embed?model=other", inputs="bank"), other),
        (server.post("/?model=other", inputs="bank"), other),
        (server.post("/", inputs="bank"), embedder),
    ):
        np.testing.assert_allclose(response.json, expected.embed(["bank"], pooling="mean"), **TOLERANCE)


# ---- tags and labels


def test_tags_are_those_of_the_tagger_with_offsets(server, models):
    answer = server.post("/predict", inputs=TEXTS[2], parameters={"ignore_labels": []}).json
    words = TOKENIZER.tokenize(TEXTS[2])
    ((sentence, scores),) = predict_scored_tags(models[2].head, TOKENIZER, [words])
    assert [entry["entity"] for entry in answer] == sentence.tags
    assert [entry["word"] for entry in answer] == words == [TEXTS[2][each["start"] : each["end"]] for each in answer]
    np.testing.assert_allclose([entry["score"] for entry in answer], scores, **TOLERANCE)
    assert server.post("/predict", inputs=[TEXTS[2], ""], parameters={"ignore_labels": []}).json == [answer, []]
    assert server.post("/predict", inputs=[words], parameters={"ignore_labels": []}).json[0][0]["word"] == words[0]
    ignored = {entry["entity"] for entry in answer}
    assert server.post("/predict", inputs=TEXTS[2], parameters={"ignore_labels": list(ignored)}).json == []


def test_labels_are_those_of_the_classifier_the_most_probable_first(server, models):
    answer = server.post("/predict", inputs=["the bank", ""], model="classifier").json
    (result,) = predict_labels(models[3].head, TOKENIZER, [LabelledText("the bank")])
    assert answer[0][0]["label"] == result.label
    assert {entry["label"]: entry["score"] for entry in answer[0]} == pytest.approx(result.scores, abs=1e-5)
    scores = [entry["score"] for entry in answer[0]]
    assert scores == sorted(scores, reverse=True)
    assert answer[1] == []
    one = server.post("/predict", inputs="the bank", model="classifier", parameters={"top_k": 1}).json
    assert one == answer[0][:1]


def test_pairs_are_objects_or_lists_of_two_texts(server):
    as_object = server.post("/predict", inputs={"text": "a", "text_pair": "the bank"}, model="pairs")
    as_list = server.post("/predict", inputs=[["a", "the bank"]], model="pairs")
    assert as_object.status == 200
    assert as_list.json == [as_object.json]
    assert server.post("/predict", inputs=["a", "the bank"], model="pairs").status == 422
    assert server.post("/predict", inputs=[["a", "the bank"]], model="classifier").status == 422
    assert server.post("/predict", inputs={"text": "a", "text_pair": "b"}, model="tagger").status == 422


def test_a_regression_gives_its_score(server):
    (entry,) = server.post("/predict", inputs="the bank", model="number").json
    assert entry["label"] == "score"
    assert isinstance(entry["score"], float)


# ---- information


def test_the_models_and_the_limits_are_listed(server, models):
    names = [model.name for model in models]
    assert [entry["id"] for entry in server.get("/v1/models").json["data"]] == names
    info = server.get("/info").json
    assert [entry["id"] for entry in info["models"]] == names
    assert (info["max_texts"], info["max_words"], info["max_body_bytes"]) == (5, 30, 4000)
    assert server.get("/health").json == {"status": "ok"}
    assert {*POSTS, "/metrics"} <= server.get("/openapi.json").json["paths"].keys()


def test_metrics_count_requests_by_route_and_status_and_texts_by_model(models):
    with running([embedding_model()]) as server:
        server.post("/embed", inputs=["a", "b"])
        server.post("/embed", inputs=3)
        server.get("/secret")
        server.get("/other-secret")
        lines = server.get("/metrics").body.decode().splitlines()
    assert 'elmo_hf_requests_total{route="/embed",status="200"} 1.0' in lines
    assert 'elmo_hf_requests_total{route="/embed",status="422"} 1.0' in lines
    assert 'elmo_hf_requests_total{route="other",status="404"} 2.0' in lines
    assert 'elmo_hf_texts_total{model="toy"} 2.0' in lines
    assert 'elmo_hf_waiting_words{model="toy"} 0.0' in lines


# ---- errors


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "message"),
    [
        ("GET", "/nothing", b"", 404, "not_found", "/nothing"),
        ("POST", "/v1/completions", b"{}", 404, "not_found", "/v1/completions"),
        ("GET", "/embed", b"", 405, "method_not_allowed", "GET /embed"),
        ("POST", "/health", b"", 405, "method_not_allowed", "POST /health"),
        ("POST", "/embed", b"", 400, "invalid_json", "not JSON"),
        ("POST", "/embed", b'{"inputs": "a"', 400, "invalid_json", "line 1 column"),
        ("POST", "/embed", b'{"inputs": "\xff"}', 400, "invalid_json", "UTF-8"),
        ("POST", "/embed", b'{"inputs": "\\ud800"}', 400, "invalid_json", "not JSON"),
        ("POST", "/embed", b"[" * 3000, 400, "invalid_json", "not JSON"),
        ("POST", "/embed", b"[]", 422, "invalid_request", "The body"),
        ("POST", "/embed", b"{}", 422, "invalid_request", "`inputs` is missing"),
        ("POST", "/embed", b'{"inputs": "a", "input": "a"}', 422, "invalid_request", "`input` is no field"),
        ("POST", "/embed", b'{"inputs": ["a", 3]}', 422, "invalid_request", "`inputs[1]`"),
        ("POST", "/embed", b'{"inputs": ["a", ["b", null]]}', 422, "invalid_request", "`inputs[1][1]`"),
        ("POST", "/embed", b'{"inputs": []}', 422, "invalid_request", "no texts"),
        ("POST", "/embed", b'{"inputs": "a", "layers": 7}', 422, "invalid_request", "from 0 to 2"),
        ("POST", "/embed", b'{"inputs": "a", "layers": "tpo"}', 422, "invalid_request", "`layers`"),
        ("POST", "/embed", b'{"inputs": "a", "pooling": "sentence"}', 422, "invalid_request", "pooling"),
        ("POST", "/embed", b'{"inputs": "a", "truncate": true}', 422, "invalid_request", "`truncate`"),
        ("POST", "/embed", b'{"inputs": "a", "dimensions": 4}', 422, "invalid_request", "`dimensions` must be 8"),
        ("POST", "/embed", b'{"inputs": "a", "model": "toys"}', 404, "model_not_found", "did you mean 'toy'"),
        ("POST", "/embed", b'{"inputs": "a", "model": "tagger"}', 422, "invalid_request", "toy, other"),
        ("POST", "/predict", b'{"inputs": "a", "model": "toy"}', 422, "invalid_request", "tagger, classifier"),
        ("POST", "/v1/embeddings", b'{"input": [1, 2], "model": "toy"}', 422, "invalid_request", "`input[0]`"),
        ("POST", "/embed", b'{"inputs": ["a", "a", "a", "a", "a", "a"]}', 413, "too_large", "6 texts"),
        ("POST", "/embed", b'{"inputs": ["b", "' + b"a " * 31 + b'"]}', 413, "too_large", "Text 1 has 31 words"),
        ("POST", "/embed_all", b'{"inputs": "' + b"a " * 30 + b'", "layers": "all"}', 413, "too_large", "in 3 layers"),
        ("POST", "/embed", b'{"inputs": ["", ""], "layers": [' + b"0," * 50 + b"0]}", 413, "too_large", "in 51 layers"),
        ("POST", "/predict", b'{"inputs": "' + b"a " * 31 + b'"}', 413, "too_large", "31 words"),
        ("POST", "/predict", b'{"inputs": "' + b"a " * 31 + b'", "model": "number"}', 413, "too_large", "31 words"),
        ("POST", "/embed", b'{"inputs": "' + b"a" * 4000 + b'"}', 413, "too_large", "4,000 bytes"),
    ],
)
def test_every_error_has_one_shape_and_names_what_is_wrong(server, method, path, body, status, code, message):
    answer = server.send(method, path, body)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert message in answer.error["message"]


def test_a_bug_is_an_answer_without_its_details_and_the_server_goes_on(caplog):
    model = embedding_model()
    model.run = lambda jobs: 1 / 0
    with running([model, embedding_model("other")]) as server:
        answer = server.post("/embed", inputs="a")
        assert (answer.status, answer.error["code"]) == (500, "internal_error")
        assert "zero" not in answer.error["message"]
        assert server.post("/embed", inputs="a", model="other").status == 200
    assert "ZeroDivisionError" in caplog.text


def test_vectors_that_are_not_finite_are_an_error():
    model = embedding_model()
    model.embedder.model.layers[0].bias.data.fill_(float("nan"))
    with running([model]) as server:
        assert server.post("/embed", inputs="a", layers="top").error["code"] == "not_finite"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=16), min_size=1, max_size=5))
def test_any_text_has_the_embedders_vectors_and_words(server, embedder, texts):
    answer = server.post("/embed_all", inputs=texts, return_words=True)
    assert answer.status == 200
    for entry, vectors, sentence in zip(answer.json, embedder.embed(texts), embedder.tokenize(texts), strict=True):
        np.testing.assert_allclose(np.reshape(entry["embeddings"], vectors.shape), vectors, **TOLERANCE)
        assert (entry["text"], entry["words"]) == (sentence.text, sentence.words)


@settings(max_examples=150)
@given(
    path=st.sampled_from(POSTS),
    body=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("inputs", "input", "model", "parameters", "layers"), ANYTHING)
    )
    | ANYTHING,
)
def test_any_json_is_answered_and_none_is_a_bug(server, path, body):
    answer = server.send("POST", path, json.dumps(body).encode())
    assert answer.status in (200, 400, 404, 413, 422)
    if answer.status != 200:
        assert answer.error["message"]


@settings(max_examples=100)
@given(path=st.sampled_from(POSTS), body=st.binary(max_size=50))
def test_any_bytes_are_answered_and_none_is_a_bug(server, path, body):
    answer = server.send("POST", path, body)
    assert answer.status in (400, 422)
    assert answer.error["message"]


@pytest.mark.parametrize(
    ("kind", "field"), [(EmbedBody, "inputs"), (PredictBody, "inputs"), (OpenAIEmbeddingsBody, "input")]
)
def test_a_body_of_many_wrong_items_is_read_to_the_first(kind, field):
    with pytest.raises(ValidationError) as caught:
        kind.model_validate_json(json.dumps({field: [1] * 1000}))
    assert caught.value.error_count() < 10


def test_a_body_of_many_unknown_fields_has_one_message(server):
    answer = server.post("/embed", inputs="a", **{f"field{number}": 1 for number in range(200)})
    assert answer.status == 422
    assert "More than 100 fields of the body are wrong." in answer.error["message"]


def test_more_layers_than_any_model_has_are_refused_before_they_are_cached(server, models):
    (model,) = (model for model in models if model.name == "toy")
    before = model.request.cache_info().currsize
    assert server.post("/embed", inputs="a", layers=[0] * 65).status == 422
    assert model.request.cache_info().currsize == before


@pytest.mark.parametrize(
    ("model", "parameters", "name"),
    [("classifier", {"aggregation_strategy": "simple"}, "aggregation_strategy"), ("tagger", {"top_k": 2}, "top_k")],
)
def test_parameters_of_another_task_are_refused(server, model, parameters, name):
    answer = server.post("/predict", inputs="a", model=model, parameters=parameters)
    assert answer.status == 422
    assert f"`parameters.{name}` has no effect on {model}" in answer.error["message"]
