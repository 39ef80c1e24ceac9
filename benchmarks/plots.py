"""
The pictures of the documentation, SVG files drawn from the results in `benchmarks/results/`:

    python -m benchmarks.plots
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from benchmarks import ROOT
from benchmarks.inference import label
from benchmarks.report import read_results

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 76, 210, 44, 52
COLOURS = ["#1f6feb", "#0a3069", "#2da44e", "#8250df", "#d2691e", "#cf222e", "#57606a", "#bf8700"]

Points = Sequence[tuple[float, float]]


def draw_lines(title: str, x_name: str, y_name: str, curves: Mapping[str, Points]) -> str:
    """
    Curves over two logarithmic axes: what grows in proportion is a straight line.

    Args:
        curves: By name, in the order of the legend: points with positive coordinates.
    """
    points = [point for curve in curves.values() for point in curve]
    if not points:
        raise ValueError(f"There is nothing to draw for {title!r}.")
    axes = _Axes([x for x, _ in points], [y for _, y in points])
    lines = [_text(LEFT, 24, title, "start", bold=True), *axes.frame(x_name, y_name)]
    for index, (name, curve) in enumerate(curves.items()):
        lines += axes.curve(name, curve, COLOURS[index % len(COLOURS)], TOP + 14 + 22 * index)
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="13">\n  <rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n'
    )


class _Axes:
    """Where a point lies in the picture."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]):
        self.x_low, self.x_high = math.log(min(xs)), math.log(max(xs) * 1.001)
        self.y_low, self.y_high = math.log(min(ys) * 0.8), math.log(max(ys) * 1.25)
        self.xs = sorted(set(xs))

    def place(self, x: float, y: float) -> tuple[float, float]:
        right, up = (math.log(x) - self.x_low), (math.log(y) - self.y_low)
        return (
            round(LEFT + (WIDTH - LEFT - RIGHT) * right / (self.x_high - self.x_low), 1),
            round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up / (self.y_high - self.y_low), 1),
        )

    def frame(self, x_name: str, y_name: str) -> list[str]:
        lines = []
        for value in _round_numbers(self.y_low, self.y_high):
            _, y = self.place(self.xs[0], value)
            lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>')
            lines.append(_text(LEFT - 8, y + 4, f"{value:,g}", "end"))
        for value in self._x_numbers():
            x, _ = self.place(value, math.exp(self.y_low))
            lines.append(_text(x, HEIGHT - BOTTOM + 20, f"{value:,g}"))
        lines.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_name))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        return [*lines, f'<g transform="rotate(-90 18 {middle})">{_text(18, middle, y_name)}</g>']

    def _x_numbers(self) -> Sequence[float]:
        """The points' own, where they are few."""
        return self.xs if len(self.xs) <= 8 else _round_numbers(self.x_low, self.x_high)

    def curve(self, name: str, points: Points, colour: str, legend_y: float) -> list[str]:
        places = [self.place(*point) for point in points]
        x = WIDTH - RIGHT + 20
        return [
            f'<polyline points="{" ".join(f"{x},{y}" for x, y in places)}" fill="none" stroke="{colour}" '
            'stroke-width="2"/>',
            *(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places),
            f'<line x1="{x}" x2="{x + 24}" y1="{legend_y - 4}" y2="{legend_y - 4}" stroke="{colour}" '
            'stroke-width="2"/>',
            _text(x + 32, legend_y, name, "start"),
        ]


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two logarithms; only the powers where those are many."""
    powers = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
    factors = [1, 2, 5] if len(powers) < 5 else [1]
    numbers = [factor * 10.0**power for power in powers for factor in factors]
    return [tick for tick in numbers if low - 1e-9 <= math.log(tick) <= high + 1e-9]


def _text(x: float, y: float, text: str, anchor: str = "middle", *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def inference_curves(results: Sequence[dict[str, Any]], size: str) -> dict[str, Points]:
    """Tokens per second over sentences per batch, by side."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        if result["size"] == size and result["setting"].isdigit():
            for side, seconds in result["seconds"].items():
                speed = result["tokens"] / statistics.median(seconds)
                curves.setdefault(label(side), []).append((int(result["setting"]), speed))
    return curves


def scaling_curves(results: dict[str, Any]) -> dict[str, Points]:
    """Seconds over words."""
    names = {"documents": "a document, in pieces", "batches": "1 to 512 sentences a call"}
    return {
        name: [(record["words"], statistics.median(record["seconds"])) for record in results[key]]
        for key, name in names.items()
    }


def main():
    """Draws all of them."""
    inference, scaling = read_results("inference")["results"], read_results("scaling")["results"]
    pictures = {
        f"inference-{size}": draw_lines(
            f"Tokens per second, {size} size", "sentences per batch", "tokens/s", inference_curves(inference, size)
        )
        for size in dict.fromkeys(result["size"] for result in inference)
    }
    pictures["scaling"] = draw_lines("Cost of words", "words", "seconds", scaling_curves(scaling))
    for name, picture in pictures.items():
        (ROOT / "docs" / f"{name}.svg").write_text(picture, encoding="utf-8")
        print(f"docs/{name}.svg")


if __name__ == "__main__":
    main()
