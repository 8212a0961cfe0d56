"""Operands of ops as Python numbers.

Input: a task, the op, and an operand: a Python constant or a value in the task's environment. Output: ints and bools. For
example:

    position(task, op, op.index)       2
    enabled(task, op, op.predicate)    True, also where the op has no predicate
"""

from __future__ import annotations

import numpy as np

from ...ir import Value
from .tasks import Task

_NUMBER = np.int32


def position(task, op, index) -> int:
    """An index or offset that is a Python integer or an i32 value."""
    if index.__class__ is not Value:
        return int(index)
    data = task.env[index]
    return int(data if data.__class__ is _NUMBER else task.read(index, op))


def offsets_of(task, op, values) -> list[int]:
    """Run-time offsets as Python integers."""
    env = task.env
    return [int(data if (data := env[value]).__class__ is _NUMBER else task.read(value, op)) for value in values]


def enabled(task: Task, op, predicate) -> bool:
    """The value of an optional predicate; none is true."""
    return predicate is None or bool(task.read(predicate, op))
