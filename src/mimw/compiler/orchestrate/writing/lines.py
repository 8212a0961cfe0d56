"""Lines of code, broken at commas where they are too long.

Input: one statement, its indentation, a comment. Output: lines of at most 120 columns, where there are brackets to break in. For
example:

    broken("x = tl.load(a, mask=b)", "    ", "line 9")      ["    x = tl.load(a, mask=b)  # line 9"]
"""

from __future__ import annotations

import textwrap

WIDTH = 120


def broken(code: str, indent: str, note: str = "") -> list[str]:
    """The lines of a statement. A note stands behind it if there is room, else above."""
    if note and len(indent) + len(code) + len(note) + 4 <= WIDTH:
        return [f"{indent}{code}  # {note}"]
    lines = textwrap.wrap(note, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ") if note else []
    begin, margin, places = 0, indent, _places(code)
    while len(margin) + len(code) - begin > WIDTH:
        fitting = [(-depth, place) for place, depth in places if place > begin and len(margin) + place - begin <= WIDTH]
        place = max(fitting)[1] if fitting else next((place for place, _ in places if place > begin), None)
        if place is None:
            break
        lines.append(margin + code[begin:place].rstrip())
        begin, margin = place + (code[place:place + 1] == " "), indent + " " * 8
    return [*lines, margin + code[begin:]]


def _places(code: str) -> list[tuple[int, int]]:
    """Behind each comma within brackets, with the number of brackets around it: a line is broken in as few as will do."""
    found, depth, quoted = [], 0, ""
    for index, letter in enumerate(code):
        if quoted:
            quoted = "" if letter == quoted and code[index - 1] != "\\" else quoted
        elif letter in "\"'":
            quoted = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
            if letter == "," and depth and code[index + 1:index + 2] == " ":
                found.append((index + 1, depth))
    return found
