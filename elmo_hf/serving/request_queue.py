"""The queue of a model: bounded, worked off by one thread, which takes what waits as one batch."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .api_errors import queue_full, shutting_down

CHARACTERS_PER_WORD = 4  # in the estimate of a text's words: few, so that the estimate is rather too high


def estimated_words(text: Any) -> int:
    """About how many tokens a text, a list of words or a tuple of texts has, boundaries included."""
    if isinstance(text, str):
        return len(text) // CHARACTERS_PER_WORD + 2
    if isinstance(text, tuple):
        return sum(estimated_words(part) for part in text if part is not None)
    return max(len(text), sum(map(len, text)) // CHARACTERS_PER_WORD) + 2


class Job:
    """
    What one request wants of a model.

    Attributes:
        texts: The texts.
        options: The rest; jobs with equal options may be computed together.
        size (`int`): The estimated words.
        answer: The future of the result, of the event loop that submitted the job. The thread skips a job whose future
            was cancelled.
    """

    def __init__(self, texts: Sequence[Any], options: Any = None):
        self.texts, self.options = texts, options
        self.size = sum(map(estimated_words, texts))
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self.loop.create_future()


class Worker(Protocol):
    """What a queue calls in its thread."""

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        """The result of each job, or an exception in its place. May raise one, for all of them."""
        ...


class RequestQueue:
    """
    Args:
        worker: Computes the results.
        name: The name of the thread.
        most_waiting: The estimated words that may wait. If nothing waits, a job of any size is taken.
        most_at_once: The estimated words that are computed together (one job at least).
        observe: Called in the thread with the jobs of each batch, before they are computed.
    """

    def __init__(
        self,
        worker: Worker,
        name: str,
        most_waiting: int,
        most_at_once: int,
        observe: Callable[[Sequence[Job]], object] = lambda jobs: None,
    ):
        self._worker, self._most_waiting, self._most_at_once = worker, most_waiting, most_at_once
        self._observe = observe
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._size = 0
        self._is_open = True
        self._thread = threading.Thread(target=self._work, name=f"elmo-hf {name}", daemon=True)
        self._thread.start()

    def submit(self, job: Job):
        """Adds a job. Raises an [`~elmo_hf.serving.api_errors.ApiError`] if the queue is full or closed."""
        with self._changed:
            if not self._is_open:
                raise shutting_down()
            if self._waiting and self._size + job.size > self._most_waiting:
                raise queue_full()
            self._waiting.append(job)
            self._size += job.size
            self._changed.notify()

    @property
    def waiting_words(self) -> int:
        """The estimated words that wait."""
        return self._size

    def close(self):
        """Takes no more jobs. Those that wait are still computed."""
        with self._changed:
            self._is_open = False
            self._changed.notify()

    def join(self, seconds: float | None = None):
        """Waits until a closed queue is empty."""
        self._thread.join(seconds)

    def _work(self):
        while jobs := self._next_jobs():
            jobs = [job for job in jobs if not job.answer.cancelled()]
            if jobs:
                self._observe(jobs)
                _deliver(jobs, _results(self._worker, jobs))

    def _next_jobs(self) -> list[Job]:
        """Waits for jobs, and takes the first ones; none once the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._is_open)
            jobs, size = [], 0
            while self._waiting and (not jobs or size + self._waiting[0].size <= self._most_at_once):
                jobs.append(self._waiting.popleft())
                size += jobs[-1].size
            self._size -= size
            return jobs


def _results(worker: Worker, jobs: Sequence[Job]) -> list[Any]:
    """The results of jobs, or exceptions. If a batch fails, its jobs are computed one by one, as one is to blame."""
    try:
        return worker.run(jobs)
    except Exception as error:
        return [error] if len(jobs) == 1 else [result for job in jobs for result in _results(worker, [job])]


def _deliver(jobs: Sequence[Job], results: Sequence[Any]):
    """Hands the results to the event loops, with one call for each of them."""
    for loop in {job.loop for job in jobs}:
        pairs = [(job.answer, result) for job, result in zip(jobs, results, strict=True) if job.loop is loop]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: Sequence[tuple[asyncio.Future, Any]]):
    for answer, result in pairs:
        if answer.done():  # cancelled in the meantime
            continue
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)


__all__ = ["Job", "RequestQueue", "Worker", "estimated_words"]
