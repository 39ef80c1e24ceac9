"""Draws the results of the analyses as matplotlib figures, which a notebook can change, and saves them."""

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime.extras import import_extra
from .learned_mixes import MixingWeights
from .nearest_uses import NeighborsTable
from .probing import ProbeResults
from .sample_efficiency import SampleCurve
from .similarity import LayerSimilarity
from .word_senses import SenseResults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESOLUTION = 150  # dots per inch
COLOURS = ("#9fb4cc", "#5b8fd6", "#1b4f9c", "#d4550b", "#3f8f5f", "#8a5aa8", "#b8a02e", "#57606a")
GREY = "#57606a"
LEFT_WIDTH, RIGHT_WIDTH, LINE = 38, 88, 0.16  # of the table of neighbours: characters, and inches


def save_picture(figure: "Figure", path: str | os.PathLike):
    """Writes a `.png` or `.svg` file atomically."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        figure.savefig(temporary, format=path.suffix.lower().lstrip("."), dpi=RESOLUTION, bbox_inches="tight")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def draw_senses(results: SenseResults) -> "Figure":
    """
    Accuracy by group of words: a bar for the nearest mean in each representation and in the learned mix, a line for the
    baseline, and a cross for the nearest occurrences in the top layer.
    """
    figure, axes = _figure(max(6.0, 1.5 * len(results.groups)), 4.0)
    ending = ", nearest mean"
    series = {
        method.removesuffix(ending): values
        for method, values in zip(results.methods, results.accuracy, strict=True)
        if method.endswith(ending)
    }
    _bars(axes, results.groups, {name: values[None] for name, values in series.items()})
    width = 0.8
    for place, value in enumerate(100 * results.accuracy[0]):
        label = results.methods[0] if place == 0 else None
        axes.plot([place - width / 2, place + width / 2], [value, value], color="black", linewidth=1.5, label=label)
    if results.neighbors:
        top = [name for name in results.representations if name.startswith("layer")][-1]
        label = f"{top}, {results.neighbors} nearest"
        values = 100 * results.accuracy[results.methods.index(label)]
        axes.plot(np.arange(len(values)), values, "x", color="black", markersize=6, label=label)
    axes.set_ylabel("right senses, %")
    axes.set_title("Word senses: the nearest mean vector, by layer", fontsize=11)
    _legend(axes)
    return figure


def draw_probe(results: ProbeResults) -> "Figure":
    """Accuracies on all words and on unknown words: a bar per representation, and a line for the most frequent tag."""
    part, scores = list(results.scores.items())[-1]
    figure, axes = _figure(7.0, 4.0)
    groups = {"all words": (scores.accuracy, scores.baseline)}
    if scores.unknown_words:
        groups["unknown words"] = (scores.unknown_accuracy, scores.unknown_baseline)
    stacked = np.stack([values for values, _ in groups.values()], axis=2)  # (seeds, representations, groups)
    _bars(axes, list(groups), {name: stacked[:, place] for place, name in enumerate(results.representations)})
    for place, (_, baseline) in enumerate(groups.values()):
        label = None if place else "most frequent tag"
        axes.plot([place - 0.4, place + 0.4], [100 * baseline] * 2, color="black", linewidth=1.5, label=label)
    axes.set_ylim(0, 100)
    axes.set_ylabel("right tags, %")
    axes.set_title(f"Linear probes on frozen layers, {part}", fontsize=11)
    _legend(axes)
    return figure


def draw_samples(curve: SampleCurve) -> "Figure":
    """Scores by the number of examples, with the range over seeds."""
    part, heads = list(curve.scores.items())[-1]
    figure, axes = _figure(6.5, 4.0)
    for (name, scores), colour, marker in zip(heads.items(), (COLOURS[2], COLOURS[3]), "os", strict=True):
        values = 100 * scores
        axes.fill_between(curve.examples, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.2, linewidth=0)
        axes.plot(curve.examples, values.mean(axis=1), marker=marker, color=colour, label=name)
    axes.set_xscale("log")
    axes.set_xticks(curve.examples)
    axes.set_xticklabels(
        [f"{count:,}\n{100 * share:g} %" for count, share in zip(curve.examples, curve.shares, strict=True)]
    )
    axes.minorticks_off()
    axes.set_xlabel("training examples")
    axes.set_ylabel(f"{curve.metric}, {part}, times 100")
    axes.set_title("Sample efficiency", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    return figure


def draw_layers(mixes: MixingWeights | None, similarity: LayerSimilarity | None) -> "Figure":
    """The mixing weights as in the paper's Figure 2, the measures of similarity by layer, and the cosines of layers."""
    panels = (mixes is not None) + 2 * (similarity is not None)
    if not panels:
        raise ValueError("There is nothing to draw: neither mixing weights nor similarities.")
    module = import_extra("matplotlib.figure", "picture")
    rows = 0 if mixes is None else len(mixes.mixes)
    figure = module.Figure(
        figsize=(4.4 * panels + 0.6, max(3.6, 0.45 * rows + 1.4)), facecolor="white", layout="constrained"
    )
    all_axes = list(np.atleast_1d(figure.subplots(1, panels)))
    if mixes is not None:
        axes = all_axes.pop(0)
        layers = max(len(mix.weights) for mix in mixes.mixes)
        values = np.array([[*mix.weights, *[np.nan] * (layers - len(mix.weights))] for mix in mixes.mixes])
        names = [f"{mix.model}, {mix.place}" for mix in mixes.mixes]
        _heatmap(axes, values, names, [f"layer {layer}" for layer in range(layers)], "Mixing weights")
    if similarity is not None:
        _draw_measures(all_axes[0], similarity)
        names = similarity.representations
        _heatmap(all_axes[1], similarity.between, names, names, "Cosine between layers")
    return figure


