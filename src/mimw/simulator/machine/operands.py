"""Operands of ops as Python numbers.

Input: a task, the op, and an operand: a Python constant or a value in the task's environment. Output: ints and bools. For
example:

    position(task, op, op.index)       2
    enabled(task, op, op.predicate)    True, also where the op has no predicate
"""

from __future__ import annotations

from .tasks import Task


def position(task, op, index) -> int:
    """An index or offset that is a Python integer or an i32 value."""
    return int(task.read(index, op)) if hasattr(index, "type") else int(index)


def offsets_of(task, op, values) -> list[int]:
    """Run-time offsets as Python integers."""
    return [int(task.read(value, op)) for value in values]


def enabled(task: Task, op, predicate) -> bool:
    """The value of an optional predicate; none is true."""
    return predicate is None or bool(task.read(predicate, op))
