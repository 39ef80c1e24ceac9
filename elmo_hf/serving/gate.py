"""
What every request passes before the routes see it: the API key, the limit and the time of its body, and metrics. Routes
get the whole body at once.
"""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .api_errors import ApiError, shutting_down, too_large
from .serving_limits import ServingLimits
from .serving_metrics import ServingMetrics

OPEN_ROUTES = frozenset({"/health"})  # without a key
DRAINED_BODIES = 8  # so many times the limit of a body is read before it is refused: many clients send all, then listen


class DisconnectedError(Exception):
    """The client has gone."""


class Gate:
    """
    An ASGI application around another one.

    Args:
        app: The routes.
        routes: Their paths; metrics count all others as one.
        limits: The limits of a body, and its time.
        metrics: Counts the requests.
        api_key: The key that requests must carry as `Authorization: Bearer KEY`. Default: none is needed.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Collection[str],
        limits: ServingLimits,
        metrics: ServingMetrics,
        api_key: str | None = None,
    ):
        self._app, self._routes, self._limits, self._metrics = app, frozenset(routes), limits, metrics
        self._digest = None if api_key is None else hashlib.sha256(api_key.encode()).digest()
        self.is_open = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send):
        """As ASGI says."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        route = scope["path"] if scope["path"] in self._routes else "other"

        async def send_counted(message: Message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check_key(scope)
            body = await self._read(scope, receive)
            if not self.is_open:
                raise shutting_down()
            await self._app(scope, _replayed(body, receive), send_counted)
        except ApiError as error:
            # What is left of the body is not read: the connection ends.
            await send_error(send_counted, error, {"Connection": "close"})
        except DisconnectedError:
            status = 499  # as nginx counts them
        finally:
            self._metrics.request_done(route, status, time.perf_counter() - start)

    def _check_key(self, scope: Scope):
        if self._digest is None or scope["path"] in OPEN_ROUTES:
            return
        authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = authorization.partition(b" ")
        # Digests have one length, and are compared in constant time.
        matches = hmac.compare_digest(hashlib.sha256(key.strip()).digest(), self._digest)
        if scheme.lower() != b"bearer" or not matches:
            raise ApiError(401, "wrong_key", "The API key is missing or wrong.", {"WWW-Authenticate": "Bearer"})

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, within its limits."""
        limit = self._limits.body_bytes
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        seconds = self._limits.seconds
        try:
            async with asyncio.timeout(seconds):
                body = await _read_body(receive, limit, is_too_long=int(length) > limit)
        except TimeoutError:
            raise ApiError(408, "slow_request", f"The request was not complete within {seconds:g} seconds.") from None
        if body is None:
            raise too_large(f"The body is too large: it may have {limit:,} bytes.")
        return body


async def _read_body(receive: Receive, limit: int, is_too_long: bool) -> bytes | None:
    """A body; `None` if it is too long: then at most `DRAINED_BODIES * limit` bytes are read, and none are kept."""
    parts, size, has_more = [], 0, True
    while has_more and size <= (DRAINED_BODIES * limit if is_too_long else limit):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        parts.append(message.get("body", b""))
        size, has_more = size + len(parts[-1]), message.get("more_body", False)
        is_too_long = is_too_long or size > limit
        if is_too_long:
            parts.clear()
    return None if is_too_long else b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body in one message, and then what else comes."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def send_error(send: Send, error: ApiError, headers: dict[str, str] | None = None):
    """Answers with an error."""
    body = error.body()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))} | error.headers | (headers or {})
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


__all__ = ["DRAINED_BODIES", "DisconnectedError", "Gate", "send_error"]
