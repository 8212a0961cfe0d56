"""The meaning of every op: one handler a row, put here by the files of the op families.

A handler is called as `run(task, op)`; it reads `task.env` and writes the op's results there.

    plain       runs at once
    switching   runs at once, but the scheduler may let others go first: whatever other tasks can see or change
    generator   may block: it yields a `Wait` for as long as it cannot go on, None to let others go first

What an op needs to know of itself may be found once for all its runs: see `made_for`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...ir import Op


@dataclass(frozen=True)
class Handler:
    """How to run an op. `switches`: whether others may be scheduled at it; `made`: gives a faster `run` for this op alone."""

    run: Callable
    generator: bool
    switches: Callable[[Op], bool]
    made: Callable[[Op], Callable] | None = None

    def run_of(self, op: Op) -> Callable:
        return self.run if self.made is None else self.made(op)


HANDLERS: dict[str, Handler] = {}


def handles(*names: str, switches: bool | Callable[[Op], bool] = False):
    """Register the decorated function as the meaning of the ops `names`."""
    rule = switches if callable(switches) else lambda op: switches

    def register(run: Callable) -> Callable:
        for name in names:
            HANDLERS[name] = Handler(run, inspect.isgeneratorfunction(run), rule)
        return run

    return register


def made_for(*names: str):
    """Register the decorated function as what makes a faster `run` for one op of `names`, with the same meaning."""

    def register(make: Callable[[Op], Callable]) -> Callable:
        for name in names:
            HANDLERS[name] = replace(HANDLERS[name], made=make)
        return make

    return register
