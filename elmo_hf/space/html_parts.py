"""Pieces of HTML: tables, heat maps, bars, coloured words and points. All text is escaped here."""

import html
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Gradio reads its HTML as a template: these characters begin an expression there.
TEMPLATE_MARKS = str.maketrans({"$": "&#36;", "{": "&#123;", "}": "&#125;", "@": "&#64;", "`": "&#96;"})
LIGHT, DARK = (255, 255, 255), (27, 79, 156)  # the two ends of a heat map
# Backgrounds of groups and labels, all light enough for black text; a group has a sign too, not only a colour.
COLOURS = ("#a6c8ff", "#ffd3a8", "#b4e6bd", "#e3c7f5", "#ffe89a", "#ffc2cf", "#b5ebe6", "#d9d9d9")
SIGNS = ("●", "▲", "■", "◆", "★", "▼", "✚", "✖")

STYLE = """
.elmo table { border-collapse: collapse; margin: 0.3em 0 1em; width: auto; }
.elmo table, .elmo tr { border: 1px solid var(--border-color-primary) !important; }
.elmo caption { text-align: left; font-weight: 600; padding: 0.2em 0; }
.elmo th, .elmo td { padding: 0.25em 0.5em; text-align: left; font-weight: normal; border: none; }
.elmo th[scope] { white-space: nowrap; }
.elmo table.heat :is(td, th) { text-align: center; min-width: 2.4em; padding: 0.25em 0.2em; }
.elmo table.heat td { font-variant-numeric: tabular-nums; }
.elmo table.bars td.bar { width: min(12em, 25vw); }
.elmo .number { text-align: right; font-variant-numeric: tabular-nums; }
.elmo .bar div { background: #1b4f9c; height: 0.9em; min-width: 1px; }
.elmo .side { display: flex; flex-wrap: wrap; gap: 0 2em; align-items: flex-start; }
.elmo .scroll { overflow-x: auto; max-width: 100%; }
.elmo mark, .elmo .word { color: #000; border-radius: 0.25em; padding: 0.05em 0.25em; }
.elmo mark { background: #ffe08a; font-weight: 600; }
.elmo .word { display: inline-block; margin: 0.15em 0.1em; text-align: center; line-height: 1.25; }
.elmo .word small { display: block; font-size: 0.75em; color: inherit; }
.elmo .strip { display: flex; height: 2.5em; max-width: 40em; }
.elmo .strip span { flex: 1 1 0; }
.elmo p.message { background: #fff3cd; color: #4a3500; padding: 0.7em 1em; border-radius: 0.4em; }
.elmo svg { max-width: 100%; height: auto; background: #fff; border: 1px solid #d4d4d8; border-radius: 0.4em; }
.elmo ul { padding-left: 1.2em; }
.dark button[role=tab].selected { color: #9ec5ff; }
"""


def escaped(text: object) -> str:
    """Text as HTML that shows it, and nothing else."""
    return html.escape(str(text)).translate(TEMPLATE_MARKS)


def message(text: str) -> str:
    """What is wrong with the input; screen readers read it at once."""
    return f'<div class="elmo"><p class="message" role="alert">{escaped(text)}</p></div>'


def result(*parts: str) -> str:
    """The result of a tab."""
    return f'<div class="elmo">{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escaped(text)}</p>"


def marked(sentence: str, start: int, end: int) -> str:
    """A sentence with a highlighted word."""
    return f"{escaped(sentence[:start])}<mark>{escaped(sentence[start:end])}</mark>{escaped(sentence[end:])}"


def background(share: float) -> str:
    """Inline style of a place on the heat map's scale from 0 to 1, with the text colour of the larger contrast."""
    share = min(max(float(share), 0.0), 1.0)
    colour = [round(light + share * (dark - light)) for light, dark in zip(LIGHT, DARK, strict=True)]
    text = max(("#000000", "#ffffff"), key=lambda text: contrast(_hex(colour), text))
    return f"background:{_hex(colour)};color:{text}"


