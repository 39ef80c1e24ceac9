"""A picture of a word's uses: each is a point, coloured by its sense; some have their sentences beside them."""

import os
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from ..embedding import Occurrence
from ..runtime.extras import import_extra
from .senses import Uses

WIDTH, HEIGHT, RESOLUTION = 9.0, 5.8, 150  # inches, and dots per inch
POINTS = (0.255, 0.09, 0.49, 0.73)  # the axes: left, bottom, width and height, as fractions of the figure
COLOURS, MARKERS, GREY = ("#1b66d1", "#d4550b"), ("o", "^"), "#57606a"
MATPLOTLIBS_FONT = "DejaVu Sans"  # the fonts below are for characters that it does not have
FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("PingFang SC", "Heiti SC", "Microsoft YaHei", "SimHei", "Arial Unicode MS"),
)
LABELLED, SPACE = 8, 0.055  # labelled uses per sense, and the smallest distance between two labels


def draw_uses(uses: Uses, path: str | os.PathLike):
    """
    Writes a PNG file of the mix's vectors in two dimensions.

    Args:
        uses: Of a word with two senses.
        path: The file; an existing one is replaced.
    """
    module = import_extra("matplotlib.figure", "picture")
    figure = module.Figure(figsize=(WIDTH, HEIGHT), dpi=RESOLUTION, facecolor="white")
    axes = figure.add_axes(POINTS)
    axes.set_axis_off()
    points, shares = project(uses)
    senses = list(dict.fromkeys(uses.senses))
    for sense, colour, marker in zip(senses, COLOURS, MARKERS, strict=True):
        chosen = points[[name == sense for name in uses.senses]]
        axes.scatter(*chosen.T, s=46, c=colour, marker=marker, edgecolors="white", linewidths=0.7, zorder=3)
    axes.autoscale_view()  # otherwise the positions of the points are not final
    for sense, colour in zip(senses, COLOURS, strict=True):
        _write_sentences(figure, axes, uses, points, sense, colour, on_the_right=sense != senses[0])
    _write_title(figure, uses, senses, shares)
    temporary = Path(path).with_name(f".{Path(path).name}.tmp")
    font = find_font(uses.occurrences[0].word) or MATPLOTLIBS_FONT
    for text in figure.findobj(import_extra("matplotlib.text", "picture").Text):
        text.set_fontfamily(font)
    try:
        figure.savefig(temporary, format="png", pil_kwargs={"optimize": True})
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def find_font(text: str) -> str | None:
    """The name of an installed font that has the characters of a text, as far as it is one of those known here."""
    manager, fonts = (import_extra(f"matplotlib.{name}", "picture") for name in ("font_manager", "ft2font"))
    installed = {font.name: font.fname for font in manager.fontManager.ttflist}
    for name in (MATPLOTLIBS_FONT, *FONTS):
        if name in installed and {*map(ord, text)} <= fonts.FT2Font(installed[name]).get_charmap().keys():
            return name
    return None


def project(uses: Uses) -> tuple[np.ndarray, np.ndarray]:
    """
    The mix's vectors in the two directions in which they differ most, their principal components: the first sense is
    to the left of the second, and above it.

    Returns:
        Points `(uses, 2)`, and the shares `(2,)` of the variance in these directions.
    """
    points, shares = principal_points(uses.vectors[-1])
    is_first = np.array(uses.senses) == uses.senses[0]
    step = points[~is_first].mean(axis=0) - points[is_first].mean(axis=0)
    return points * np.where(step * [1, -1] < 0, -1, 1), shares


def principal_points(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Vectors `(vectors, size)` in the two directions in which they differ most.

    Returns:
        Points `(vectors, 2)`, and the shares `(2,)` of the variance in these directions.
    """
    left, lengths, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    return left[:, :2] * lengths[:2], (lengths**2 / np.maximum((lengths**2).sum(), 1e-12))[:2]


def snippet(occurrence: Occurrence, width: int = 17) -> tuple[str, str, str]:
    """
    A word and its context: at most `width` characters on each side, whole words if spaces separate them. Wide
    characters, such as Chinese ones, count twice.
    """
    before, after = occurrence.sentence[: occurrence.start], occurrence.sentence[occurrence.end :]
    if unicodedata.east_asian_width(occurrence.word[0]) == "W":
        width //= 2
    if len(before) > width:
        shown = before[-width:]
        before = "… " + (shown.partition(" ")[2] if " " in shown else shown)
    if len(after) > width:
        shown = after[:width]
        after = (shown.rpartition(" ")[0] if " " in shown else shown) + " …"
    return before, occurrence.word, after


def _write_title(figure: Any, uses: Uses, senses: list[str], shares: np.ndarray):
    word, sentences = uses.occurrences[0].word, len({use.number for use in uses.occurrences})
    title = f"“{word}” in {sentences} sentences, coloured by its meaning"
    figure.text(0.5, 0.955, title, fontsize=14, weight="bold", ha="center")
    for sense, colour, marker, place in zip(senses, COLOURS, MARKERS, (0.44, 0.56), strict=True):
        sign = {"o": "●", "^": "▲"}[marker]
        figure.text(place, 0.9, f"{sign} {sense}", color=colour, fontsize=11, weight="bold", ha="center")
    figure.text(
        0.5,
        0.025,
        f"Each point is the word's ELMo vector (mix of the layers) in one sentence; two dimensions by PCA "
        f"({shares[0]:.0%} and {shares[1]:.0%} of the variance).",
        fontsize=8,
        color=GREY,
        ha="center",
    )


def _write_sentences(
    figure: Any, axes: Any, uses: Uses, points: np.ndarray, sense: str, colour: str, *, on_the_right: bool
):
    """Sentences of a sense in a column beside the points."""
    rows = [row for row, name in enumerate(uses.senses) if name == sense]
    chosen = _outermost(points, rows, on_the_right)
    heights = figure.transFigure.inverted().transform(axes.transData.transform(points[chosen]))[:, 1]
    x, side = (0.75, "left") if on_the_right else (0.25, "right")
    for row, y in zip(chosen, _spread(heights), strict=True):
        before, word, after = (part.replace("$", r"\$") for part in snippet(uses.occurrences[row]))
        bold = rf"$\bf{{{word}}}$" if word.isascii() else f"[{word}]"  # mathematical text has one font
        figure.text(x, y, f"{before}{bold}{after}", fontsize=8, color=colour, ha=side, va="center")
        line = {"arrowstyle": "-", "color": colour, "alpha": 0.4, "linewidth": 0.8, "shrinkA": 3, "shrinkB": 3}
        axes.annotate("", points[row], (x, y), textcoords="figure fraction", arrowprops=line, zorder=2)


def _outermost(points: np.ndarray, rows: list[int], on_the_right: bool) -> list[int]:
    """From top to bottom, in bands of equal height, the points nearest to a side."""
    heights = points[rows, 1]
    band = ((heights.max() - heights) / (np.ptp(heights) + 1e-9) * LABELLED).astype(int)
    outwards = points[rows, 0] * (1 if on_the_right else -1)
    inside = [np.flatnonzero(band == index) for index in np.unique(band)]
    return [rows[places[outwards[places].argmax()]] for places in inside]


def _spread(heights: np.ndarray) -> np.ndarray:
    """Heights from top to bottom that leave space for a line of text each."""
    for place in range(1, len(heights)):
        heights[place] = min(heights[place], heights[place - 1] - SPACE)
    return heights


__all__ = ["draw_uses", "find_font", "principal_points", "project", "snippet"]
