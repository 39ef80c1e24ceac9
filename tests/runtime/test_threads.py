"""Calls from several threads: the same vectors, no more threads at work than cores, no deadlock."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.finetuning import LabelledText, prediction
from elmo_hf.modeling import lstm_elmo
from elmo_hf.runtime.threads import CpuSlots, available_cores
from tests.models import TINY, random_words, tiny_model


@pytest.mark.parametrize("smallest", [0, 2**20], ids=["packed", "dense"])
def test_eight_threads_get_the_vectors_that_one_gets(monkeypatch, smallest):
    monkeypatch.setattr(lstm_elmo, "LARGE_MATRIX", smallest)
    model = tiny_model(cell_size=32, projection_size=16)
    char_ids = [random_words(np.random.default_rng(seed), 1 + seed % 3, 5) for seed in range(24)]

    def run(ids: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return model(char_ids=ids).last_hidden_state

    expected = [run(ids) for ids in char_ids]
    model.pack_weights()  # packed anew, by all threads at once
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(run, char_ids))
    assert all(map(torch.equal, vectors, expected))


class Caller(threading.Thread):
    """Takes its slots, says so, and holds them until it is told to leave."""

    def __init__(self, slots: CpuSlots, entered: list[str], name: str, leave: threading.Event):
        super().__init__(name=name, daemon=True)
        self._slots, self._entered, self._leave = slots, entered, leave

    def run(self):
        with self._slots.acquire():
            self._entered.append(self.name)
            self._leave.wait()


def wait_until(condition):
    """A condition that never holds fails the test, however slow the machine is."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def queue_length(slots: CpuSlots) -> int:
    """The calls that wait for slots now."""
    with slots._changed:
        return len(slots._waiting)


@pytest.mark.parametrize(("cores", "at_once"), [(1, 1), (2, 1), (4, 2), (7, 3)])
def test_as_many_calls_run_as_have_cores_for_their_threads(monkeypatch, cores, at_once):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    slots, entered, leave = CpuSlots(cores), [], threading.Event()
    callers = [Caller(slots, entered, str(place), leave) for place in range(at_once + 1)]
    for caller in callers[:-1]:
        caller.start()
    wait_until(lambda: len(entered) == at_once)
    callers[-1].start()
    wait_until(lambda: queue_length(slots) == 1)
    assert len(entered) == at_once
    leave.set()
    for caller in callers:
        caller.join()
    assert len(entered) == at_once + 1


def test_a_busy_thread_does_not_keep_the_others_waiting():
    slots, entered, leave = CpuSlots(1), [], threading.Event()
    leave.set()
    with slots.acquire():
        callers = [Caller(slots, entered, str(place), leave) for place in range(3)]
        for place, caller in enumerate(callers):
            caller.start()
            wait_until(lambda place=place: queue_length(slots) == place + 1)
    with slots.acquire():  # at once again, but behind those who came before
        entered.append("busy")
    assert entered == ["0", "1", "2", "busy"]


def test_a_call_within_a_call_does_not_wait_for_itself():
    share = CpuSlots(1)
    with share.acquire(), share.acquire():
        pass
    with share.acquire():  # and all was given back
        assert share._taken == torch.get_num_threads()
    assert share._taken == 0


def test_a_call_that_fails_gives_its_cores_back():
    share = CpuSlots(1)
    with pytest.raises(RuntimeError), share.acquire():
        raise RuntimeError
    assert share._taken == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_does_not_wait_for_calls_of_its_parent():
    share = CpuSlots(1)
    with share.acquire():
        child = os.fork()
        if not child:  # only what is tested: pytest is not for children
            os._exit(0 if share._taken == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_processors_that_share_a_core_count_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 4, 6}, raising=False)
    for cpu, neighbours in {0: "0,4", 1: "1,5", 4: "0,4", 6: "2,6"}.items():
        (tmp_path / str(cpu)).write_text(neighbours)
    assert available_cores(f"{tmp_path}/{{}}") == 3
    assert available_cores(f"{tmp_path}/missing-{{}}") == 4


def test_heads_wait_for_cpu_slots_as_embedders_do(monkeypatch):
    taken = []
    monkeypatch.setattr(prediction, "cpu_slots", lambda device: taken.append(device.type) or nullcontext())
    heads = ElmoForTokenClassification, ElmoForSequenceClassification
    tagger, classifier = (head(ElmoConfig(**TINY, task_layer_size=3)).eval() for head in heads)
    list(prediction.predict_tags(tagger, ElmoTokenizer(), [["a", "bank"]]))
    list(prediction.predict_labels(classifier, ElmoTokenizer(), [LabelledText("a bank")]))
    assert taken == ["cpu", "cpu"]
