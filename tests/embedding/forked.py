"""
`python -m tests.embedding.forked`: runs `elmo-hf embed` many times, as processes of their own that can be killed.

Each is forked from one that has done nothing but import, as the import takes far longer than a tiny run. The plan comes
as JSON on standard input, what came of it goes to standard output.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
SHARD_CHARACTERS = 60
EVENTS = "events"  # a file to which each moment at which a run can be stopped adds a byte


def run_plan(folder: Path, plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """
    Runs commands one after the other.

    Args:
        folder: Where they run.
        plan: For each command its `arguments`; a `signal` it sends itself, and `when`: the share, of all moments of the
            last command that had neither `signal` nor `--resume`, after which it does; `most`, the size of files above
            which the disk is full.

    Returns:
        For each the exit `code` (negative: the signal), its `errors`, and digests of all `files` but those it read, and
        those in `.parts`, by name.
    """
    result = subprocess.run(
        [sys.executable, "-m", "tests.embedding.forked", folder],
        input=json.dumps(plan),
        env=os.environ | ENVIRONMENT,
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def _run_all(folder: Path, plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    os.chdir(folder)
    known = set(folder.iterdir())
    results, moments = [], 0
    for index, command in enumerate(plan):
        Path(EVENTS).unlink(missing_ok=True)
        code = _run(command, round(command["when"] * (moments - 1)) if "when" in command else None, f"errors-{index}")
        if "signal" not in command and "--resume" not in command["arguments"]:
            moments = Path(EVENTS).stat().st_size if Path(EVENTS).exists() else 0
        files = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in set(folder.iterdir()) - known
            if path.is_file() and not path.name.startswith(("errors-", EVENTS))
        }
        results.append({"code": code, "errors": Path(f"errors-{index}").read_text(), "files": files})
    return results


def _run(command: dict[str, Any], moment: int | None, errors: str) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
        code = _main(command, moment)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _main(command: dict[str, Any], moment: int | None) -> int:
    from elmo_hf import cli
    from elmo_hf.corpus import embed as corpus
    from elmo_hf.corpus import shards
    from tests.full_disk import files_of_at_most

    corpus.SHARD_CHARACTERS = SHARD_CHARACTERS
    done = 0

    def happened():
        nonlocal done
        if done == moment:
            os.kill(os.getpid(), command["signal"])
        done += 1
        with open(EVENTS, "ab") as file:
            file.write(b".")

    def counted(function):
        def call(*arguments, **options):
            happened()
            result = function(*arguments, **options)
            happened()
            return result

        return call

    shards.Layout.stored = counted(shards.Layout.stored)
    os.fsync, os.replace, shutil.rmtree = counted(os.fsync), counted(os.replace), counted(shutil.rmtree)
    sys.argv = ["elmo-hf", "embed", *command["arguments"]]
    try:
        if "most" in command:
            with files_of_at_most(command["most"]):
                cli.main()
        else:
            cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1


def _warm_up():
    """What a run imports and makes when it first needs it, for all children."""
    import h5py  # noqa: F401

    from elmo_hf import ElmoEmbedder, embed_corpus
    from tests.embedding.toy import TOKENIZER, toy_embedder

    with tempfile.TemporaryDirectory() as folder:
        toy_embedder().model.save_pretrained(folder)
        TOKENIZER.save_pretrained(folder)
        text = Path(folder) / "text.txt"
        text.write_text("a text")
        embedder = ElmoEmbedder.from_pretrained(folder)
        embed_corpus([str(text)], Path(folder) / "out.parquet", embedder=embedder, progress=False)


if __name__ == "__main__":
    import elmo_hf.cli  # noqa: F401

    _warm_up()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    json.dump(_run_all(Path(sys.argv[1]).resolve(), json.load(sys.stdin)), sys.stdout)
