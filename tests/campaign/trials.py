"""The trials of the campaign, kind by kind: each damages something, runs commands, and says what went wrong."""

import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.campaign.commands import run
from tests.campaign.damage import copy, damage
from tests.campaign.materials import SEEDS, SENTENCES, Materials
from tests.hub.faults import BreakDownload, BreakUpload, CorruptDownload, CorruptUpload, Fault
from tests.hub.server import HubServer
from tests.hub.store import Refusal

Trial = Callable[[Materials, Path, random.Random], str | None]  # gives what is wrong, or nothing
MARKED = "the **bank** of the river"
STORED = ("checkpoints/", ".model-", ".seeds.json")  # what a run continues from


def damaged(name: str, *command: str) -> Trial:
    """
    A command on a damaged copy of one of the materials.

    Args:
        name: Of the material.
        command: Its arguments; `{copy}` is the copy, `{out}` a new path, others in braces are materials.
    """

    def trial(made: Materials, place: Path, generator: random.Random) -> str | None:
        target = copy(getattr(made, name), place / "copy")
        what = damage(target, generator)
        values = {"copy": target, "out": place / "out", "text": made.text}
        outcome = run(*(argument.format(**values) for argument in command), stdin=SENTENCES)
        fault = outcome.fault()
        if fault is None and outcome.code == 2 and (place / "out").exists():
            fault = "the output of a command that failed"
        return fault and f"{' '.join(command)}, {what}: {fault}\n{outcome.errors[-1500:]}"

    return trial


def damaged_run(name: str, finished: str, *command: str) -> Trial:
    """
    A run that continues from a damaged copy of its folder. Where the damage is in what the run has stored to continue
    from, and the run comes to its end, it must have ended with the weights of one that was never damaged.

    Args:
        name: Of the run's folder.
        finished: Of the folder of the same run at its end.
        command: Its arguments; `{copy}` is the copy.
    """

    def trial(made: Materials, place: Path, generator: random.Random) -> str | None:
        target = copy(getattr(made, name), place / "copy")
        what = damage(target, generator)
        outcome = run(*(argument.format(copy=target) for argument in command))
        fault = outcome.fault()
        if fault is None and outcome.code == 0 and any(name in what for name in STORED):
            fault = None if _same(target, getattr(made, finished), "model.safetensors") else "other weights"
        return fault and f"{' '.join(command)}, {what}: {fault}\n{outcome.errors[-1500:]}"

    return trial


def killed_pretraining(made: Materials, place: Path, generator: random.Random) -> str | None:
    """Killed at any moment, a run ends with the bytes of one that was not."""
    out = place / "run"
    outcome = run(*made.pretrain(out), kill_after=generator.uniform(0.0, 1.5))
    for _ in range(20):
        if outcome.code == 0:
            break
        resume = ["pretrain", "--resume", "--out", out] if (out / "run.json").exists() else made.pretrain(out)
        if outcome.code == 2:  # killed while it was begun: the folder is to be removed
            shutil.rmtree(out, ignore_errors=True)
            resume = made.pretrain(out)
        outcome = run(*resume, kill_after=generator.choice([None, generator.uniform(0.2, 1.5)]))
    if outcome.code != 0:
        return f"pretraining that was killed does not come to its end: {outcome}"
    return None if _same(out, made.pretraining, "model.safetensors") else "other weights after a kill"


def killed_embedding(made: Materials, place: Path, generator: random.Random) -> str | None:
    """Killed at any moment, `embed` ends with the bytes of one that was not."""
    ending = generator.choice(["parquet", "npz", "hdf5", "arrow"])
    whole, out = place / f"whole.{ending}", place / f"out.{ending}"
    command = ["embed", made.bilm, made.corpus, "--out"]
    assert run(*command, whole).code == 0
    outcome = run(*command, out, kill_after=generator.uniform(0.0, 0.5))
    for _ in range(20):
        if outcome.code == 0 or out.exists():
            break
        outcome = run(*command, out, "--resume", kill_after=generator.choice([None, generator.uniform(0.0, 0.5)]))
    if not out.exists():
        return f"embedding that was killed does not come to its end: {outcome}"
    return None if out.read_bytes() == whole.read_bytes() else "other vectors after a kill"


def killed_finetuning(finished: str, seconds: float, *options: str) -> Trial:
    """
    Killed at any moment, a head's training ends with the bytes of one that was not.

    Args:
        finished: Of the folder of the same training, never killed.
        seconds: The latest kill.
        options: Of the training.
    """

    def trial(made: Materials, place: Path, generator: random.Random) -> str | None:
        out = place / "run"
        outcome = run(*made.finetune(out), *options, kill_after=generator.uniform(0.0, seconds))
        for _ in range(20):
            if outcome.code == 0 or (out / "results.json").exists():  # or killed when all was done
                break
            has_begun = (out / "finetune.json").exists()
            if not has_begun:
                shutil.rmtree(out, ignore_errors=True)
            resume = ["finetune", "tagging", "--resume", "--out", out] if has_begun else [*made.finetune(out), *options]
            outcome = run(*resume, kill_after=generator.choice([None, generator.uniform(0.5, seconds)]))
        if not (out / "results.json").exists():
            return f"finetuning that was killed does not come to its end: {outcome}"
        return None if _same(out, getattr(made, finished), "model.safetensors") else "other weights after a kill"

    return trial


