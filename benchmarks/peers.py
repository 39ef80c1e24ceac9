"""
Peers: what users would run instead of this package, each as a worker process in an environment of its own.

A benchmark starts one [`Worker`] per side and asks them one after the other, so that every side is timed inside its own
process and repetitions interleave. Questions and answers are JSON lines over stdin and stdout; arrays travel as files.

This module also runs inside the peers' environments (for [`serve`]): it imports the standard library only.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import ROOT

ENVIRONMENTS = ROOT / ".venv-peers"


class PeerError(RuntimeError):
    """A peer could not be installed, or its worker failed. The message is one line."""


@dataclass(frozen=True)
class Peer:
    """
    A package to compare with, and what it runs in.

    Attributes:
        name: Names its environment, `.venv-peers/<name>`.
        requirements: Pinned requirements, installed with what they depend on.
        bare_requirements: The same, installed without: for packages that ask for more than the benchmark uses.
    """

    name: str
    requirements: tuple[str, ...]
    bare_requirements: tuple[str, ...] = ()

    def interpreter(self) -> Path:
        """The Python of the peer's environment, which is made at the first call and when Python or the pins change."""
        folder = ENVIRONMENTS / self.name
        python, stamp = folder / "bin" / "python", folder / "installed.json"
        description = json.dumps([sys.version, self.requirements, self.bare_requirements])
        if not (python.exists() and stamp.exists() and stamp.read_text() == description):
            print(f"Installing {self.name} into {folder.relative_to(ROOT)} ...", file=sys.stderr)
            self._run(sys.executable, "-m", "venv", "--clear", folder)
            pip = python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"
            self._run(*pip, *self.requirements)
            if self.bare_requirements:
                self._run(*pip, "--no-deps", *self.bare_requirements)
            stamp.write_text(description)  # last: an interrupted installation starts over
        return python

    def _run(self, *command: str | Path):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            reason = (done.stderr.strip() or done.stdout.strip() or f"code {done.returncode}").splitlines()[-1]
            raise PeerError(f"{self.name} cannot be installed: {reason}")


def our_pins(*packages: str) -> tuple[str, ...]:
    """Requirements for the versions that run here, so that a peer differs only in its own code."""
    return tuple(f"{package}=={version(package).split('+')[0]}" for package in packages)


# The original on TensorFlow 2, trainer and all. Its recurrent cells are only in the older Keras: its workers run with
# TF_USE_LEGACY_KERAS=1 in their environment.
SIMPLE_ELMO = Peer(
    "simple_elmo",
    ("tensorflow==2.21.0", "tf-keras==2.21.0", "smart-open==9.0.2", "pandas==3.1.1", "scipy==1.17.1"),
    ("simple-elmo==0.9.2",),
)


class Worker:
    """
    A module that runs [`serve`], in its own process.

    Args:
        name: Who it is, in errors.
        python: The interpreter to run it with: a peer's, or `sys.executable`.
        module: The module's full name, as for `python -m`.
        arguments: Its command line.
    """

    def __init__(self, name: str, python: Path | str, module: str, *arguments: str):
        self.name = name
        self.process = subprocess.Popen(
            [python, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is the benchmark's to handle
        )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Runs one of the worker's commands and waits for its answer."""
        try:
            self.process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: there is no answer to read either
        line = self.process.stdout.readline()
        if not line:
            raise PeerError(f"The worker of {self.name} ended with code {self.process.wait()} at `{command}`.")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"The worker of {self.name} failed at `{command}`: {answer['error']}")
        return answer


def serve(commands: dict[str, Callable[..., dict[str, Any]]]):
    """
    The worker's side: answers questions until there are no more.

    Args:
        commands: By name, functions from a question's arguments to its answer.
    """
    # What the peer itself prints must not come between the answers: it goes to stderr.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            question = json.loads(line)
            try:
                answer = commands[question.pop("command")](**question)
            except Exception as error:
                answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())}
            print(json.dumps(answer), file=answers, flush=True)


def peak_memory() -> dict[str, Any]:
    """A worker's command: the largest resident size of its process since the last such question, on Linux."""
    try:
        status = Path("/proc/self/status").read_text()
        Path("/proc/self/clear_refs").write_text("5")  # starts the peak anew
    except OSError:
        status = ""
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return {"megabytes": int(peak[1]) // 1024 if peak else None}
