"""The queue of a model: order, batches, bounds, cancelled jobs and errors."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.serving.api_errors import ApiError
from elmo_hf.serving.request_queue import Job, RequestQueue, estimated_words
from tests.serving.running import PATIENCE


class Upper:
    """Capital letters, once it is let go; refuses some texts."""

    def __init__(self):
        self.let_go, self.is_busy = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []

    def run(self, jobs):
        self.batches.append([text for job in jobs for text in job.texts])
        self.is_busy.set()
        assert self.let_go.wait(PATIENCE)
        if any("bad" in text for job in jobs for text in job.texts):
            raise ValueError("bad")
        return [[text.upper() for text in job.texts] for job in jobs]


async def queue_held_by_a_job(worker: Upper, **limits) -> RequestQueue:
    """A queue whose worker has taken a job and waits."""
    queue = RequestQueue(worker, "test", **({"most_waiting": 1000, "most_at_once": 100} | limits))
    queue.submit(Job(["first"]))
    await asyncio.to_thread(worker.is_busy.wait, PATIENCE)
    return queue


def submitted(queue: RequestQueue, *texts: str) -> Job:
    job = Job(texts)
    queue.submit(job)
    return job


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    most_at_once=st.integers(1, 60),
)
def test_jobs_are_answered_in_their_order_in_batches_within_the_budget(sizes, most_at_once):
    async def run():
        worker = Upper()
        queue = await queue_held_by_a_job(worker, most_waiting=10_000, most_at_once=most_at_once)
        jobs = [submitted(queue, f"{place} " + "a" * size) for place, size in enumerate(sizes)]
        worker.let_go.set()
        answers = await asyncio.gather(*(job.answer for job in jobs))
        queue.close()
        queue.join(PATIENCE)
        return worker.batches, [job.texts[0] for job in jobs], answers

    batches, texts, answers = asyncio.run(run())
    assert answers == [[text.upper()] for text in texts]
    assert [text for batch in batches[1:] for text in batch] == texts
    for batch in batches[1:]:
        assert len(batch) == 1 or sum(map(estimated_words, batch)) <= most_at_once


def test_a_full_queue_refuses_and_an_empty_one_takes_a_job_of_any_size():
    async def run():
        worker = Upper()
        queue = await queue_held_by_a_job(worker, most_waiting=20, most_at_once=10)
        large = submitted(queue, "a" * 400)
        with pytest.raises(ApiError) as refused:
            submitted(queue, "b")
        worker.let_go.set()
        await large.answer
        after = submitted(queue, "c")
        answer = await after.answer
        queue.close()
        return refused.value, answer

    refused, answer = asyncio.run(run())
    assert (refused.status, refused.code) == (429, "queue_full")
    assert int(refused.headers["Retry-After"]) > 0
    assert answer == ["C"]


def test_a_cancelled_job_is_not_computed():
    async def run():
        worker = Upper()
        queue = await queue_held_by_a_job(worker)
        cancelled, kept = submitted(queue, "cancelled"), submitted(queue, "kept")
        cancelled.answer.cancel()
        worker.let_go.set()
        assert await kept.answer == ["KEPT"]
        queue.close()
        return worker.batches

    assert asyncio.run(run()) == [["first"], ["kept"]]


def test_a_job_that_fails_does_not_fail_the_others_of_its_batch():
    async def run():
        worker = Upper()
        queue = await queue_held_by_a_job(worker)
        jobs = [submitted(queue, text) for text in ("one", "bad", "two")]
        worker.let_go.set()
        answers = await asyncio.gather(*(job.answer for job in jobs), return_exceptions=True)
        queue.close()
        return worker.batches, answers

    batches, (one, bad, two) = asyncio.run(run())
    assert (one, two) == (["ONE"], ["TWO"])
    assert isinstance(bad, ValueError)
    assert batches == [["first"], ["one", "bad", "two"], ["one"], ["bad"], ["two"]]


def test_a_closed_queue_computes_what_waits_and_takes_no_more():
    async def run():
        worker = Upper()
        queue = await queue_held_by_a_job(worker)
        waiting = submitted(queue, "waiting")
        queue.close()
        with pytest.raises(ApiError) as refused:
            submitted(queue, "late")
        worker.let_go.set()
        answer = await waiting.answer
        await asyncio.to_thread(queue.join, PATIENCE)
        return refused.value, answer, threading.enumerate()

    refused, answer, threads = asyncio.run(run())
    assert (refused.status, refused.code) == (503, "shutting_down")
    assert answer == ["WAITING"]
    assert "elmo-hf test" not in [thread.name for thread in threads]


def test_a_loop_that_has_ended_does_not_stop_the_thread():
    worker = Upper()

    async def begin():
        return await queue_held_by_a_job(worker)

    async def ask(queue):
        job = submitted(queue, "still here")
        return await job.answer

    queue = asyncio.run(begin())
    worker.let_go.set()
    assert asyncio.run(ask(queue)) == ["STILL HERE"]
    queue.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [("", 2), ("a" * 40, 12), (["a"] * 5, 7), (["a" * 40], 12), (("a" * 8, None), 4), (("a" * 8, "b" * 8, None), 8)],
)
def test_the_estimate_of_words_has_the_boundaries(text, words):
    assert estimated_words(text) == words
