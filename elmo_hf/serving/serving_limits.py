"""The limits of a server: what one request may ask for, what may wait, and for how long."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class ServingLimits:
    """
    Args:
        body_bytes (`int`): Bytes of a request's body. More is answered with status 413, as are too many texts or words.
        texts (`int`): Texts per request.
        words (`int`): Words per text.
        request_words (`int`): Words per request, all its texts together. If an answer has several layers, words count
            once per layer.
        queue_words (`int`): Words that wait for each model, estimated from the length of the texts. A request beyond
            them is answered with status 429. A model without waiting requests takes any.
        batch_words (`int`): Words that a model takes from its queue at once, estimated in the same way.
        seconds (`float`): Time for each of: receiving a request, waiting for its answer, and sending it.
        header_seconds (`float`): Time for the first lines of a request, and of an idle connection.
        connections (`int`): Open connections. Further ones are closed.
    """

    body_bytes: int = 1 << 20
    texts: int = 512
    words: int = 4096
    request_words: int = 16_384
    queue_words: int = 65_536
    batch_words: int = 4096
    seconds: float = 30.0
    header_seconds: float = 10.0
    connections: int = 512

    def __post_init__(self):
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"`{field.name}` must be above 0, found {getattr(self, field.name)!r}.")


__all__ = ["ServingLimits"]
