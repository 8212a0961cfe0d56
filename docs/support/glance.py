"""The chart at the head of docs/performance.md, and of the site: how each operator stands against its peers, a line each.

Input: the standings of docs/support/peers.py. Output: the text of an SVG file, light and dark:

    chart(peers.standings(), "NVIDIA H200, 2026, torch 2.11.0, triton 3.9.0")

A dot is the geometric mean of the ratios of times, a bar leads to it from the lowest one; the axis doubles from tick to tick, and
the thick line is 1, as fast as the peer.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, log2

from docs.support.chart import STYLE, word
from docs.support.peers import Standing

WIDTH, NAMES, PEERS, RIGHT, TOP, ROW, BOTTOM = 760, 10, 232, 54, 42, 19, 40
LEFT = 420      # where the axis begins
LABEL = 8       # between a dot and its number


def chart(standings: Iterable[Standing], where: str) -> str:
    """`where` says on what chip, when and with which versions the rows ran."""
    rows = list(standings)
    low, high = floor(log2(min(row.lowest for row in rows))), ceil(log2(max(row.mean for row in rows)))
    foot = TOP + ROW * len(rows)

    def across(ratio: float) -> float:
        return round(LEFT + (WIDTH - RIGHT - LEFT) * (log2(ratio) - low) / (high - low), 1)

    size = f'viewBox="0 0 {WIDTH} {foot + BOTTOM}" width="{WIDTH}" height="{foot + BOTTOM}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
             f"<title>Time of each peer over ours</title><style>{STYLE}.bar{{stroke-width:4}}.value{{font-weight:600}}</style>",
             word(NAMES, 18, "Time of the peer over ours: right of 1 we are faster", "h"), word(PEERS, TOP - 6, "against", "q")]
    for power in range(low, high + 1):
        x = across(2.0**power)
        parts += [f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{foot}" class="{"g" if power else "one"}"/>',
                  word(x, TOP - 6, f"{2.0**power:g}", "m")]
    for number, row in enumerate(rows):
        y, colour = TOP + ROW * number + ROW / 2, 0 if row.mean >= 1 else 1
        parts += [word(NAMES, y + 4, row.peer.operator)] * bool(row.peer.operator)
        parts += [word(PEERS, y + 4, row.peer.name or row.peer.baseline, "q"),
                  f'<line x1="{across(row.lowest)}" y1="{y}" x2="{across(row.mean)}" y2="{y}" class="bar s{colour}"/>',
                  f'<circle cx="{across(row.mean)}" cy="{y}" r="5" class="f{colour}"/>',
                  word(across(max(row.mean, 1)) + LABEL, y + 4, f"{row.mean:.2f}", "value")]      # beside the line at 1
    return "\n".join([*parts, word(NAMES, foot + 16, "Dot: geometric mean of all shapes; the bar begins at the lowest.", "q"),
                      word(NAMES, foot + 31, where, "q"), "</svg>", ""])
