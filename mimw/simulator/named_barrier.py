"""The numbered hardware barriers of a CTA (PTX ISA, "bar"): they open when so many threads have come, and start again."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import BarrierMisuse
from ..ir import Op
from .table import handles
from .tasks import Task, Wait, fail

WARP = 32


@dataclass(eq=False)
class NamedBarrier:
    """`threads` is what the current round was begun for; `rounds` counts those that are over."""

    number: int
    threads: int = 0
    come: int = 0
    rounds: int = 0
    opened_at: float = 0.0
    began: Op | None = None
    waiters: list[Task] = field(default_factory=list)

    def arrive(self, task: Task, op: Op, threads: int) -> None:
        """All threads of `task` have come."""
        task.release()
        if self.come and threads != self.threads:
            raise fail(BarrierMisuse, task, op, f"named barrier {self.number} opens for {threads} threads here and for "
                       f"{self.threads} at {self.began.site}, in one round", self.began.site,
                       hint="give one count on all sides")
        if not self.come:
            self.threads, self.began, self.opened_at = threads, op, 0.0
        task.machine.order.release(task, (self, self.rounds))
        if task.machine.guide is not None:      # which of several tasks' arrivals make a round may differ
            task.machine.guide.touched((task.cta.index, "named barrier", self.number), "arrive", self.rounds)
        self.come += WARP * task.num_warps
        if self.come > threads:
            raise fail(BarrierMisuse, task, op, f"{self.come} threads have come to named barrier {self.number}, which opens for "
                       f"{threads}", self.began.site, hint="count the threads of every task that waits or arrives there")
        self.opened_at = max(self.opened_at, task.clock)
        if self.come == threads:
            self.come, self.rounds = 0, self.rounds + 1
            for waiter in self.waiters:
                waiter.machine.wake(waiter)
            self.waiters.clear()


def _barrier(task: Task, op: Op) -> NamedBarrier:
    return task.cta.named_barriers.setdefault(op.args[0], NamedBarrier(op.args[0]))


@handles("named_barrier_arrive", switches=True)
def named_barrier_arrive(task, op):
    _barrier(task, op).arrive(task, op, op.args[1])
    task.machine.polls = 0


@handles("named_barrier_wait")
def named_barrier_wait(task, op):
    yield None
    barrier = _barrier(task, op)
    this_round = barrier.rounds
    barrier.arrive(task, op, op.args[1])
    task.machine.polls = 0
    while barrier.rounds == this_round:
        barrier.waiters.append(task)
        yield Wait(op, "named barrier", barrier, lambda: f"named barrier {barrier.number}: {barrier.come} of {barrier.threads} "
                   "threads have come")
    task.machine.order.acquire(task, (barrier, this_round))
    task.wait_until(barrier.opened_at, op, f"named barrier {barrier.number}")
