r"""A line as C's printf makes it, of a format and numbers.

Input: a format with C's conversions, and as many numbers. Output: the text. For example:

    printf("lane %d of %-4u|%5.2f%%\n", [-1, 7, 2.5])       "lane -1 of 7   | 2.50%\n"
"""

from __future__ import annotations

import re

_CONVERSION = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z)?([diouxXcfFeEgGaAp%])")
_PYTHON = {"i": "d", "u": "d", "p": "x"}    # conversions that Python has under another letter


def printf(text: str, values: list) -> str:
    """The text with each number, of numpy's, in the place of its conversion; unsigned conversions take numbers without their
    sign."""
    left = iter(values)

    def shown(found: re.Match) -> str:
        flags, letter = found.groups()
        if letter == "%":
            return "%"
        value = next(left)
        if letter in "ouxXp" and value < 0:
            value = int(value) + (1 << 8 * value.dtype.itemsize)
        if letter in "aA":
            return float(value).hex()
        if letter == "c":
            letter, value = "s", chr(int(value) & 255)
        return f"%{flags}{_PYTHON.get(letter, letter)}" % value

    return _CONVERSION.sub(shown, text)
