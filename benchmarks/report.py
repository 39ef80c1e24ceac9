"""What the benchmarks tell: the machine, medians and ranges, tables in Markdown, and results as JSON files."""

import argparse
import json
import math
import os
import platform
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import ROOT

# The results that the documentation shows; `make bench` writes them.
RESULTS = ROOT / "benchmarks" / "results"


def processor() -> str:
    """Model and number of cores."""
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else []
    return f"{(names or [platform.processor()])[0]}, {os.cpu_count()} cores"


def machine() -> dict[str, Any]:
    """What the benchmark runs on: the processor, PyTorch, and the libraries that do its matrix products."""
    build = torch.__config__.show()
    libraries = {
        "mkl": r"oneAPI Math Kernel Library Version (\S+)",
        "onednn": r"MKL-DNN v(\S+)",
    }
    matches = {name: re.search(pattern, build) for name, pattern in libraries.items()}
    return {
        "processor": processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        **{name: match[1] if match else None for name, match in matches.items()},
    }


def describe(machine: dict[str, Any]) -> str:
    """The same as a sentence."""
    return (
        f"{machine['processor']}, {machine['instructions']}; PyTorch {machine['torch']} with {machine['threads']} "
        f"threads, oneDNN {machine['onednn'] or '–'}, MKL {machine['mkl'] or '–'}."
    )


def spread(values: Sequence[float], digits: int = 0) -> str:
    """`median (smallest–largest)`"""
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}–{high})"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """How many times their seconds are ours, repetition by repetition: both ran one after the other."""
    return [their / our for our, their in zip(ours, theirs, strict=True)]


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *lines])


def add_json_option(parser: argparse.ArgumentParser):
    """`--json FILE`"""
    parser.add_argument("--json", type=_json_file, metavar="FILE", help="also write every measurement to this file")


def write_results(file: Path | None, benchmark: str, results: Any, **facts: Any):
    """
    Writes one benchmark's results with the machine that gave them, numbers to five digits.

    Args:
        file: `--json`; without it nothing is written.
        benchmark: The name, as in `python -m benchmarks.<name>`.
        results: Anything that JSON has.
        facts: What else belongs to them: numbers of sentences, versions of the peers.
    """
    if file is None:
        return
    report = {"benchmark": benchmark, "machine": machine(), **facts, "results": results}
    file.write_text(json.dumps(_rounded(report), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_results(benchmark: str) -> dict[str, Any]:
    """What [`write_results`] has written for the documentation."""
    return json.loads((RESULTS / f"{benchmark}.json").read_text(encoding="utf-8"))


def _json_file(name: str) -> Path:
    path = Path(name)
    if not path.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    return path


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        # JSON has no infinity: what could not be compared is `null`.
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
