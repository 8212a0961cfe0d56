"""A line chart as SVG text, for docs/performance.md: a few series over named places, no library.

Input: a title, the places of the x axis, series of numbers. Output: the text of an SVG file. For example:

    line_chart("attention, full", "TFLOP/s", ["1024", "2048"], {"mimw": [619, 642], "cuDNN": [595, None]})

None is a place without a number: the line has a gap there. The y axis begins at 0, so that lengths may be compared.
"""

from __future__ import annotations

from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 56, 130, 34, 40
COLOURS = ("#0b62d6", "#d1495b", "#2e933c", "#b47b00", "#7b4ea3", "#5c677d")


def line_chart(title: str, unit: str, places: list[str], series: dict[str, list[float | None]]) -> str:
    """Colours follow the order of the series; the first one, ours, is drawn thickest."""
    most = nice(max(y for line in series.values() for y in line if y is not None))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(place: int, y: float) -> tuple[float, float]:
        x = LEFT + width * (place / (len(places) - 1) if len(places) > 1 else 0.5)
        return round(x, 1), round(TOP + height * (1 - y / most), 1)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>']
    for step in range(5):
        y = most * step / 4
        _, line = at(0, y)
        parts += [f'<line x1="{LEFT}" y1="{line}" x2="{LEFT + width}" y2="{line}" stroke="#ddd"/>',
                  f'<text x="{LEFT - 6}" y="{line + 4}" text-anchor="end">{y:g}</text>']
    parts.append(f'<text x="6" y="{TOP - 4}" fill="#555">{escape(unit)}</text>')
    for place, name in enumerate(places):
        parts.append(f'<text x="{at(place, 0)[0]}" y="{HEIGHT - 20}" text-anchor="middle">{escape(name)}</text>')
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [at(place, y) if y is not None else None for place, y in enumerate(line)]
        for piece in pieces(points):
            path = " ".join(f"{x},{y}" for x, y in piece)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{1.5 if number else 3}"/>')
        parts += [f'<circle cx="{point[0]}" cy="{point[1]}" r="3" fill="{colour}"/>' for point in points if point]
        key = TOP + 10 + 18 * number
        parts += [f'<rect x="{WIDTH - RIGHT + 14}" y="{key - 8}" width="10" height="10" fill="{colour}"/>',
                  f'<text x="{WIDTH - RIGHT + 30}" y="{key + 1}">{escape(name)}</text>']
    return "\n".join([*parts, "</svg>", ""])


def pieces(points: list) -> list[list]:
    """The runs between gaps, of two points or more."""
    found, run = [], []
    for point in [*points, None]:
        if point is None:
            found += [run] if len(run) > 1 else []
            run = []
        else:
            run.append(point)
    return found


def nice(most: float) -> float:
    """The smallest 1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8 times a power of ten that is not below: quarters of it are short numbers."""
    power = 10.0**(len(f"{int(most)}") - 1) if most >= 1 else 0.1
    return next(power * step for step in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10, 12) if power * step >= most)
