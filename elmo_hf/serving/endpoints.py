"""What the routes do: parse the body, choose the model, wait for its answer, write it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from .._version import __version__
from ..errors import did_you_mean, in_one_line
from .answer_bodies import json_of, label_scores, openai_pieces, tagged_words, vectors_pieces, words_and_vectors_pieces
from .api_errors import ApiError, invalid, timed_out, too_large
from .gate import DisconnectedError
from .request_bodies import Body, EmbedAllBody, EmbedBody, OpenAIEmbeddingsBody, PredictBody, parse_body
from .request_queue import Job, RequestQueue
from .served_models import (
    ClassifyingModel,
    EmbeddingModel,
    EmbeddingOptions,
    Embeddings,
    ServedModel,
    TaggedText,
    TaggingModel,
)
from .serving_limits import ServingLimits
from .serving_metrics import ServingMetrics

JSON = "application/json"
PIECE_BYTES = 1 << 18  # an answer longer than this is sent in pieces; other requests are served between them


class Endpoints:
    """
    The endpoints of a server.

    Args:
        models: The models; a request that names none gets the first one that fits.
        limits: The limits of a request.
        metrics: Where batches and queues are reported.
    """

    def __init__(self, models: Sequence[ServedModel], limits: ServingLimits, metrics: ServingMetrics):
        self.limits, self._metrics = limits, metrics
        self.models = {model.name: model for model in models}
        self.queues: dict[str, RequestQueue] = {}
        for name, model in self.models.items():
            queue = RequestQueue(model, name, limits.queue_words, limits.batch_words, metrics.batch_observer(name))
            self.queues[name] = queue
            metrics.watch_queue(name, lambda queue=queue: queue.waiting_words)

    # ---- vectors

    async def openai_embeddings(self, request: Request) -> Response:
        """Sentence vectors, as OpenAI's clients ask for them."""
        body = await _body(request, OpenAIEmbeddingsBody)
        model = self._embedding_model(body.model)
        options = EmbeddingOptions("mix", model.pooling)
        answer = await self._embeddings(request, model, body.texts(), options, body.dimensions)
        return _json(openai_pieces(model.name, answer, body.encoding_format == "base64"))

    async def embed(self, request: Request) -> Response:
        """Sentence vectors, as clients of text-embeddings-inference ask for them."""
        body = await _body(request, EmbedBody)
        model = self._embedding_model(body.model)
        pooling = body.pooling or (model.pooling if body.layers == "mix" else "mean")
        options = EmbeddingOptions(_hashable(body.layers), pooling)
        answer = await self._embeddings(request, model, body.texts(), options, body.dimensions)
        vectors = [_normalized(vector) for vector in answer.vectors] if body.normalize else answer.vectors
        return _json(vectors_pieces(vectors))

    async def embed_all(self, request: Request) -> Response:
        """Word vectors, as clients of text-embeddings-inference ask for them; with words and offsets if asked for."""
        body = await _body(request, EmbedAllBody)
        model = self._embedding_model(body.model)
        options = EmbeddingOptions(_hashable(body.layers), None, body.return_words)
        answer = await self._embeddings(request, model, body.texts(), options)
        return _json(words_and_vectors_pieces(answer) if body.return_words else vectors_pieces(answer.vectors))

    async def _embeddings(
        self,
        request: Request,
        model: EmbeddingModel,
        texts: Sequence[Any],
        options: EmbeddingOptions,
        dimensions: int | None = None,
    ) -> Embeddings:
        try:
            size = model.request(options).vector_size
        except ValueError as error:  # the model does not have these layers, or this pooling
            raise invalid(in_one_line(error)) from error
        if dimensions is not None and dimensions != size:
            raise invalid(f"`dimensions` must be {size}, the size of this model's vectors, found {dimensions}.")
        return await self._compute(request, model, texts, options)

    # ---- tags and labels

    async def predict(self, request: Request) -> Response:
        """Tags of words, or labels of texts; for one text its answer, for a list of texts a list of answers."""
        body, _, answers = await self._predictions(request)
        return _json([json_of(answers[0] if body.is_single else answers)])

    async def _predictions(self, request: Request) -> tuple[PredictBody, ServedModel, list[list[dict[str, Any]]]]:
        body = await _body(request, PredictBody)
        model = self._choose(body.model, "predicts", TaggingModel, ClassifyingModel)
        foreign = {"top_k"} if isinstance(model, TaggingModel) else {"aggregation_strategy", "ignore_labels"}
        given = body.parameters.model_fields_set & foreign
        if body.parameters.top_k is None:
            given = given - {"top_k"}  # null asks for nothing
        if given:
            name = f"`parameters.{min(given)}`"
            raise invalid(f"{name} has no effect on {model.name}, a model of {model.task}: leave it out.")
        if isinstance(model, TaggingModel):
            tagged: list[TaggedText] = await self._compute(request, model, body.sentences())
            return body, model, [tagged_words(each, body.parameters) for each in tagged]
        texts = body.labelled_texts(pairs=bool(model.head.config.text_pairs))
        labelled = await self._compute(request, model, texts)
        return body, model, [label_scores(each, body.parameters.top_k) for each in labelled]

    async def first_model(self, request: Request) -> Response:
        """What the first model does, or the one that the query names, as Hugging Face's Inference API answers."""
        name = request.query_params.get("model")
        if isinstance(self._choose(name, "is served", EmbeddingModel, TaggingModel, ClassifyingModel), EmbeddingModel):
            return await self.embed(request)
        body, model, answers = await self._predictions(request)
        is_flat = body.is_single and isinstance(model, TaggingModel)  # there, the labels of one text are in two lists
        return _json([json_of(answers[0] if is_flat else answers)])

    # ---- information

    async def list_models(self) -> Response:
        """The models, as OpenAI lists them."""
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "elmo-hf"} for name in self.models]
        return _json([json_of({"object": "list", "data": models})])

    async def info(self) -> Response:
        """The models with their sizes or labels, and the limits of a request."""
        limits = self.limits
        content = {
            "version": __version__,
            "models": [{"id": name, "task": model.task, **model.info()} for name, model in self.models.items()],
            "max_body_bytes": limits.body_bytes,
            "max_texts": limits.texts,
            "max_words": limits.words,
            "max_request_words": limits.request_words,
        }
        return _json([json_of(content)])

    async def health(self) -> Response:
        """Answers as soon as the server is up."""
        return _json([b'{"status":"ok"}'])

    async def prometheus(self) -> Response:
        """Metrics in Prometheus' text format."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    # ---- models

    def _embedding_model(self, name: str | None) -> EmbeddingModel:
        return self._choose(name, "embeds", EmbeddingModel)

    def _choose(self, name: str | None, verb: str, *kinds: type[Any]) -> Any:
        """The model with a name, or the first one of these kinds, which `verb` describes."""
        if name is not None and name not in self.models:
            names = ", ".join(self.models)
            message = f"There is no model {name!r:.100}{did_you_mean(name, self.models)}; there is {names}."
            raise ApiError(404, "model_not_found", message)
        fitting = {model.name: model for model in self.models.values() if isinstance(model, kinds)}
        if not fitting or (name is not None and name not in fitting):
            raise invalid(f"`model` must be one that {verb}: {', '.join(fitting) or 'this server has none'}.")
        return next(iter(fitting.values())) if name is None else fitting[name]

    async def _compute(self, request: Request, model: ServedModel, texts: Sequence[Any], options: Any = None) -> Any:
        """What the model makes of the texts, through its queue. The work is dropped if the client goes away."""
        if not texts:
            raise invalid("There are no texts: send one or more.")
        if len(texts) > self.limits.texts:
            raise too_large(f"The request has {len(texts):,} texts, and it may have {self.limits.texts:,}.")
        job = Job(texts, options)
        self.queues[model.name].submit(job)
        gone = asyncio.ensure_future(request.receive())  # the next message is that the client has gone
        try:
            await asyncio.wait({job.answer, gone}, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if job.answer.done():
                return job.answer.result()
            raise DisconnectedError if gone.done() else timed_out(self.limits.seconds)
        finally:
            gone.cancel()
            job.answer.cancel()


async def _body(request: Request, kind: type[Body]) -> Body:
    """The body of a request. The model may also be named in the query, for clients that cannot add fields."""
    body = parse_body(kind, await request.body())
    if body.model is None and request.scope["query_string"]:
        body.model = request.query_params.get("model")
    return body


def _hashable(layers: Any) -> Any:
    return tuple(layers) if isinstance(layers, list) else layers


def _normalized(vector: np.ndarray) -> np.ndarray:
    """Of length 1; zeros stay zeros. `(…, size)`"""
    length = np.linalg.norm(vector, axis=-1, keepdims=True)
    return vector / np.where(length > 0, length, 1)


def _json(pieces: Iterable[bytes]) -> Response:
    """An answer: as a whole if it is short, otherwise in pieces."""
    pieces = iter(pieces)
    start = _next_pieces(pieces)
    if len(start) < PIECE_BYTES:
        return Response(start, media_type=JSON)

    async def stream() -> AsyncIterator[bytes]:
        piece = start
        while piece:
            yield piece
            await asyncio.sleep(0)
            piece = _next_pieces(pieces)

    return StreamingResponse(stream(), media_type=JSON)


def _next_pieces(pieces: Iterator[bytes]) -> bytes:
    """The next pieces, together `PIECE_BYTES` or a little more; less at the end."""
    parts, size = [], 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            break
    return b"".join(parts)


__all__ = ["Endpoints"]
