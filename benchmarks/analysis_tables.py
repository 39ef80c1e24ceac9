"""The tables of `docs/analysis.md`, from `benchmarks/results/analysis.json`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.task_tables import NotMeasuredError

FIRST_SENSE = "WordNet's first sense"
# Tables 5 and 6 of Peters et al. 2018: F1 on the all-words data of Raganato et al. 2017, accuracy on the Penn Treebank.
PAPER = {
    "senses": {FIRST_SENSE: 65.9, "layer 1, nearest mean": 67.4, "layer 2, nearest mean": 69.0},
    "probe": {"layer 1": 97.3, "layer 2": 96.8},
}


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, with numbers aligned to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def senses(results: dict[str, Any]) -> str:
    """Accuracy by method and part of speech. The first sense is the paper's alone if it was not measured."""
    paper, groups = PAPER["senses"], results["groups"]
    values = {
        name: [f"{100 * value:.1f}" for value in accuracy]
        for name, accuracy in zip(results["methods"], results["accuracy"], strict=True)
    }
    baselines = {name: values.pop(name, [""] * len(groups)) for name in ("most frequent sense", "first sense")}
    baselines[FIRST_SENSE] = baselines.pop("first sense")
    rows = [
        [name, *cells, f"{paper[name]:.1f}" if name in paper else ""] for name, cells in (baselines | values).items()
    ]
    rows.append(["occurrences", *(f"{count:,}" for count in results["counts"]), ""])
    table = markdown(["method", *groups, "paper"], rows)
    if "seconds" not in results:
        return table
    return f"{table}\n(It took {results['seconds']:.0f} seconds; {results['processor']}.)\n"


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
    return markdown(["representation", "all words", "unknown words", "paper (Penn Treebank)"], rows)


def samples(results: dict[str, Any]) -> str:
    """The metric by share of the training data, mean and range over the seeds, on the test part."""
    heads = results["scores"]["test"]
    rows = []
    for place, (share, examples) in enumerate(zip(results["shares"], results["examples"], strict=True)):
        values = [100 * np.array(scores[place]) for scores in heads.values()]
        cells = [_mean_and_range(value, 1) for value in values]
        rows.append([f"{100 * share:g} %", f"{examples:,}", *cells])
    return markdown(["training data", "sentences", *heads], rows)


def layers(results: dict[str, Any]) -> str:
    """The similarities of each layer, and of the mix."""
    similarity = results["similarity"]
    names = similarity["representations"]
    measures = {
        "mean length": similarity["norms"],
        "anisotropy": similarity["anisotropy"],
        "self-similarity": similarity["self_similarity"],
        "intra-sentence similarity": similarity["intra_sentence"],
    } | {f"cosine to {name}": row for name, row in zip(names, similarity["between"], strict=True)}
    return markdown(["measure", *names], [[name, *(f"{value:.2f}" for value in row)] for name, row in measures.items()])


def learned_mix(results: dict[str, Any]) -> str:
    """The share of each layer in the mix that is learned for senses."""
    shares = results["learned_mix"]
    return markdown(["mix", *_layer_names(shares)], [["learned for senses", *(f"{share:.2f}" for share in shares)]])


def mixers(results: dict[str, Any]) -> str:
    """Mixes and accuracies of a tagger by the learning rate of its mixer, the mean over the seeds with the range."""
    rows = []
    for record in results["rates"]:
        values = [*np.array(record["mixes"]).T, 100 * np.array(record["accuracy"])]
        digits = [2] * (len(values) - 1) + [1]
        rows.append([f"{record['rate']:g}", *map(_mean_and_range, values, digits)])
    names = _layer_names(results["rates"][0]["mixes"][0])
    return markdown(["learning rate of the mixer", *names, "accuracy, test"], rows)


def mixes(results: dict[str, Any]) -> str:
    """The mixes of the taggers of `samples`, as in Figure 2 of the paper: those of the best seed."""
    if not results["mixes"]:
        raise NotMeasuredError("mixes of fine-tuned models")
    rows = [
        [
            f"{_share(mix['model'])}, {mix['place']}",
            *(f"{weight:.2f}" for weight in mix["weights"]),
            f"{mix['gamma']:.2f}",
        ]
        for mix in results["mixes"]["mixes"]
    ]
    names = _layer_names(results["mixes"]["mixes"][0]["weights"])
    return markdown(["training data, place of the mix", *names, "gamma"], rows)


def neighbors(results: dict[str, Any]) -> str:
    """The nearest words and the nearest uses, as in Table 4 of the paper."""
    rows = []
    for word in dict.fromkeys(_word(row) for row in results["rows"]):
        own = [row for row in results["rows"] if _word(row) == word]
        rows.append([f"GloVe: {word}", ", ".join(near["word"] for near in own[0]["words"])])
        rows += [[_marked(row), "<br>".join(map(_marked, row["uses"][:3]))] for row in own]
    lines = [["source", "nearest neighbours"], ["---", "---"], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def _word(row: dict[str, Any]) -> str:
    return row["sentence"][row["start"] : row["end"]]


def _marked(use: dict[str, Any]) -> str:
    sentence, start, end = use["sentence"], use["start"], use["end"]
    return f"{sentence[:start]}**{sentence[start:end]}**{sentence[end:]}"


def _layer_names(values: Sequence[float]) -> list[str]:
    return [f"layer {layer}" for layer in range(len(values))]


def _share(folder: str) -> str:
    """The share of the training data of a head, which is in the name of its folder: `with-elmo-0.01`."""
    return f"{100 * float(folder.removeprefix('with-elmo-')):g} %"


def _mean_and_range(values: np.ndarray, digits: int) -> str:
    return f"{values.mean():.{digits}f} ({values.min():.{digits}f}–{values.max():.{digits}f})"


# Each table, and the part of the results that it shows.
TABLES = {
    "senses": ("senses", senses),
    "learned-mix": ("senses", learned_mix),
    "probe": ("probe", probe),
    "samples": ("samples", samples),
    "mixers": ("mixers", mixers),
    "mixes": ("layers", mixes),
    "layers": ("layers", layers),
    "neighbors": ("neighbors-table", neighbors),
}


def table(results: dict[str, Any], name: str) -> str:
    """A table by its name, from all results."""
    part, make = TABLES[name]
    if part not in results:
        raise NotMeasuredError(part)
    return make(results[part])
