"""Barriers that begin and end: memory in which mbarriers are initialised and invalidated (PTX ISA, mbarrier.init, mbarrier.inval).

Input: a `barrier_memory`, and the ops that initialise, use and invalidate what lies there. Output: an `Mbarrier` in phase 0, or a
`BarrierMisuse`. For example:

    life = Life(op.site); barrier = Mbarrier(op.result, 0, 0, op.site, life=life)
    life.begin(barrier, task, init)         phase 0, with the arrivals that `init` says
    life.end(barrier, task, invalidate)     from here on each use is refused

The barriers of `alloc_barriers` have no life: they are there for as long as their kernel runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import BarrierMisuse, BarrierNotReady, fail
from ...ir import Op, Site
from ..machine.tasks import InFlight, Task


class Begun(Protocol):
    """An `Mbarrier`, as far as its lives know it."""

    name: str
    made: Site
    count: int
    coming: list[InFlight]
    waiters: list[Task]
    known: Any

    def state(self) -> str: ...

    def restart(self) -> None: ...


@dataclass(eq=False)
class Life:
    """One place of a `barrier_memory`, which is at `memory`. `last` initialised or invalidated the barrier there; None if nothing
    has since the memory was allocated."""

    memory: Site
    last: Op | None = None
    alive: bool = False

    def check(self, barrier: Begun, task: Task, op: Op) -> None:
        """Refuse an op on a barrier that is not initialised."""
        if self.alive:
            return
        if self.last is None:
            raise fail(BarrierNotReady, task, op, f"{op.name} uses {barrier.name}, which nobody has initialised since its memory "
                       f"was allocated at {self.memory}", self.memory, hint="initialise the barrier (mbarrier.init) before, once "
                       "it is allocated; if another task does so, this one has to know of it")
        raise fail(BarrierMisuse, task, op, f"{op.name} uses {barrier.name}, which {self.last.name} at {self.last.site} has "
                   "invalidated", self.last.site, hint="invalidate the barrier behind its last use, or initialise it again before "
                   "this one")

    def begin(self, barrier: Begun, task: Task, op: Op) -> None:
        """`op` initialises the barrier: it is in phase 0."""
        if not 1 <= op.count < 1 << 20:
            raise fail(BarrierMisuse, task, op, f"{barrier.name} with {op.count} arrivals a phase: PTX has 1 to 2^20 - 1",
                       hint="initialise it with as many arrivals as come in a phase")
        if self.alive:
            use, *sites = _use(barrier)
            raise fail(BarrierMisuse, task, op, f"{op.name} initialises {barrier.name}, which {self.last.name} at "
                       f"{self.last.site} has initialised and nothing has invalidated since: {use}", self.last.site, *sites,
                       hint="invalidate it (mbarrier.inval) behind its last use: PTX leaves open what mbarrier.init does where "
                       "there is an mbarrier")
        task.machine.order.begins(task, op, barrier)
        self.last, self.alive, barrier.made, barrier.count = op, True, op.site, op.count

    def end(self, barrier: Begun, task: Task, op: Op) -> None:
        """`op` invalidates the barrier, or allocates its memory again."""
        allocates = bool(op.row.allocates)
        if self.alive:
            under_way, *sites = _under_way(barrier)
            if under_way:
                does = "allocates again the memory of" if allocates else "invalidates"
                raise fail(BarrierMisuse, task, op, f"{op.name} {does} {barrier.name} while it is in use: {under_way}", *sites,
                           self.last.site, hint="wait for the phase that this completes before" if barrier.coming else
                           "let every wait pass before: join the tasks that wait, or let each arrive on another barrier behind its "
                           "wait")
            task.machine.order.ends(task, op, barrier)
        self.last, self.alive = None if allocates else op, False
        barrier.restart()


def _under_way(barrier: Begun) -> tuple:
    """(what is on its way to a barrier, or waits for it; its line); ("", ) if nothing is or does."""
    if barrier.coming:
        copy = barrier.coming[0]
        return f"the {copy.kind} that {copy.task.where} started at {copy.op.site} has not completed on it", copy.op.site
    waits = [(task, task.wait.op) for task in barrier.waiters if task.wait is not None and task.wait.resource is barrier]
    return next(((f"{task.where} waits for it at {op.site}", op.site) for task, op in waits), ("", ))


def _use(barrier: Begun) -> tuple:
    """(what is the matter with a barrier that is initialised, line of it)."""
    under_way, *sites = _under_way(barrier)
    return (under_way or barrier.state(), *sites)
