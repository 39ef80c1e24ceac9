"""What Prometheus reads from `/metrics`."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .request_queue import Job

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class ServingMetrics:
    """The counters of one server."""

    def __init__(self):
        self._registry = CollectorRegistry()
        self._requests = Counter("elmo_hf_requests", "Requests", ["route", "status"], registry=self._registry)
        self._seconds = Histogram(
            "elmo_hf_request_seconds", "Seconds per request", ["route"], buckets=SECONDS, registry=self._registry
        )
        self._texts = Counter("elmo_hf_texts", "Texts computed", ["model"], registry=self._registry)
        self._batches = Histogram(
            "elmo_hf_batch_texts", "Texts per batch", ["model"], buckets=SIZES, registry=self._registry
        )
        self._waiting = Gauge(
            "elmo_hf_waiting_words", "Words in the queue, estimated", ["model"], registry=self._registry
        )

    def request_done(self, route: str, status: int, seconds: float):
        """Counts a request. `route` must be one of a few."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch_observer(self, model: str) -> Callable[[Sequence[Job]], None]:
        """Counts the batches of a model; for [`RequestQueue`]."""
        texts, batches = self._texts.labels(model), self._batches.labels(model)

        def observe(jobs: Sequence[Job]):
            count = sum(len(job.texts) for job in jobs)
            texts.inc(count)
            batches.observe(count)

        return observe

    def watch_queue(self, model: str, waiting_words: Callable[[], float]):
        """Reports what waits for a model."""
        self._waiting.labels(model).set_function(waiting_words)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


__all__ = ["ServingMetrics"]
