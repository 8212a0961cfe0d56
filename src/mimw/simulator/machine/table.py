"""The meaning of every op: one handler a row, put here by the files of the op families in `words`.

Input: a function and the names of its ops. Output: entries of `HANDLERS`. For example:

    @handles("make_range")
    def make_range(task, op):
        task.env[op.result] = np.arange(op.start, op.end, dtype=...)

A handler is called as `run(task, op)`; it reads `task.env` and writes the op's results there. It is of one of three kinds:

    plain       runs at once
    switching   runs at once, but the scheduler may let others go first: for effects that other tasks can see
    generator   may block: it yields a `Wait` for as long as it cannot go on, None to let others go first

A family that can find facts about an op once for all its runs gives the op a faster handler of its own: see `made_for`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...ir import Op


@dataclass(frozen=True)
class Handler:
    """The function that runs an op. `switches`: true of ops at which others may be scheduled; `made`: gives a faster `run` for
    one op."""

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