def _draw_measures(axes: Any, similarity: LayerSimilarity):
    measures = {
        "self-similarity": (similarity.self_similarity, COLOURS[2], "o"),
        "intra-sentence similarity": (similarity.intra_sentence, COLOURS[3], "s"),
        "anisotropy": (similarity.anisotropy, GREY, "^"),
    }
    places = np.arange(len(similarity.representations))
    for name, (values, colour, marker) in measures.items():
        axes.plot(places, values, marker=marker, color=colour, label=name)
    axes.set_xticks(places, similarity.representations)
    axes.set_ylabel("mean cosine")
    axes.set_title("Similarity of words", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)


def draw_neighbors(table: NeighborsTable) -> "Figure":
    """The table as in the paper: a word or its sentence on the left, its nearest neighbours on the right."""
    cells: list[tuple[str, str]] = [("Source", "Nearest neighbours")]
    for word in dict.fromkeys(row.word for row in table.rows):
        rows = [row for row in table.rows if row.word == word]
        near = ", ".join(neighbor.word for neighbor in rows[0].words) or "no vector"
        cells.append((f"{table.static}: {word}", _wrapped(near, RIGHT_WIDTH)))
        for row in rows:
            before, after = row.sentence[: row.start], row.sentence[row.end :]
            uses = "\n".join(_wrapped(f"{use.similarity:.2f}  {use.marked()}", RIGHT_WIDTH) for use in row.uses)
            cells.append((_wrapped(f"{before}[{row.word}]{after}", LEFT_WIDTH), uses or "no use in the corpus"))
    heights = [max(left.count("\n"), right.count("\n")) + 1.6 for left, right in cells]
    figure, axes = _figure(10.0, LINE * sum(heights) + 0.2)
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(sum(heights), 0)
    top = 0.0
    for place, ((left, right), height) in enumerate(zip(cells, heights, strict=True)):
        style = {"va": "top", "fontsize": 9, "weight": "bold" if place == 0 else "normal", "parse_math": False}
        axes.text(0.0, top + 0.3, left, **style)
        axes.text(0.3, top + 0.3, right, **style)
        top += height
        axes.axhline(top, color=GREY, linewidth=0.6)
    return figure


# ---- parts of several pictures


def _figure(width: float, height: float) -> tuple["Figure", Any]:
    module = import_extra("matplotlib.figure", "picture")
    figure = module.Figure(figsize=(width, height), facecolor="white", layout="constrained")
    return figure, figure.subplots()


def _bars(axes: Any, groups: Sequence[str], series: dict[str, np.ndarray]):
    """
    Args:
        groups: The names of the groups of bars.
        series: The values of each series by name, `(seeds, groups)`, from 0 to 1. A line shows the range over seeds.
    """
    width = 0.8 / len(series)
    for place, (name, values) in enumerate(series.items()):
        shown = 100 * values
        x = np.arange(len(groups)) - 0.4 + (place + 0.5) * width
        mean = shown.mean(axis=0)
        axes.bar(x, mean, width=0.92 * width, color=COLOURS[place % len(COLOURS)], label=name)
        if len(shown) > 1:
            spread = np.stack([mean - shown.min(axis=0), shown.max(axis=0) - mean])
            axes.errorbar(x, mean, spread, fmt="none", ecolor="black", elinewidth=1, capsize=2)
    axes.set_xticks(np.arange(len(groups)), groups)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _legend(axes: Any):
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _heatmap(axes: Any, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str):
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, column in np.argwhere(~np.isnan(values)):
        value = values[row, column]
        colour = "white" if value > 0.6 else "black"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=9)
    axes.set_xticks(np.arange(len(columns)), columns, fontsize=8)
    axes.set_yticks(np.arange(len(rows)), rows, fontsize=8)
    axes.tick_params(length=0)
    axes.set_title(title, fontsize=11)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(" ".join(text.split()), width))


__all__ = [
    "draw_layers",
    "draw_neighbors",
    "draw_probe",
    "draw_samples",
    "draw_senses",
    "save_picture",
]
