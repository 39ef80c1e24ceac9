"""The server as a FastAPI application."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from .._version import __version__
from .api_errors import ApiError
from .endpoints import JSON, Endpoints
from .gate import Gate
from .request_bodies import EmbedAllBody, EmbedBody, OpenAIEmbeddingsBody, PredictBody, RequestBody
from .served_models import ServedModel
from .serving_limits import ServingLimits
from .serving_metrics import ServingMetrics


def create_app(models: Sequence[ServedModel], limits: ServingLimits | None = None, api_key: str | None = None) -> Gate:
    """
    The server as an ASGI application. [`serve`] runs it, with limits for connections in addition.

    Args:
        models: What [`load_models`] gives.
        limits: The limits. Default: those of [`ServingLimits`].
        api_key: The key that requests must carry. Default: none is needed.
    """
    limits, metrics = limits or ServingLimits(), ServingMetrics()
    endpoints = Endpoints(models, limits, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        yield
        for queue in endpoints.queues.values():
            queue.close()
        for queue in endpoints.queues.values():
            await asyncio.to_thread(queue.join, limits.seconds)

    app = FastAPI(title="elmo-hf", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    for error, handler in ((ApiError, _api_error), (HTTPException, _http_error), (Exception, _unexpected_error)):
        app.add_exception_handler(error, handler)
    for path, endpoint, body in (
        ("/v1/embeddings", endpoints.openai_embeddings, OpenAIEmbeddingsBody),
        ("/embed", endpoints.embed, EmbedBody),
        ("/embed_all", endpoints.embed_all, EmbedAllBody),
        ("/predict", endpoints.predict, PredictBody),
        ("/", endpoints.first_model, RequestBody),
    ):
        # The endpoints parse the bytes of the body in one step, which costs less than FastAPI's parameters.
        schema = {"required": True, "content": {JSON: {"schema": body.model_json_schema()}}}
        app.post(path, openapi_extra={"requestBody": schema})(endpoint)
    for path, endpoint in (
        ("/v1/models", endpoints.list_models),
        ("/info", endpoints.info),
        ("/health", endpoints.health),
        ("/metrics", endpoints.prometheus),
    ):
        app.get(path)(endpoint)
    return Gate(app, [getattr(route, "path", "") for route in app.routes], limits, metrics, api_key)


def _answer(error: ApiError) -> Response:
    return Response(error.body(), error.status, error.headers, JSON)


async def _api_error(request: Request, error: Any) -> Response:
    return _answer(error)


async def _http_error(request: Request, error: Any) -> Response:
    """A path or a method that does not exist."""
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    message = f"{request.method} {request.url.path:.100}: {error.detail}."
    return _answer(ApiError(error.status_code, code, message, error.headers))


async def _unexpected_error(request: Request, error: Any) -> Response:
    """A bug. Starlette raises it again after the answer, and uvicorn logs it."""
    return _answer(ApiError(500, "internal_error", "The server failed at this request; its log says why."))


__all__ = ["create_app"]
