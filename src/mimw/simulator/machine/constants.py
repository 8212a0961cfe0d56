"""Values that are the same whenever and wherever they are computed: evaluated once a program, not by every task in every trip.

Input: a program. Output: its constant values, and the ops that made them and need not run any more. For example:

    values, ops = constants(program)     {value: number or tile}, {op, ...}

Only ops that take no time are among them, so no clock goes otherwise. They count as if they had run.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...errors import SimulatorMisuse
from ...ir import Block, Op, Program, Value
from .table import HANDLERS

_KNOWN: WeakKeyDictionary[Block, tuple[dict[Value, Any], frozenset[Op]]] = WeakKeyDictionary()


class _Nobody:
    """Stands for a task: of one, such an op uses the environment only."""

    tells_threads_apart = False

    def __init__(self):
        self.env: dict[Value, Any] = {}
        self.machine = self

    def read(self, value: Value, op: Op) -> Any:
        return self.env[value]


def constants(program: Program) -> tuple[dict[Value, Any], frozenset[Op]]:
    known = _KNOWN.get(program.body)
    if known is None:
        known = _KNOWN[program.body] = _evaluated(program)
    return known


def _evaluated(program: Program) -> tuple[dict[Value, Any], frozenset[Op]]:
    nobody, done = _Nobody(), []
    for op in program.walk():
        if _is_folded(op) and all(value in nobody.env for value in op.operands):
            try:
                HANDLERS[op.name].run(nobody, op)
            except SimulatorMisuse:
                continue        # it is an error where it runs, if it does
            done.append(op)
    for data in nobody.env.values():
        if isinstance(data, np.ndarray):
            data.flags.writeable = False        # all tasks share it
    return nobody.env, frozenset(done)


def _is_folded(op: Op) -> bool:
    """True if an op may run before its task does: it takes no time, and has no effect."""
    return op.row.cost == "free" and op.row.effects == {"pure"}
