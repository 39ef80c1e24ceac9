"""Errors as clients see them: one JSON shape for all of them."""

import json
from collections.abc import Mapping


class ApiError(Exception):
    """
    What is wrong with a request, or why it cannot be answered.

    Args:
        status: The HTTP status.
        code: A name for programs, such as `"queue_full"`.
        message: A sentence for people.
        headers: Further headers of the answer.
    """

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})

    def body(self) -> bytes:
        """
        The JSON of the answer: `{"error": {"message", "type", "code"}}`, as OpenAI's clients read it. The type is
        `"invalid_request_error"` for statuses below 500, otherwise `"server_error"`.
        """
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "code": self.code}
        return json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")


def too_large(message: str) -> ApiError:
    """A request beyond a limit."""
    return ApiError(413, "too_large", message)


def invalid(message: str) -> ApiError:
    """A request that is JSON, but not of the expected form."""
    return ApiError(422, "invalid_request", message)


def queue_full() -> ApiError:
    """Too much work waits for the model."""
    return ApiError(429, "queue_full", "Too much work waits for this model: try again later.", {"Retry-After": "1"})


def shutting_down() -> ApiError:
    """The server finishes what it has begun, and takes no more."""
    return ApiError(503, "shutting_down", "The server is shutting down.", {"Retry-After": "5", "Connection": "close"})


def timed_out(seconds: float) -> ApiError:
    """The answer took too long."""
    return ApiError(504, "timeout", f"There was no answer within {seconds:g} seconds: send fewer texts, or try later.")


__all__ = ["ApiError", "invalid", "queue_full", "shutting_down", "timed_out", "too_large"]
