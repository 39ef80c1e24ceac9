"""Requests and answers, without the network, and which function answers which request."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub.store import Refusal, Store, Token


@dataclass
class Request:
    """
    A request that has arrived.

    Attributes:
        endpoint, storage: Where the Hub and its storage of large objects are reached.
        target: Path and query as they were sent.
        fields: What the route's path left open, such as `repository`.
    """

    store: Store
    endpoint: str
    storage: str
    method: str
    target: str
    headers: Message
    body: bytes
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def token(self) -> Token | None:
        """Who asks; none is fine, a wrong one is not."""
        sent = self.headers.get("Authorization")
        if sent is None:
            return None
        token = self.store.tokens.get(sent.removeprefix("Bearer "))
        if token is None:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return token

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query).items()}

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """What goes back."""

    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


def json_answer(content: Any, headers: Mapping[str, str] | None = None, status: int = 200) -> Answer:
    """An answer in the form of most."""
    return Answer(json.dumps(content).encode(), {"Content-Type": "application/json", **(headers or {})}, status)


Route = Callable[[Request], Answer]
_routes: list[tuple[str, re.Pattern[str], Route]] = []
_FIELD_PATTERNS = {"repository": "(?:spaces/)?[^/]+/[^/]+", "path": ".+"}


def route(methods: str, path: str) -> Callable[[Route], Route]:
    """
    Has a function answer requests.

    Args:
        methods: `GET HEAD`, say.
        path: A regular expression with the names of fields in braces. Each field is one part of the path, except that
            a `repository` is two (three for a Space) and a `path` is all that follows. What the client quotes within a
            part, as in `refs%2Fpr%2F1`, is unquoted.
    """
    pattern = re.sub(r"\{(\w+)\}", lambda name: f"(?P<{name[1]}>{_FIELD_PATTERNS.get(name[1], '[^/]+')})", path)

    def register(function: Route) -> Route:
        _routes.extend((method, re.compile(pattern), function) for method in methods.split())
        return function

    return register


def answer(request: Request) -> Answer:
    """The answer to a request, which may be that it is refused."""
    path = urlsplit(request.target).path
    try:
        for method, pattern, function in _routes:
            if method == request.method and (match := pattern.fullmatch(path)):
                request.fields = {name: unquote(value or "") for name, value in match.groupdict().items()}
                return function(request)
        raise Refusal(404, f"Nothing here answers {request.method} {path}")
    except Refusal as refusal:
        return refused(refusal)


def refused(refusal: Refusal) -> Answer:
    """An error in the Hub's form."""
    headers = {"X-Error-Message": refusal.message.encode("ascii", "backslashreplace").decode(), **refusal.headers}
    if refusal.code:
        headers["X-Error-Code"] = refusal.code
    return json_answer({"error": refusal.message, **refusal.body}, headers, refusal.status)
