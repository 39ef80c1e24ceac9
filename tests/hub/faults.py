"""What can go wrong on the way; a test chooses for which requests."""

import threading
from dataclasses import dataclass

from tests.hub.store import Refusal


@dataclass(frozen=True)
class BreakUpload:
    """The connection breaks when so many bytes of the request's body have arrived, and nothing is answered."""

    after: int = 0


@dataclass(frozen=True)
class BreakDownload:
    """
    The connection breaks when so many bytes of the answer's body are sent; what was asked for has been done.

    Args:
        reset: Broken off by a reset, not by an end that comes too early.
    """

    after: int = 0
    reset: bool = False


@dataclass(frozen=True)
class CorruptUpload:
    """One byte of the request's body arrives as another."""


@dataclass(frozen=True)
class CorruptDownload:
    """One byte of the answer's body is sent as another."""


@dataclass(frozen=True)
class OddAnswer:
    """What was asked for is done, and answered with another body: a page of a proxy, or JSON without its fields."""

    body: bytes


# A refusal is answered in place of what the request should have had; the request is not carried out.
Fault = BreakUpload | BreakDownload | CorruptUpload | CorruptDownload | OddAnswer | Refusal


@dataclass
class _Plan:
    fault: Fault
    method: str
    path: str
    times: int


class Faults:
    """The faults that are still to come."""

    def __init__(self):
        self._plans: list[_Plan] = []
        self._lock = threading.Lock()

    def inject(self, fault: Fault, method: str, path: str = "", times: int = 1):
        """
        Plans a fault.

        Args:
            method: `GET`, say.
            path: A piece of path and query of the requests.
            times: How many requests have the fault.
        """
        with self._lock:
            self._plans.append(_Plan(fault, method, path, times))

    def take(self, method: str, target: str) -> Fault | None:
        """The fault that a request has now."""
        with self._lock:
            for plan in self._plans:
                if plan.times and plan.method == method and plan.path in target:
                    plan.times -= 1
                    return plan.fault
        return None


def corrupt(content: bytes) -> bytes:
    """The same, but for the byte in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 1 for byte in content[middle : middle + 1]) + content[middle + 1 :]
