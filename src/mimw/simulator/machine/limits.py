"""How many trips of loops a task may take before its loop counts as endless.

Input: the trips of a task's loops. Output: nothing, or an `EndlessLoop`. For example:

    limit = trip_limit()                 # MIMW_MAX_TRIPS, or TRIPS
    count(task, op, trips)               # raises EndlessLoop, with the lines of `op` and of the loops around it

A `for` loop knows its trips before the first one, so it is refused at once; a `while` loop counts each. A `while` loop that
changes nothing, in which no other task gets a turn, is found as soon as it is looked at, every LOOK trips.
"""

from __future__ import annotations

import os

from ...errors import EndlessLoop, SimulatorMisuse
from ...ir import Op

TRIPS = 10_000_000      # more than a minute of simulation, whatever the loop does
LOOK = 1_000
VARIABLE = "MIMW_MAX_TRIPS"
_HARMLESS = frozenset(("pure", "read", "control", "debug"))


def trip_limit() -> int:
    """Trips of loops that one task may take in all."""
    text = os.environ.get(VARIABLE) or str(TRIPS)
    if not text.isdigit() or not int(text):
        raise SimulatorMisuse(f"{VARIABLE}={text} should be a number of loop trips, 1 or more")
    return int(text)


def count(task, op: Op, trips: int) -> None:
    """`trips` more of the loop `op`: before `task` takes them in a `for` loop; behind a trip in a `while` loop, which adds each to
    `task.trips` itself and need not call before `task.look` of them."""
    task.trips += trips
    limit = task.machine.max_trips
    task.look = min(limit, task.trips + LOOK)
    around = [loop.site for loop in reversed(task.loops)]
    if _stuck(task, op):
        what = ", ".join(f"{value.name!r}" for value in op.results if value.name) or "what its condition reads"
        raise EndlessLoop(f"{task.where}: this loop never ends: a trip writes nothing, and leaves {what} as it was", *around,
                          hint="change in the loop a value that its condition reads; read memory that another task or CTA writes "
                          "by tl.load(..., volatile=True) or an atomic")
    if task.trips > limit:
        what = "has not ended" if op.name == "while" else f"would run for {trips} trips"
        raise EndlessLoop(f"{task.where}: this loop {what}; {task.trips} trips of loops are more than the {limit} that a task may "
                          "take in the simulator", *around,
                          hint=f"look at the loop's bound or condition; if it is right, raise the limit by {VARIABLE}")


def endless_step(task, step: int) -> EndlessLoop:
    """The error for a `for` loop that does not move towards its end."""
    sites = (loop.site for loop in reversed(task.loops))
    return EndlessLoop(f"{task.where}: the step of this loop is {step}, so it never ends", *sites,
                       hint="give range() a step above 0; one below 0 has to be a compile-time constant")


def _stuck(task, op: Op) -> bool:
    """True if the last trip of a `while` loop has given back just what it began with, and cannot do otherwise in the next."""
    if op.name != "while" or any(task.code(block).switches for block in op.blocks):
        return False
    if any(not inner.row.effects <= _HARMLESS for inner in op.walk()):
        return False
    before, after = op.blocks[0].args, op.blocks[1].yielded
    if any(not hasattr(task.env.get(value), "tobytes") for value in (*before, *after)):
        return False        # it carries handles
    return all(task.env[old].tobytes() == task.env[new].tobytes() for old, new in zip(before, after))
