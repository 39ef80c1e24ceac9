"""
CPU slots: concurrent calls, as a server makes them, never use more threads in total than the machine has cores.

Two matrix products that each use all cores are slower side by side than one after the other, because their threads wait
for each other at every time step of an LSTM.
"""

import os
import threading
from collections import deque
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch


class CpuSlots:
    """
    Hands out cores to calls, first come, first served. A call takes `torch.get_num_threads()` slots; if that is all of
    them, calls run one at a time. A server that wants several calls at once lowers `torch.set_num_threads`.

    Args:
        cores (`int`, *optional*): Number of slots. Default: the cores that this process may use.
    """

    def __init__(self, cores: int | None = None):
        self._cores = cores or available_cores()
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start)  # calls of other threads do not go on in the child

    def _start(self):
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._taken = 0
        self._inside = threading.local()

    @contextmanager
    def acquire(self) -> Generator[None]:
        """Waits for free slots and holds them inside the `with` block. Nested calls of one thread share them."""
        if getattr(self._inside, "call", False):
            yield
            return
        slots = torch.get_num_threads()
        self._wait_for(slots)
        self._inside.call = True
        try:
            yield
        finally:
            self._inside.call = False
            with self._changed:
                self._taken -= slots
                self._changed.notify_all()

    def _wait_for(self, slots: int):
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(
                    lambda: self._waiting[0] is ticket and (not self._taken or self._taken + slots <= self._cores)
                )
                self._taken += slots
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()


def available_cores(topology: str = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list") -> int:
    """
    The number of physical cores that this process may use. Hyper-threads of one core count once (known on Linux only):
    a matrix product leaves no room for a second one on the same core.

    Args:
        topology: Path pattern of the file that lists the hyper-threads beside processor `{}`.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    processors = os.sched_getaffinity(0)
    try:
        return len({Path(topology.format(processor)).read_text() for processor in processors})
    except OSError:
        return len(processors)


CPU_SLOTS = CpuSlots()


def cpu_slots(device: torch.device) -> AbstractContextManager[None]:
    """The slots of a call on the CPU; nothing on other devices."""
    return CPU_SLOTS.acquire() if device.type == "cpu" else nullcontext()


__all__ = ["CPU_SLOTS", "CpuSlots", "available_cores", "cpu_slots"]
