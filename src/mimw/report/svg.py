"""The few drawing words that the SVG reports share.

Input: places, sizes and words. Output: SVG text, and the widths and round numbers that a drawing needs:

    element("rect", x=1, font_size=12.0)        <rect x="1" font-size="12"/>
    fitted("barrier_wait", 40, 12)              barr…
    ticks(95)                                   [0.0, 10.0, 20.0, ... 90.0]
"""

from __future__ import annotations

from html import escape
from math import floor, log10

FONT = "ui-sans-serif, 'Helvetica Neue', Helvetica, Arial, sans-serif"
INK, QUIET, RULE, PAPER = "#1f2430", "#6b7280", "#e5e7eb", "#ffffff"
_CHARACTER = 0.56  # mean width of a character in units of the font size


def element(tag: str, content: str = "", **attributes: object) -> str:
    """One SVG element. `font_size` means `font-size`, `class_` means `class`; None is left out; content is already SVG."""
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
                      for name, value in attributes.items() if value is not None)
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def text(x: float, y: float, words: str, size: float = 12, anchor: str = "start", fill: str = INK, **attributes: object) -> str:
    """Words with their baseline at (x, y)."""
    return element("text", escape(words), x=x, y=y, font_size=size, text_anchor=anchor, fill=fill, **attributes)


def rectangle(x: float, y: float, width: float, height: float, fill: str, **attributes: object) -> str:
    return element("rect", attributes.pop("content", ""), x=x, y=y, width=width, height=height, fill=fill, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = RULE, **attributes: object) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **attributes)


def tooltip(words: str) -> str:
    """The text that a viewer shows while the pointer rests on the element that contains the result."""
    return element("title", escape(words))


def document(width: float, height: float, body: str, **attributes: object) -> str:
    """A whole SVG picture on white paper."""
    return element("svg", rectangle(0, 0, width, height, PAPER) + body, xmlns="http://www.w3.org/2000/svg",
                   viewBox=f"0 0 {_number(width)} {_number(height)}", width=width, height=height, font_family=FONT, **attributes)


def text_width(words: str, size: float = 12) -> float:
    """About how wide words are; exact widths depend on the viewer's font."""
    return len(words) * size * _CHARACTER


def fitted(words: str, width: float, size: float = 12) -> str:
    """The words, cut with an ellipsis to fit the width; empty if fewer than three characters would be left."""
    room = int(width / (size * _CHARACTER))
    if len(words) <= room:
        return words
    return words[:room - 1] + "…" if room >= 4 else ""


def ticks(end: float, about: int = 10) -> list[float]:
    """Round numbers from 0 to at most `end`, about that many."""
    if end <= 0:
        return [0.0]
    rough = end / about
    unit = 10.0**floor(log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return [step * index for index in range(int(end / step + 1e-9) + 1)]


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
