"""The tables of what each op is in text.

Input: functions for names of ops. Output: `EXPRESSIONS`, which give the text of an op's only result, and `STATEMENTS`, which write
lines. For example:

    @expression("fadd fsub")
    def _sum(w, op): ...        a Text

What no table has is refused, with its line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import NotYet
from ....ir import Op

EXPRESSIONS: dict[str, Callable[[Any, Op], Any]] = {}
STATEMENTS: dict[str, Callable[[Any, Op], None]] = {}


def expression(names: str):
    """Register a function of a writer and an op for these ops."""
    return _register(EXPRESSIONS, names)


def statement(names: str):
    """Register a function that writes lines for these ops."""
    return _register(STATEMENTS, names)


def unwritten(op: Op, why: str = "") -> NotYet:
    """The error for an op that has no text."""
    word = f" ({op.row.word})" if op.row.word != op.name else ""
    return NotYet(f"{op.name}{word} has no text of a kernel yet{': ' + why if why else ''}", op.site,
                  hint="the kernel is launched as its author wrote it")


def _register(table: dict, names: str):
    def add(function):
        for name in names.split():
            table[name] = function
        return function
    return add
