"""Meaning of the integer ops of the table, for readers that work with plain numbers.

Input: the name of an op. Output: the function of two numbers that the op folds to, and the relation that a comparison tests. For
example:

    FOLDS["srem"](-7, 4)       -3: the remainder has the sign of the dividend
    RELATIONS["icmpULT"]       "<"
"""

from __future__ import annotations

from collections.abc import Callable


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b)


# Of unsigned ops only what they give for numbers of one sign; a reader leaves the others alone.
FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "sdiv": _quotient, "udiv": _quotient, "srem": _remainder, "urem": _remainder,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "icmpEQ": lambda a, b: int(a == b), "icmpNE": lambda a, b: int(a != b),
    "icmpSLT": lambda a, b: int(a < b), "icmpSLE": lambda a, b: int(a <= b),
    "icmpSGT": lambda a, b: int(a > b), "icmpSGE": lambda a, b: int(a >= b),
}
RELATIONS = {"icmpSLT": "<", "icmpULT": "<", "icmpSLE": "<=", "icmpULE": "<=", "icmpSGT": ">", "icmpUGT": ">", "icmpSGE": ">=",
             "icmpUGE": ">=", "icmpEQ": "==", "icmpNE": "!="}
