"""
`python -m tests.pretraining.forked`: runs `elmo-hf` many times, as processes of their own that can be killed.

Each is forked from one that has done nothing but import, as the import takes far longer than a tiny run. The plan comes
as JSON on standard input, what came of it goes to standard output.
"""

import errno
import faulthandler
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

# Threads would not survive the fork, and their number would decide the last bits of a loss.
ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
PATIENCE = 300  # seconds; a process that waits for ever then says where, and ends


def run_plan(plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """
    Runs commands one after the other.

    Args:
        plan: For each command `arguments`, the number of `processes` (default: a plain one, not launched as one of
            several); `full_disk`, the rank that cannot write; a `signal` that the process of one `rank` (default: 0)
            gets `after` some of its steps, or up to `delay` seconds later, in the middle of anything. If it is killed,
            so are the others.

    Returns:
        For each the exit `codes` (negative: the signal), `output` and `errors` of all its processes, and digests of
        their `weights` in the end.
    """
    result = subprocess.run(
        [sys.executable, "-m", "tests.pretraining.forked"],
        input=json.dumps(plan),
        env=os.environ | ENVIRONMENT,
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def _run(command: dict[str, Any], place: Path) -> dict[str, Any]:
    place.mkdir()
    processes = command.get("processes", 0)
    environments: list[dict[str, str]] = [{}]
    if processes:
        shared = {
            "WORLD_SIZE": processes,
            "LOCAL_WORLD_SIZE": processes,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": _port(),
        }
        ranks = [{"RANK": rank, "LOCAL_RANK": rank} for rank in range(processes)]
        environments = [{name: str(value) for name, value in (shared | rank).items()} for rank in ranks]
    children = [_fork(command, place / str(rank), environment) for rank, environment in enumerate(environments)]
    codes: dict[int, int] = {}
    end = time.monotonic() + PATIENCE
    while len(codes) < len(children):
        for child in set(children) - codes.keys():
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                codes[child] = os.waitstatus_to_exitcode(status)
        if -signal.SIGKILL in codes.values() or time.monotonic() > end:
            for child in set(children) - codes.keys():
                os.kill(child, signal.SIGKILL if -signal.SIGKILL in codes.values() else signal.SIGABRT)
        time.sleep(0.002)
    return {
        "codes": [codes[child] for child in children],
        "output": [(place / str(rank) / "output").read_text() for rank in range(len(children))],
        "errors": [(place / str(rank) / "errors").read_text() for rank in range(len(children))],
        "weights": [path.read_text() for path in sorted(place.glob("*/weights"))],
    }


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _fork(command: dict[str, Any], place: Path, environment: dict[str, str]) -> int:
    place.mkdir()
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        for name, stream in (("output", 1), ("errors", 2)):
            os.dup2(os.open(place / name, os.O_WRONLY | os.O_CREAT), stream)
        faulthandler.enable()  # onto standard error
        os.environ.update(environment)
        sys.argv = ["elmo-hf", *command["arguments"]]
        code = _main(command, place, rank=int(environment.get("RANK", 0)))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _main(command: dict[str, Any], place: Path, rank: int) -> int:
    from elmo_hf import cli
    from elmo_hf.pretraining import Run, training

    def full_disk(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if rank == command.get("full_disk"):
        training.save_file = full_disk
    if "signal" in command and rank == command.get("rank", 0):
        _send_signal(command)
    save_model = Run.save_model

    def save_and_digest(run: Run):
        digest = hashlib.sha256()
        for tensor in run.trainer.unwrapped.state_dict().values():
            digest.update(tensor.numpy().tobytes())
        (place / "weights").write_text(digest.hexdigest())
        save_model(run)

    Run.save_model = save_and_digest
    try:
        cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1


def _send_signal(command: dict[str, Any]):
    """Has this process send itself the signal."""
    from elmo_hf.pretraining import Pretrainer

    step, made = Pretrainer.step, 0

    def send():
        os.kill(os.getpid(), command["signal"])

    def counted(trainer: Pretrainer):
        nonlocal made
        made += 1
        if made == command["after"] + 1:
            if "delay" in command:
                threading.Timer(random.SystemRandom().uniform(0, command["delay"]), send).start()
            else:
                send()
        return step(trainer)

    Pretrainer.step = counted


if __name__ == "__main__":
    import tempfile

    import elmo_hf.cli  # noqa: F401  (for the children)

    with tempfile.TemporaryDirectory() as temporary:
        commands = json.load(sys.stdin)
        results = [_run(command, Path(temporary) / str(index)) for index, command in enumerate(commands)]
    json.dump(results, sys.stdout)
