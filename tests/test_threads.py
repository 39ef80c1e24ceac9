"""Calls from several threads: the same vectors, no more threads at work than cores, no deadlock."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from elmo_hf import recurrence_elmo
from elmo_hf.threads_elmo import Cores, available_cores
from tests.models import random_words, tiny_model


@pytest.mark.parametrize("smallest", [0, 2**20], ids=["packed", "dense"])
def test_eight_threads_get_the_vectors_that_one_gets(monkeypatch, smallest):
    monkeypatch.setattr(recurrence_elmo, "MIN_PACKED_SIZE", smallest)
    model = tiny_model(cell_size=32, projection_size=16)
    char_ids = [random_words(np.random.default_rng(seed), 1 + seed % 3, 5) for seed in range(24)]

    def run(ids: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return model(char_ids=ids).last_hidden_state

    expected = [run(ids) for ids in char_ids]
    model.pack_weights()  # packed anew, by all threads at once
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(run, char_ids))
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize(("cores", "at_once"), [(1, 1), (2, 1), (4, 2), (7, 3)])
def test_as_many_calls_run_as_have_cores_for_their_threads(monkeypatch, cores, at_once):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    share, inside, most, lock = Cores(cores), 0, 0, threading.Lock()

    def call(_):
        nonlocal inside, most
        with share.taken():
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(16)))
    assert most == at_once


def test_a_busy_thread_does_not_keep_the_others_waiting():
    share, calls, end = Cores(1), [0] * 4, time.monotonic() + 0.5

    def loop(number: int):
        while time.monotonic() < end:
            with share.taken():
                time.sleep(0.005)
            calls[number] += 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(loop, range(4)))
    assert min(calls) > max(calls) / 2


def test_a_call_within_a_call_does_not_wait_for_itself():
    share = Cores(1)
    with share.taken(), share.taken():
        pass
    with share.taken():  # and all was given back
        assert share._taken == torch.get_num_threads()
    assert share._taken == 0


def test_a_call_that_fails_gives_its_cores_back():
    share = Cores(1)
    with pytest.raises(RuntimeError), share.taken():
        raise RuntimeError
    assert share._taken == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_does_not_wait_for_calls_of_its_parent():
    share = Cores(1)
    with share.taken():
        child = os.fork()
        if not child:  # only what is tested: pytest is not for children
            os._exit(0 if share._taken == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_processors_that_share_a_core_count_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 4, 6}, raising=False)
    for number, neighbours in {0: "0,4", 1: "1,5", 4: "0,4", 6: "2,6"}.items():
        (tmp_path / str(number)).write_text(neighbours)
    assert available_cores(f"{tmp_path}/{{}}") == 3
    assert available_cores(f"{tmp_path}/missing-{{}}") == 4
