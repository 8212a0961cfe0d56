"""Values that not every op may take: dots that are still running, and numbers that differ between the threads of a task.

Input: an op that reads such a value (`Task.read`). Output: the value, or the error that names the line where it came from. For
example:

    PendingDot(op).refuse(task, add)       AsyncDotReadEarly: the result of the async_dot is read before a wait has finished it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import AsyncDotReadEarly, SimulatorMisuse, fail
from ...ir import Op
from .protocols import Reader


@dataclass(eq=False, slots=True)
class PendingDot:
    """The value of an asynchronous dot before a wait has finished it; `result` is there once it has landed."""

    op: Op
    result: Any = None
    done: bool = False

    def refuse(self, task: Reader, op: Op) -> None:
        raise AsyncDotReadEarly(f"{task.where}: {op.name} at {op.site} reads the result of the async_dot at "
                                f"{self.op.site} before a wait has finished it", op.site, self.op.site,
                                hint="put the result through async_dot_wait and use what that returns")


class PerThread(np.ndarray):
    """A scalar that is not the same in all threads of a task: one element for each of them."""

    def check(self, task: Reader, op: Op) -> None:
        """Refuse an op that needs one number for the whole task."""
        if "lanes" not in op.row.traits and (op.row.layout != "same" or "control" in op.row.effects):
            raise fail(SimulatorMisuse, task, op, f"{op.name} takes a number that differs between the threads of the task, "
                       "since it comes from thread_id", hint="only arithmetic, `if`, tl.load and tl.store may take it")


