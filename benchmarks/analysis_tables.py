"""The tables of `docs/analysis.md`, from `benchmarks/results/analysis.json`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# Tables 5 and 6 of Peters et al. 2018: F1 on the all-words data of Raganato et al. 2017, accuracy on the Penn Treebank.
PAPER = {
    "senses": {"most frequent sense": 65.9, "layer 1, nearest mean": 67.4, "layer 2, nearest mean": 69.0},
    "probe": {"layer 1": 97.3, "layer 2": 96.8},
}


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, with numbers aligned to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def senses(results: dict[str, Any]) -> str:
    """Accuracy by method and part of speech."""
    paper = PAPER["senses"]
    rows = [
        [method, *(f"{100 * value:.1f}" for value in values), f"{paper[method]:.1f}" if method in paper else ""]
        for method, values in zip(results["methods"], results["accuracy"], strict=True)
    ]
    rows.append(["occurrences", *(f"{count:,}" for count in results["counts"]), ""])
    return markdown(["", *results["groups"], "paper"], rows)


def probe(results: dict[str, Any]) -> str:
    """Accuracy by representation, the mean over the seeds, on the test part."""
    scores, paper = results["scores"]["test"], PAPER["probe"]
    columns = [(scores["baseline"], scores["accuracy"]), (scores["unknown_baseline"], scores["unknown_accuracy"])]
    names = ["most frequent tag", *results["representations"]]
    cells = [[baseline, *np.mean(values, axis=0)] for baseline, values in columns]
    rows = [
        [name, *(f"{100 * value:.1f}" for value in values), f"{paper[name]:.1f}" if name in paper else ""]
        for name, *values in zip(names, *cells, strict=True)
    ]
    return markdown(["", "all words", "unknown words", "paper (Penn Treebank)"], rows)


def samples(results: dict[str, Any]) -> str:
    """The metric by share of the training data, mean and range over the seeds, on the test part."""
    heads = results["scores"]["test"]
    rows = []
    for place, (share, examples) in enumerate(zip(results["shares"], results["examples"], strict=True)):
        values = [100 * np.array(scores[place]) for scores in heads.values()]
        cells = [f"{value.mean():.1f} ({value.min():.1f}–{value.max():.1f})" for value in values]
        rows.append([f"{100 * share:g} %", f"{examples:,}", *cells])
    return markdown(["training data", "sentences", *heads], rows)


def layers(results: dict[str, Any]) -> str:
    """The similarities of each layer, and of the mix."""
    found = results["similarity"]
    names = found["representations"]
    measures = {
        "mean length": found["norms"],
        "anisotropy": found["anisotropy"],
        "self-similarity": found["self_similarity"],
        "intra-sentence similarity": found["intra_sentence"],
    } | {f"cosine to {name}": row for name, row in zip(names, found["between"], strict=True)}
    return markdown(["", *names], [[name, *(f"{value:.2f}" for value in row)] for name, row in measures.items()])


TABLES = {"senses": senses, "probe": probe, "samples": samples, "layers": layers}
