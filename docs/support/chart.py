"""A chart as SVG text, for docs/performance.md: rates of a few series over named places, and below how often ours is as fast.

Input: a title, the places of the x axis, series of numbers, ours first. Output: the text of an SVG file, light and dark:

    line_chart("attention, full", "TFLOP/s", ["1024", "2048"], {"mimw": [619, 642], "cuDNN": [595, None]})

None is a place without a number: the line has a gap there. The axis of rates begins at 0, so that lengths may be compared; that of
ratios has its line at 1, and doubles from tick to tick where the ratios differ much.
"""

from __future__ import annotations

import re
from html import escape
from math import ceil, floor, log2

WIDTH, LEFT, RIGHT, TOP, RATES, BETWEEN, RATIOS, BOTTOM = 690, 56, 180, 44, 190, 34, 110, 16
LEADING, CHARACTER = 13, 6.2        # between lines of a place's name; how wide a letter is
COLOURS = (("#0b62d6", "#5b9bf0"), ("#d1495b", "#f07a8a"), ("#2e933c", "#5cc46c"), ("#b47b00", "#e0ab3a"), ("#7b4ea3", "#b48ad6"),
           ("#5c677d", "#9aa6bd"))
STYLE = ("svg{background:#fff;border-radius:8px}"
         "text{font-family:ui-sans-serif,Helvetica,Arial,sans-serif;font-size:11px;fill:#1f2430}"
         ".h{font-size:14px}.q{fill:#5b6472}.g{stroke:#e0e3e8}.one{stroke:#5b6472;stroke-width:1.5}.e{text-anchor:end}"
         ".m{text-anchor:middle}polyline{fill:none;stroke-width:1.5}.ours{stroke-width:3}"
         + "".join(f".s{number}{{stroke:{light}}}.f{number}{{fill:{light}}}" for number, (light, _) in enumerate(COLOURS))
         + "@media(prefers-color-scheme:dark){svg{background:#131416}text{fill:#e6e9ee}.q{fill:#9aa4b2}.g{stroke:#2a313c}"
         + ".one{stroke:#9aa4b2}"
         + "".join(f".s{number}{{stroke:{dark}}}.f{number}{{fill:{dark}}}" for number, (_, dark) in enumerate(COLOURS)) + "}")
Series = dict[str, list[float | None]]


def line_chart(title: str, unit: str, places: list[str], series: Series) -> str:
    """Colours follow the order of the series; the first one, ours, is drawn thickest."""
    ours, *others = series
    ratios: Series = {name: [a / b if a and b else None for a, b in zip(series[ours], series[name])] for name in others}
    named = wrapped(places)
    lower = TOP + RATES + BETWEEN
    foot = lower + RATIOS if others else TOP + RATES
    height = foot + BOTTOM + LEADING * max(len(lines) for lines in named)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
             f"<title>{escape(title)}</title><style>{STYLE}</style>", word(LEFT, 18, title, "h")]
    numbers = {name: number for number, name in enumerate(series)}
    parts += panel(TOP, RATES, unit, rate_ticks(series), series, numbers, len(places))
    if others:
        parts += panel(lower, RATIOS, f"{ours} / others", ratio_ticks(ratios), ratios, numbers, len(places))
    for place, lines in enumerate(named):
        parts += [word(across(place, len(places)), foot + BOTTOM + LEADING * row, line, "m") for row, line in enumerate(lines)]
    for name, number in numbers.items():
        key = TOP + 10 + 18 * number
        parts += [f'<rect x="{WIDTH - RIGHT + 14}" y="{key - 8}" width="10" height="10" class="f{number % len(COLOURS)}"/>',
                  word(WIDTH - RIGHT + 30, key + 1, name)]
    return "\n".join([*parts, "</svg>", ""])


def panel(top: float, height: float, unit: str, ticks: list[float], series: Series, numbers: dict[str, int],
          places: int) -> list[str]:
    """One of the two diagrams, from its first tick at the bottom to its last."""
    scale = log2 if ticks[0] > 0 and ticks[-1] / ticks[0] > 1.9 else float      # doubling, or even steps

    def up(y: float) -> float:
        return round(top + height * (1 - (scale(y) - scale(ticks[0])) / (scale(ticks[-1]) - scale(ticks[0]))), 1)

    parts = [word(6, top - 12, unit, "q")]
    for tick in ticks:
        one = "one" if tick == 1 and ticks[0] > 0 else "g"
        parts += [f'<line x1="{LEFT}" y1="{up(tick)}" x2="{WIDTH - RIGHT}" y2="{up(tick)}" class="{one}"/>',
                  word(LEFT - 6, up(tick) + 4, f"{tick:g}", "e")]
    for name, line in series.items():
        number = numbers[name]
        points = [(across(place, places), up(y)) if y is not None else None for place, y in enumerate(line)]
        for piece in pieces(points):
            path, thick = " ".join(f"{x},{y}" for x, y in piece), "" if number else " ours"
            parts.append(f'<polyline points="{path}" class="s{number % len(COLOURS)}{thick}"/>')
        parts += [f'<circle cx="{point[0]}" cy="{point[1]}" r="3" class="f{number % len(COLOURS)}"/>' for point in points if point]
    return parts


def across(place: int, places: int) -> float:
    """Where a place is on the x axis, a little inside of its ends."""
    left, width = LEFT + 12, WIDTH - LEFT - RIGHT - 24
    return round(left + width * (place / (places - 1) if places > 1 else 0.5), 1)


def wrapped(places: list[str]) -> list[list[str]]:
    """The lines of each place's name: `8 x 64 x 128` takes three where names side by side would run into each other."""
    room = (WIDTH - LEFT - RIGHT) / max(1, len(places) - 1)
    wide = max(len(place) for place in places) * CHARACTER > room
    return [re.split(r" x |(?<=\d)x(?=\d)", place) if wide else [place] for place in places]


def word(x: float, y: float, said: str, class_: str = "") -> str:
    return f'<text x="{x}" y="{y}"' + (f' class="{class_}"' if class_ else "") + f">{escape(said)}</text>"


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


def values(series: Series) -> list[float]:
    return [y for line in series.values() for y in line if y is not None]


def rate_ticks(series: Series) -> list[float]:
    """From 0 in quarters of a number that is short."""
    most = nice(max(values(series)))
    return [most * step / 4 for step in range(5)]


def ratio_ticks(ratios: Series) -> list[float]:
    """Even steps around 1 where ratios differ little, else powers of two."""
    low, high = min(1.0, *values(ratios)), max(1.0, *values(ratios))
    if high / low > 1.9:
        first = floor(log2(low) + 0.05)     # what is 3 % below a tick needs no tick of its own
        return [2.0**power for power in range(first, max(ceil(log2(high) - 0.05), first + 1) + 1)]
    step = next(step for step in (0.02, 0.05, 0.1, 0.2) if (high - low) / step <= 5)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)       # 1 is a tick, whatever its rounding
    return [round(step * number, 2) for number in range(first, max(last, first + 1) + 1)]


def nice(most: float) -> float:
    """The smallest 1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8 times a power of ten that is not below: quarters of it are short numbers."""
    power = 10.0**(len(f"{int(most)}") - 1) if most >= 1 else 0.1
    return next(power * step for step in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10, 12) if power * step >= most)
