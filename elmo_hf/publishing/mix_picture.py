"""Draws mixing weights as SVG, like Figure 2 of the paper: the larger a weight, the darker its cell."""

from collections.abc import Mapping, Sequence
from html import escape

CELL_WIDTH, CELL_HEIGHT, GAP = 84, 34, 28
LEFT, TOP = 150, 62
DARK = (31, 111, 235)


def draw_mixes(mixes: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """
    Draws one row per mix.

    Args:
        mixes: The weights of the layers, which sum to one, by place ("input", "output") and by the name of the task or
            model that has learned them.
    """
    rows = [(place, name, weights) for place, by_name in mixes.items() for name, weights in by_name.items()]
    if not rows:
        raise ValueError("There are no mixing weights to draw.")
    layers = max(len(weights) for _, _, weights in rows)
    lines = [_text(16, 24, "Mixing weights", "start", bold=True)]
    lines += [_text(LEFT + (layer + 0.5) * CELL_WIDTH, TOP - 12, f"layer {layer}") for layer in range(layers)]
    y = TOP
    for row, (place, name, weights) in enumerate(rows):
        if row and place != rows[row - 1][0]:
            y += GAP
        label = f"{name}, {place}" if name else place
        lines.append(_text(LEFT - 12, y + CELL_HEIGHT / 2 + 5, label, "end"))
        for layer, weight in enumerate(weights):
            lines += _cell(LEFT + layer * CELL_WIDTH, y, weight)
        y += CELL_HEIGHT
    width, height = LEFT + layers * CELL_WIDTH + 24, y + 20
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="13">\n  <rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def _cell(x: float, y: float, weight: float) -> list[str]:
    share = min(max(weight, 0.0), 1.0)
    red, green, blue = (round(255 + (dark - 255) * share) for dark in DARK)
    return [
        f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" fill="rgb({red},{green},{blue})" '
        'stroke="white"/>',
        _text(x + CELL_WIDTH / 2, y + CELL_HEIGHT / 2 + 5, f"{weight:.2f}", colour="white" if share > 0.6 else "black"),
    ]


def _text(
    x: float,
    y: float,
    text: str,
    anchor: str = "middle",
    *,
    colour: str = "black",
    bold: bool = False,
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(text)}</text>'


__all__ = ["draw_mixes"]
