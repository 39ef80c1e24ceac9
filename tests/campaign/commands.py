"""
`elmo-hf` in processes of their own, forked from one that has imported everything: the import takes far longer than a
command on tiny models.
"""

import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import constants

from tests.hub.server import HubServer

# Threads would not survive the fork, and their number would decide the last bits of a loss.
SINGLE_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
MAX_MEMORY = 8 << 30  # bytes of address space of a command
MAX_SECONDS = 120


class Outcome(NamedTuple):
    """
    What came of a command.

    Attributes:
        code: The exit code; negative: the signal that ended it.
        output, errors: Standard output and error.
        is_late: Whether it was ended for taking too long.
    """

    code: int
    output: str
    errors: str
    is_late: bool = False

    def fault(self) -> str | None:
        """What is wrong with how the command ended, or `None`: it must succeed, or refuse in one line."""
        if self.is_late:
            return f"no end after {MAX_SECONDS} seconds"
        if "Traceback" in self.errors:
            return "a traceback"
        if self.code == 0:
            return None
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        if self.code != 2:
            return f"exit code {self.code}"
        lines = [line for line in self.errors.splitlines() if line.startswith("elmo-hf: ")]
        return None if len(lines) == 1 else f"{len(lines)} lines that say what is wrong"


def run(
    *arguments: str | Path,
    stdin: str = "",
    largest_file: int | None = None,
    kill_after: float | None = None,
    kill_when: Callable[[], bool] | None = None,
    hub: HubServer | None = None,
) -> Outcome:
    """
    Runs a command.

    Args:
        stdin: Its standard input.
        largest_file: Bytes; a larger file cannot be written, as on a full disk.
        kill_after: Seconds after which it is killed.
        kill_when: It is killed as soon as this is true.
        hub: The Hub that it knows, with the right to write.
    """
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as source:
        source.write(stdin)
        source.flush()
        pipes = [os.pipe(), os.pipe()]  # not files, which would be cut short as on a full disk
        child = os.fork()
        if child == 0:
            _run_here(list(map(str, arguments)), source.name, [end for _, end in pipes], largest_file, hub)
        readers = [_Reader(*pipe) for pipe in pipes]
        code, is_late = _wait(child, kill_after, kill_when)
        output, errors = (reader.text() for reader in readers)
    return Outcome(code, output, errors, is_late)


class _Reader(threading.Thread):
    """Reads what comes out of a pipe, to its end."""

    def __init__(self, source: int, target: int):
        super().__init__()
        os.close(target)
        self._source, self._content = source, b""
        self.start()

    def run(self):
        with open(self._source, "rb") as file:
            self._content = file.read()

    def text(self) -> str:
        self.join()
        return self._content.decode("utf-8", errors="replace")


def _run_here(arguments: list[str], source: str, targets: list[int], largest_file: int | None, hub: HubServer | None):
    """The child's part; does not return."""
    code = 70
    try:
        for stream, descriptor in enumerate([os.open(source, os.O_RDONLY), *targets]):
            os.dup2(descriptor, stream)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (until the process ends)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        if largest_file is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        from elmo_hf import cli

        if hub is not None:
            _know_hub(hub)
        sys.argv = ["elmo-hf", *arguments]
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _know_hub(hub: HubServer):
    """As if the client had been imported with the Hub's address in its environment."""
    from elmo_hf.publishing import hub as commands

    home = tempfile.mkdtemp(prefix="campaign-home-")
    os.environ |= {"HF_TOKEN": hub.write_token, "NO_PROXY": "127.0.0.1"}
    settings = {
        "ENDPOINT": hub.endpoint,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HOME": home,
        "HF_HUB_CACHE": os.path.join(home, "hub"),
        "HF_HUB_DISABLE_PROGRESS_BARS": True,
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_OFFLINE": False,
    }
    for name, value in settings.items():
        setattr(constants, name, value)
    commands.PAUSES = (0.01, 0.01, 0.01)


def _wait(child: int, kill_after: float | None, kill_when: Callable[[], bool] | None) -> tuple[int, bool]:
    """The exit code, and whether it took too long."""
    start = time.monotonic()
    limit = MAX_SECONDS if kill_after is None else kill_after
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), False
        is_over = time.monotonic() - start > limit
        if is_over or (kill_when is not None and kill_when()):
            os.kill(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return code, is_over and kill_after is None
        time.sleep(0.002)
