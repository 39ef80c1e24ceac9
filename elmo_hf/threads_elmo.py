# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""Calls from several threads at once, as in a server: no more of them run than the machine has cores for."""

import os
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import torch


class Cores:
    """
    Hands the machine's cores out to calls, to the first that comes first. A call uses `torch.get_num_threads()` of
    them; where that is all of them, calls run one after the other, since side by side their threads would wait for each
    other at every time step. A server that wants several calls at once says so with `torch.set_num_threads`, and has as
    many as fit.

    Args:
        number (`int`, *optional*): How many there are. Default: those that this process may run on.
    """

    def __init__(self, number: int | None = None):
        self._number = number or available_cores()
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start)  # calls of other threads do not go on in the child

    def _start(self):
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._taken = 0
        self._inside = threading.local()

    @contextmanager
    def taken(self) -> Generator[None]:
        """Within it the call has its cores. A call within a call of the same thread shares them."""
        if getattr(self._inside, "call", False):
            yield
            return
        wanted = torch.get_num_threads()
        self._wait_for(wanted)
        self._inside.call = True
        try:
            yield
        finally:
            self._inside.call = False
            with self._changed:
                self._taken -= wanted
                self._changed.notify_all()

    def _wait_for(self, wanted: int):
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(
                    lambda: self._waiting[0] is ticket and (not self._taken or self._taken + wanted <= self._number)
                )
                self._taken += wanted
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()


def available_cores(topology: str = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list") -> int:
    """
    Those that this process may run on. Processors that share a core count as one, where the system tells (Linux):
    matrix products leave no room in it for a second one.

    Args:
        topology: The file that has a processor's neighbours, by its number.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    processors = os.sched_getaffinity(0)
    try:
        return len({Path(topology.format(number)).read_text() for number in processors})
    except OSError:
        return len(processors)


CORES = Cores()

__all__ = ["CORES", "Cores", "available_cores"]