def full_disk(*command: str) -> Trial:
    """A command on a disk that is full after any number of bytes; it leaves no part of its output."""

    def trial(made: Materials, place: Path, generator: random.Random) -> str | None:
        values = {"out": place / "out", "text": made.text, "bilm": made.bilm, "hdf5": made.hdf5}
        arguments = [argument.format(**values) for argument in command]
        size = int(10 ** generator.uniform(0, 6))
        outcome = run(*arguments, largest_file=size)
        fault = outcome.fault()
        left = [path.name for path in place.iterdir() if not path.name.endswith(".parts")]
        if fault is None and outcome.code == 2 and left:
            fault = f"{', '.join(left)} is left behind"
        return fault and f"{' '.join(command)} with files of at most {size} bytes: {fault}\n{outcome.errors[-1500:]}"

    return trial


def failing_hub(made: Materials, place: Path, generator: random.Random) -> str | None:
    """A Hub that fails in the middle of a push or a pull: what is there is whole, or not there."""
    with HubServer() as hub:
        name = f"{hub.user}/elmo"
        pushed = run("push", made.bilm, name, hub=hub)
        assert pushed.code == 0, pushed
        command = generator.choice(["push", "pull", "embed"])
        before = hub.repository(name).commit("main").id
        for _ in range(generator.randint(1, 2)):
            method = generator.choice(["GET", "HEAD", "POST", "PUT"])
            hub.faults.inject(_random_fault(generator), method, times=generator.choice([1, 2, 50]))
        arguments = {
            "push": ["push", made.tagger, name],
            "pull": ["pull", name, "--out", place / "out"],
            "embed": ["embed", name, made.text, "--out", place / "out.npz"],
        }[command]
        outcome = run(*arguments, hub=hub)
        fault = outcome.fault()
        if fault is None and outcome.code == 2:
            if command == "pull" and (place / "out").exists():
                fault = "a part of the model is left"
            if (
                command == "push"
                and hub.repository(name).commit("main").id != before
                and "commit" not in outcome.errors
            ):
                fault = "the repository has changed, and the command says nothing of it"
        return fault and f"{command}: {fault}\n{outcome.errors[-1500:]}"


def _random_fault(generator: random.Random) -> Fault:
    after = generator.choice([0, 10, 1000, 10**5])
    return generator.choice(
        [
            BreakUpload(after),
            BreakDownload(after, reset=generator.random() < 0.5),
            CorruptUpload(),
            CorruptDownload(),
            Refusal(generator.choice([400, 401, 403, 404, 409, 412, 413, 429, 500, 502, 503]), "refused"),
        ]
    )


def _same(folder: Path, other: Path, name: str) -> bool:
    digests = [hashlib.sha256((path / name).read_bytes()).hexdigest() for path in (folder, other)]
    return digests[0] == digests[1]


KINDS: dict[str, list[Trial]] = {
    "damaged heads": [damaged("tagger", "predict", "{copy}"), damaged("classifier", "predict", "{copy}", "{text}")],
    "damaged language models": [
        damaged("bilm", "embed", "{copy}", "{text}", "--out", "{out}.npz"),
        damaged("bilm", "score", "{copy}", "{text}"),
        damaged("bilm", "perplexity", "{copy}", "{text}"),
        damaged("bilm", "similar", "cat", "--model", "{copy}"),
        damaged("bilm", "convert", "to-bilm-hdf5", "{copy}", "--out", "{out}"),
        damaged("bilm", "card", "{copy}"),
        damaged("tagger", "card", "{copy}"),
    ],
    "damaged runs": [
        damaged_run("interrupted", "pretraining", "pretrain", "--resume", "--out", "{copy}"),
        damaged_run("finetuning", "tagger", "finetune", "tagging", "--resume", "--out", "{copy}"),
        damaged_run("seeds", "both_seeds", "finetune", "tagging", "--resume", "--out", "{copy}"),
    ],
    "damaged indexes": [damaged("index", "neighbors", "{copy}", MARKED)],
    "damaged checkpoints": [
        damaged("hdf5", "convert", "bilm-hdf5", "{copy}/options.json", "{copy}/weights.hdf5", "--out", "{out}"),
        damaged("allennlp", "convert", "allennlp", "{copy}/weights.th", "--out", "{out}"),
        damaged("allennlp", "convert", "allennlp", "{copy}/model.tar.gz", "--out", "{out}"),
    ],
    "kills": [
        killed_pretraining,
        killed_embedding,
        killed_finetuning("tagger", 3.0),
        killed_finetuning("both_seeds", 6.0, *SEEDS),
    ],
    "failing Hubs": [failing_hub],
    "full disks": [
        full_disk("embed", "{bilm}", "{text}", "--out", "{out}.hdf5"),
        full_disk("embed", "{bilm}", "{text}", "--out", "{out}.parquet"),
        full_disk("index", "{text}", "--model", "{bilm}", "--out", "{out}"),
        full_disk("convert", "to-bilm-hdf5", "{bilm}", "--out", "{out}"),
        full_disk("convert", "bilm-hdf5", "{hdf5}/options.json", "{hdf5}/weights.hdf5", "--out", "{out}"),
        full_disk("vocab", "{text}", "--out", "{out}"),
    ],
}
