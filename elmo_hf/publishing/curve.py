"""Draws the training curve of a run as SVG: held-out perplexity of both directions over hours."""

import math
from collections.abc import Sequence
from typing import Any

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 40, 48
COLOURS = {"forward": "#1f6feb", "backward": "#d2691e"}


def draw_curve(history: Sequence[dict[str, Any]]) -> str:
    """
    Draws the perplexities of a run.

    Args:
        history: The history of a run. Each record with a perplexity is drawn at the hour of the record before it.
    """
    points: dict[str, list[tuple[float, float]]] = {direction: [] for direction in COLOURS}
    hours = 0.0
    for record in history:
        hours = record.get("hours", hours)
        for direction, curve in points.items():
            if (value := record.get(f"{direction}_perplexity")) is not None and math.isfinite(value):
                curve.append((hours, value))
    drawn = [point for curve in points.values() for point in curve]
    if not drawn:
        raise ValueError("The history has no perplexities to draw.")
    plot = _Plot(max(hour for hour, _ in drawn), min(value for _, value in drawn), max(value for _, value in drawn))
    lines = [*plot.frame()]
    for place, (direction, curve) in enumerate(points.items()):
        lines += plot.curve(curve, COLOURS[direction], direction, place)
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="13">\n  <rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n'
    )


class _Plot:
    """A plot with hours on the x-axis and perplexity on a logarithmic y-axis."""

    def __init__(self, hours: float, lowest: float, highest: float):
        self.hours = max(hours, 1e-9)
        self.low, self.high = math.log(lowest * 0.95), math.log(highest * 1.05)

    def place(self, hour: float, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * hour / self.hours
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log(value) - self.low) / (self.high - self.low)
        return round(x, 1), round(y, 1)

    def frame(self) -> list[str]:
        lines = [f'<text x="{LEFT}" y="22" font-weight="bold">Held-out perplexity</text>']
        for value in self._values():
            _, y = self.place(0, value)
            lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>')
            lines.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:g}</text>')
        for step in range(6):
            hour = self.hours * step / 5
            x, _ = self.place(hour, math.exp(self.low))
            lines.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{hour:.1f}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        return [*lines, f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">hours of training</text>']

    def _values(self) -> list[float]:
        """Round values within the plot: 1, 1.5, 2, 3, 5 and 7 times a power of ten."""
        factors = [1, 1.5, 2, 3, 5, 7]
        values = [factor * 10**power for power in range(7) for factor in factors]
        return [value for value in values if self.low <= math.log(value) <= self.high]

    def curve(self, points: Sequence[tuple[float, float]], colour: str, name: str, place: int) -> list[str]:
        if not points:
            return []
        path = " ".join(f"{x},{y}" for x, y in (self.place(*point) for point in points))
        x, y = WIDTH - RIGHT - 170, TOP + 20 + 20 * place
        return [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{x + 32}" y="{y}">{name}, at last {points[-1][1]:.1f}</text>',
        ]


__all__ = ["draw_curve"]
