"""Waits that cannot return because the waiting task itself brings, later, the arrivals that the wait needs.

Input: a program. Output: nothing, or `WaitCycle` with the lines of the wait and of the arrivals behind it. For example:

    tlx.barrier_wait(full, 0); tlx.barrier_arrive(full)       refused if no other task arrives on `full`

The first phase of a barrier needs its arrivals. If all ops that could bring them stand in the waiting task, behind the
wait, none of them is ever reached. Cycles through several tasks depend on the order of the tasks, and the simulator
finds those.
"""

from __future__ import annotations

from ...errors import WaitCycle
from ...ir import Program
from ...target import Target
from ..analysis import BarrierAccess, BarrierArray, Uses, barriers_of_each_cta, constant_of, first_value, task_label, uses_of


def check_waits(program: Program, target: Target) -> None:
    """Raise `WaitCycle` for the first wait that only its own task could let pass, and only after it."""
    uses = uses_of(program)
    for array in barriers_of_each_cta(program, uses):
        if array.escapes or uses.loops(array.op):
            continue
        known: dict[int | None, list[BarrierAccess]] = {}     # of each slot
        for wait in array.of_kind("wait"):
            if not _first_phase(uses, wait):
                continue
            slot = first_value(uses, wait.index)
            if slot not in known:
                known[slot] = _could_come(uses, array, slot)
            arrivals = known[slot]
            if arrivals and all(_behind(uses, wait, one) for one in arrivals):
                _refuse(array, wait, arrivals)


def _first_phase(uses: Uses, wait: BarrierAccess) -> bool:
    """True if the wait is certainly reached, and waits for the first phase the first time."""
    return not uses.conditional(wait.op) and wait.predicate is None and first_value(uses, wait.op.phase) == 0


def _could_come(uses: Uses, array: BarrierArray, slot: int | None) -> list[BarrierAccess]:
    """The arrivals on what may be the barrier of that slot."""
    numbers = [(one, constant_of(uses, one.index)) for one in array.of_kind("arrive", "expect", "commit")]
    return [one for one, number in numbers if slot is None or number is None or number == slot]


def _behind(uses: Uses, wait: BarrierAccess, one: BarrierAccess) -> bool:
    return one.task is wait.task and uses.position[one.op] > uses.position[wait.op]


def _refuse(array: BarrierArray, wait: BarrierAccess, arrivals: list[BarrierAccess]) -> None:
    places = ", ".join(dict.fromkeys(str(one.op.site) for one in arrivals))
    if array.pipe is not None:
        awaits, brings = array.pipe.verb(wait.op), array.pipe.brings
        raise WaitCycle(
            f"the {awaits} of task '{task_label(wait.task)}' on {array.pipe.pipe} never returns: the {brings} that lets it pass "
            f"comes from the same task, behind it, at {places}.", wait.op.site, *(one.op.site for one in arrivals), array.op.site,
            hint=f"call the {brings} first, or give the pipe's other end to another partition.")
    raise WaitCycle(
        f"the wait of task '{task_label(wait.task)}' for {array} never returns: the arrivals that complete the phase come from "
        f"the same task, behind the wait, at {places}.", wait.op.site, *(one.op.site for one in arrivals), array.op.site,
        hint="arrive before the wait, or let another task arrive; a wait that must pass a fresh barrier at once takes parity 1.")
