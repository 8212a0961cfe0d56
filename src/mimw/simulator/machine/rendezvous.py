"""Barriers that CTAs wait at: one opens when all expected arrivals have come, counts how often it opened, and starts anew.

Input: a task at the op that waits, and the `Rendezvous`. Output: the task goes on when the barrier has opened, and then knows what
all others did before they came. For example:

    yield from arrive_and_wait(task, op, cluster.barrier)              all warps of all CTAs of a cluster that have not left
    yield from arrive_and_wait(task, op, CtaBarrier("the grid", ctas))    one task of each CTA
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...ir import Op
from .tasks import Cta, Task, Wait

SHOWN = 4       # missing CTAs that a message names


@dataclass(eq=False)
class Rendezvous:
    """A barrier of `ctas`, each of which owes `owed` arrivals a phase. `kind` and `label` name it in a `Wait` and in the timeline.

    `came` counts the arrivals of the current phase, `latest` is the time of the last one; `opened_at` is that of the phase before.
    `laid` has what CTAs lay down for each other when they come, by the phase and by rank.
    """

    ctas: list[Cta]
    owed: int = 1
    phase: int = 0
    came: dict[Cta, int] = field(default_factory=dict)
    latest: float = 0.0
    opened_at: float = 0.0
    waiters: list[Task] = field(default_factory=list)
    laid: dict[int, dict[int, tuple]] = field(default_factory=dict)
    kind, label, awaits_gone = "", "", True

    def arrive(self, task: Task, count: int) -> None:
        """`count` arrivals of the CTA of `task`."""
        self.came[task.cta] = self.came.get(task.cta, 0) + count
        self.latest = max(self.latest, task.clock)
        if len(self.came) == len(self.ctas) or not self.awaits_gone:
            self.settle()

    def settle(self) -> None:
        """Open the barrier if no arrival is missing."""
        if self.came and not any(map(self._is_missing, self.ctas)):
            self.open()

    def open(self) -> None:
        """All who wait go on, and a new phase begins."""
        self.phase, self.opened_at, self.latest = self.phase + 1, self.latest, 0.0
        self.came.clear()
        for waiter in self.waiters:
            waiter.machine.wake(waiter)
        self.waiters.clear()

    def missing(self) -> list[Cta]:
        """The CTAs that still owe arrivals."""
        return list(filter(self._is_missing, self.ctas))

    def state(self) -> str:
        """The arrivals that are missing, for messages."""
        raise NotImplementedError

    def _is_missing(self, cta: Cta) -> bool:
        return self.came.get(cta, 0) < self.owed and (cta.live > 0 or self.awaits_gone)


class ClusterBarrier(Rendezvous):
    """The hardware's barrier of a cluster: every warp of every CTA comes, the warps included that only fill up a group and run
    nothing. CTAs that have left are not waited for."""

    kind, label, awaits_gone = "cluster", "cluster barrier", False

    def state(self) -> str:
        missing = ", ".join(f"{self.owed - self.came.get(cta, 0)} of {self.owed} warps of {cta}"
                            for cta in self.missing())
        return f"the cluster barrier, to which {missing} have not come"


class CtaBarrier(Rendezvous):
    """A barrier that the compiler makes, among the CTAs that `what` names: one task of each CTA comes."""

    kind, label = "ctas", "distributed barrier"

    def __init__(self, what: str, ctas: list[Cta]):
        super().__init__(ctas)
        self.what = what

    def state(self) -> str:
        missing = self.missing()
        names = ", ".join(f"{cta}{'' if cta.live else ' (which has left)'}" for cta in missing[:SHOWN])
        more = f" and {len(missing) - SHOWN} others" if len(missing) > SHOWN else ""
        return f"the barrier of {self.what}, to which {names}{more} have not come"


def arrive_and_wait(task: Task, op: Op, barrier: Rendezvous, count: int = 1) -> Iterator:
    """`task` comes with `count` arrivals, and stays until the barrier has opened."""
    yield None
    task.release()
    order, phase = task.machine.order, barrier.phase
    order.release(task, (barrier, phase))
    order.forget((barrier, phase - 2))      # whoever comes has gone on from phase - 1, so all have acquired the phase before that
    barrier.arrive(task, count)
    while barrier.phase == phase:
        barrier.waiters.append(task)
        yield Wait(op, barrier.kind, barrier, barrier.state)
    order.acquire(task, (barrier, phase))
    task.wait_until(barrier.opened_at, op, barrier.label)
