"""The meaning of every op: one handler a row, put here by the files of the op families.

A handler is called as `run(task, op)`; it reads `task.env` and writes the op's results there.

    plain       runs at once
    switching   runs at once, but the scheduler may let others go first: whatever other tasks can see or change
    generator   may block: it yields a `Wait` for as long as it cannot go on, None to let others go first
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from ..ir import Op


@dataclass(frozen=True)
class Handler:
    """How to run an op. `switches` says of an op whether others may be scheduled at it."""

    run: Callable
    generator: bool
    switches: Callable[[Op], bool]


HANDLERS: dict[str, Handler] = {}


def handles(*names: str, switches: bool | Callable[[Op], bool] = False):
    """Register the decorated function as the meaning of the ops `names`."""
    rule = switches if callable(switches) else lambda op: switches

    def register(run: Callable) -> Callable:
        for name in names:
            HANDLERS[name] = Handler(run, inspect.isgeneratorfunction(run), rule)
        return run

    return register
