"""Connections of uvicorn with limits on what slow clients hold: the head of a request, and unread answers."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .api_errors import ApiError
from .serving_limits import ServingLimits


class LimitedConnection(H11Protocol):
    """
    A connection that is cut if the head of a request, or the client's reading of an answer, takes too long, or if there
    are too many. The body of a request is limited by [`Gate`]. What is no HTTP is answered with the JSON of all errors.
    """

    limits: ServingLimits  # of a subclass, since uvicorn makes the instances

    def connection_made(self, transport: asyncio.Transport):
        """Begins the time of the first head."""
        super().connection_made(transport)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._head_timer = self.loop.call_later(self.limits.header_seconds, transport.abort)

    def data_received(self, data: bytes):
        """Begins the time of a head with its first byte, and ends it with its last."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_head_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.limits.header_seconds, self.transport.abort)

    def pause_writing(self):
        """The client reads more slowly than the answer is written."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.seconds, self.transport.abort)

    def resume_writing(self):
        """The client has read."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def timeout_keep_alive_handler(self):
        """Closes an idle connection; one with an answer that nobody reads would stay open."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None):
        """Stops the times."""
        self._stop_head_timer()
        super().connection_lost(exc)
        if self._write_timer is not None:
            self._write_timer.cancel()

    def send_400_response(self, msg: str):
        """Answers what is no HTTP."""
        error = ApiError(400, "invalid_http", msg)
        body = error.body()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        events: list[Any] = [
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(b"".join(filter(None, map(self.conn.send, events))))
        self.transport.close()

    def _stop_head_timer(self):
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


__all__ = ["LimitedConnection"]
