"""A picture of the uses of a word: each a point, coloured by its sense, some with their sentences."""

import importlib
import os
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from ..embedding import Occurrence
from .senses import Uses

COLOURS, MARKERS = ["#1f6feb", "#d9580d"], ["o", "^"]
GREY = "#57606a"
LABELLED = 6  # uses of each sense that have their sentences beside them
WIDTH, HEIGHT, RESOLUTION = 9.0, 5.6, 200  # inches, and dots per inch


def draw_uses(uses: Uses, path: str | os.PathLike):
    """
    Writes a PNG file of the mix's vectors in two dimensions.

    Args:
        uses: Of a word with two senses.
        path: The file; one that is there is replaced.
    """
    figure_module = _import_matplotlib()
    names = list(dict.fromkeys(uses.senses))
    points, shares = project(uses)
    figure = figure_module.Figure(figsize=(WIDTH, HEIGHT), dpi=RESOLUTION, facecolor="white")
    axes = figure.add_axes((0.235, 0.1, 0.53, 0.74))
    axes.set_axis_off()
    axes.margins(0.04)
    for name, colour, marker in zip(names, COLOURS, MARKERS, strict=True):
        chosen = points[[sense == name for sense in uses.senses]]
        axes.scatter(*chosen.T, s=44, c=colour, marker=marker, edgecolors="white", linewidths=0.7, zorder=3)
    for side, (name, colour) in enumerate(zip(names, COLOURS, strict=True)):
        _label(figure, axes, uses, points, name, colour, on_the_right=bool(side))
    _caption(figure, uses, names, shares)
    temporary = Path(path).with_name(f".{Path(path).name}.tmp")
    try:
        figure.savefig(temporary, format="png")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def project(uses: Uses) -> tuple[np.ndarray, np.ndarray]:
    """
    The mix's vectors in the two directions in which they differ most (principal components), the first sense to the left
    of the second and above it.

    Returns:
        Points `(uses, 2)`, and the shares `(2,)` of the variance that these directions have.
    """
    centred = uses.vectors[-1] - uses.vectors[-1].mean(axis=0)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    points = left[:, :2] * lengths[:2]
    is_first = np.array(uses.senses) == uses.senses[0]
    step = points[~is_first].mean(axis=0) - points[is_first].mean(axis=0)
    return points * np.where(step * [1, -1] < 0, -1, 1), (lengths**2 / (lengths**2).sum())[:2]


def snippet(occurrence: Occurrence, width: int = 30) -> tuple[str, str, str]:
    """What stands before a word, the word, and what stands after it: whole words, about `width` characters in all."""
    sentence = occurrence.sentence
    before, after = sentence[: occurrence.start].split(), sentence[occurrence.end :].split(" ")
    room = width - len(occurrence.word)
    start, end = len(before), 0
    while True:
        parts = [" ".join(before[start:]), " ".join(after[:end])]
        wider = [(start - 1, end)] * (start > 0) + [(start, end + 1)] * (end < len(after))
        # The side that has less so far; the other one where the sentence ends.
        wider.sort(key=lambda place: (place[1] > end) == (len(parts[1]) > len(parts[0])))
        fitting = [place for place in wider if len(" ".join(before[place[0] :] + after[: place[1]])) <= room]
        if not fitting:
            return ("… " if start else "") + parts[0], occurrence.word, parts[1] + (" …" if end < len(after) else "")
        start, end = fitting[0]
