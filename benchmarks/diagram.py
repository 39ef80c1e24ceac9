"""
Draws how ELMo computes the vector of a word, for the documentation:

    python -m benchmarks.diagram    # writes docs/elmo.svg
"""

from html import escape

from benchmarks import ROOT

WORDS = ["<S>", "the", "bank", "of", "the", "river", "</S>"]
MIXED = WORDS.index("bank")
LAYERS = {2: 168, 1: 228, 0: 288}  # the top of each layer's boxes
BOX, GAP, MIX_GAP = 48, 24, 48  # MIX_GAP: right of the mixed word, for the lines to the mixer
LEFT, WIDTH, HEIGHT = 166, 720, 400
INK, GREY, BLUE, RED, GREEN, ORANGE = "#0f172a", "#475569", "#3b82f6", "#ef4444", "#15803d", "#b45309"
FORWARD, BACKWARD, CHARACTERS = "#bfdbfe", "#fecaca", "#e2e8f0"
FONT = "Helvetica, Arial, sans-serif"


def column(position: int) -> int:
    """The left edge of a word's boxes."""
    return LEFT + position * (BOX + GAP) + (MIX_GAP - GAP if position > MIXED else 0)


def text(x: float, y: float, content: str, size: int = 13, anchor: str = "middle", bold: bool = False, fill: str = INK):
    """A line of text."""
    weight = "bold" if bold else "normal"
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, mixed: bool = False) -> str:
    """A rectangle; those of the mixed word have a green border."""
    border = f'stroke="{GREEN}" stroke-width="2.5"' if mixed else 'stroke="#334155"'
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" {border}/>'


def arrow(points: list[tuple[float, float]], colour: str) -> str:
    """A line through points with a head at its end."""
    path = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" marker-end="url(#head)"/>'


def word(position: int) -> list[str]:
    """The boxes of a word in all layers, and the arrows up from layer to layer."""
    x, mixed, middle = column(position), position == MIXED, column(position) + BOX / 2
    lines = [text(middle, 384, WORDS[position], 14, bold=mixed, fill=ORANGE if mixed else INK)]
    lines += [box(x, 336, BOX, 24, "#f8fafc"), arrow([(middle, 335), (middle, 317)], GREY)]
    lines += [f'<path d="M{x + 10 + 7 * slot},342 v12" stroke="#94a3b8"/>' for slot in range(5)]
    lines.append(box(x, LAYERS[0], BOX, 28, CHARACTERS, mixed))
    for layer in (1, 2):
        lines.append(box(x, LAYERS[layer], 23, 30, FORWARD, mixed))
        lines.append(box(x + 25, LAYERS[layer], 23, 30, BACKWARD, mixed))
        for direction, colour in ((11.5, BLUE), (36.5, RED)):
            lines.append(arrow([(x + direction, LAYERS[layer - 1] - 1), (x + direction, LAYERS[layer] + 32)], colour))
    return lines


def recurrence(position: int) -> list[str]:
    """The arrows between a word and the next one."""
    left, right = column(position) + BOX + 2, column(position + 1) - 2
    lines = []
    for layer in (1, 2):
        lines.append(arrow([(left, LAYERS[layer] + 8), (right, LAYERS[layer] + 8)], BLUE))
        lines.append(arrow([(right, LAYERS[layer] + 22), (left, LAYERS[layer] + 22)], RED))
    return lines


def mix() -> list[str]:
    """The mixer above the mixed word, and the lines to it from the three layers of this word."""
    edge = column(MIXED) + BOX
    lines = [box(edge - 66, 88, 132, 44, "#dcfce7", mixed=True)]
    lines.append(text(edge, 107, "ElmoMixer", bold=True))
    lines.append(text(edge, 124, "γ (s₀h₀ + s₁h₁ + s₂h₂)", 11, fill=GREY))
    for layer, top in LAYERS.items():
        x = edge + 12 + 12 * (2 - layer)
        lines.append(arrow([(edge + 1, top + 15), (x, top + 15), (x, 134)], GREEN))
    lines.append(arrow([(edge + 66, 110), (edge + 92, 110)], GREEN))
    lines.append(text(edge + 98, 106, "vector of", 12, "start"))
    lines.append(text(edge + 98, 122, "bank in this sentence", 12, "start", bold=True, fill=ORANGE))
    return lines


def draw() -> str:
    """The whole picture as SVG."""
    head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    lines = [f'<defs>{head}<path d="M0,0 L8,4 L0,8 z" fill="{GREY}"/></marker></defs>']
    lines.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>')
    lines.append(text(24, 28, "ELMo: one vector per word, different in every sentence", 16, "start", bold=True))
    legend = ((24, FORWARD, "forward language model"), (214, BACKWARD, "backward language model"))
    for x, colour, name in legend:
        lines.append(f'<rect x="{x}" y="44" width="12" height="12" fill="{colour}" stroke="#334155"/>')
        lines.append(text(x + 18, 55, name, 12, "start"))
    names = [
        ("layer 2", "biLSTM"),
        ("layer 1", "biLSTM"),
        ("layer 0", "character encoder"),
        ("char_ids", "50 per word"),
    ]
    for (name, what), y in zip(names, [*LAYERS.values(), 334], strict=True):
        lines += [text(142, y + 13, name, 13, "end", bold=True), text(142, y + 28, what, 11, "end", fill=GREY)]
    for position in range(len(WORDS)):
        lines += word(position)
    for position in range(len(WORDS) - 1):
        lines += recurrence(position)
    lines += mix()
    label = "ELMo: characters, two biLSTM layers in two directions, and a weighted sum of the three vectors of a word"
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="{FONT}"'
    body = "\n".join([*lines, "</svg>"])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {frame} role="img" aria-label="{label}">\n{body}\n'


def main():
    """Writes the file."""
    (ROOT / "docs" / "elmo.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