def contrast(one: str, other: str) -> float:
    """The contrast of two colours `#rrggbb` as WCAG 2 defines it, from 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    values = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _hex(colour: Sequence[int]) -> str:
    return "#" + "".join(f"{value:02x}" for value in colour)


def heat_map(values: np.ndarray, names: Sequence[str], caption: str) -> str:
    """
    A symmetric matrix of cosines as a table.

    Args:
        values: `(rows, rows)`.
        names: Of the rows, which are those of the columns too.
        caption: The title of the table.
    """
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in names)
    rows = "".join(
        f'<tr><th scope="row">{escaped(name)}</th>'
        + "".join(f'<td style="{background(value)}">{value:.2f}</td>' for value in row)
        + "</tr>"
        for name, row in zip(names, values, strict=True)
    )
    head = f"<thead><tr><td></td>{head}</tr></thead>"
    return f'<table class="heat"><caption>{escaped(caption)}</caption>{head}<tbody>{rows}</tbody></table>'


class Bar(NamedTuple):
    """
    A row of a bar chart.

    Attributes:
        name: What the bar is of.
        share: The length of the bar, from 0 to 1.
        cells: Further columns: numbers, as text.
    """

    name: str
    share: float
    cells: Sequence[str]


def bar_table(caption: str, columns: Sequence[str], bars: Sequence[Bar]) -> str:
    """
    Bars with their names and numbers, as a table.

    Args:
        columns: The titles of the name and of the further columns.
    """
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in columns)
    rows = "".join(
        f'<tr><th scope="row">{escaped(bar.name)}</th>'
        + "".join(f'<td class="number">{escaped(cell)}</td>' for cell in bar.cells)
        + f'<td class="bar"><div style="width:{100 * min(max(bar.share, 0.0), 1.0):.1f}%"></div></td></tr>'
        for bar in bars
    )
    head = f"<thead><tr>{head}<td></td></tr></thead>"
    return f'<table class="bars"><caption>{escaped(caption)}</caption>{head}<tbody>{rows}</tbody></table>'


def strip(values: np.ndarray, largest: float, label: str) -> str:
    """Numbers `(size,)` as a strip of colours: the darker, the larger the absolute value."""
    cells = "".join(f'<span style="{background(abs(value) / largest)}"></span>' for value in values)
    return f'<div class="strip" role="img" aria-label="{escaped(label)}">{cells}</div>'


def scatter(points: np.ndarray, names: Sequence[str], groups: Sequence[int], label: str) -> str:
    """
    Points in two dimensions as a picture.

    Args:
        points: `(points, 2)`.
        names: Of the points.
        groups: The number of each point's group, which decides its sign and colour.
        label: What the picture shows, for those who do not see it.
    """
    size, margin = 320, 30
    low, high = points.min(axis=0), points.max(axis=0)
    places = margin + (points - low) / np.maximum(high - low, 1e-9) * (size - 2 * margin)
    marks = "".join(
        f'<text x="{x:.1f}" y="{size - y:.1f}" font-size="20" text-anchor="middle" dominant-baseline="central" '
        f'fill="{COLOURS[group % len(COLOURS)]}" stroke="#333" stroke-width="0.8">{SIGNS[group % len(SIGNS)]}</text>'
        f'<text x="{x + 12:.1f}" y="{size - y + 4:.1f}" font-size="12" fill="#000">{escaped(name)}</text>'
        for (x, y), name, group in zip(places, names, groups, strict=True)
    )
    return f'<svg viewBox="0 0 {size} {size}" width="{size}" role="img" aria-label="{escaped(label)}">{marks}</svg>'


__all__ = [
    "COLOURS",
    "SIGNS",
    "STYLE",
    "Bar",
    "background",
    "bar_table",
    "contrast",
    "escaped",
    "heat_map",
    "marked",
    "message",
    "paragraph",
    "result",
    "scatter",
    "strip",
]
