"""Contrast of letters and their ground, from style sheets.

    contrast("#0b62d6", "#ffffff")                                  5.63
    too_faint({".k": {"color": "#777777"}}, "#f2f2f2")              {".k": 3.99}

Input: colours as style sheets write them, `#abc` or `#aabbcc`. Output: the ratio of WCAG 2, from 1 to 21, of which text takes 4.5.
"""

from __future__ import annotations

import re

ENOUGH = 4.5
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")


def contrast(letters: str, ground: str) -> float:
    brighter, darker = sorted((_luminance(letters), _luminance(ground)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part, 16) / 255 for part in re.findall("..", whole(colour)[1:])]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055)**2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def whole(colour: str) -> str:
    """`#abc` as `#aabbcc`."""
    return colour if len(colour) > 4 else "#" + "".join(2 * digit for digit in colour[1:])


def rules(sheet: str) -> dict[str, dict[str, str]]:
    """Selector -> property -> value, of rules that hold no other rule; a later one wins."""
    found: dict[str, dict[str, str]] = {}
    for selectors, body in _RULE.findall(re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)):
        pairs = dict(part.strip().split(":", 1) for part in body.split(";") if ":" in part)
        for selector in selectors.split(","):
            found.setdefault(" ".join(selector.split()), {}).update({name.strip(): value.strip() for name, value in pairs.items()})
    return found


def too_faint(sheet: dict[str, dict[str, str]], ground: str, name: str = "color") -> dict[str, float]:
    """The rules whose colour, the property `name`, has less contrast than text takes, on their own ground or `ground`."""
    found = {selector: round(contrast(pairs[name], pairs.get("background-color", "").strip() or ground), 2)
             for selector, pairs in sheet.items() if pairs.get(name, "").startswith("#")
             and not pairs.get("background-color", "#").startswith(("t", "i"))}
    return {selector: ratio for selector, ratio in found.items() if ratio < ENOUGH}
