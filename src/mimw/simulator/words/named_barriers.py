"""The numbered hardware barriers of a CTA (PTX ISA, "bar"): one opens when so many threads have come, and starts again.

Input: a task that comes with all its warps, each of 32 threads. Output: the task goes on when the rounds that its warps are in
are over. For example:

    named_barrier_wait(14, 32) with four warps      four rounds of one warp each, in which no warp waits for another

A task whose warps find room in one round comes as a whole. Otherwise its warps fill one round after the other, and a wait of the
task is over with the last of these rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import BarrierMisuse, fail
from ...ir import Op
from ...target import NVIDIA_WARP
from ..machine.table import handles
from ..machine.tasks import Task, Wait

WARP = NVIDIA_WARP


@dataclass(eq=False)
class Round:
    """One opening of a barrier: `began` gave the number of `threads` that it is for; `time` is when the last so far came."""

    number: int
    threads: int
    began: Op
    come: int = 0
    time: float = 0.0
    waiters: list[Task] = field(default_factory=list)
    leaving: int = 0            # tasks that will acquire what was released here

    @property
    def over(self) -> bool:
        return self.come == self.threads


@dataclass(eq=False)
class NamedBarrier:
    """`current` is the round that is open, if any thread has come to it; `rounds` counts those that were begun."""

    number: int
    current: Round | None = None
    rounds: int = 0

    def arrive(self, task: Task, op: Op, threads: int, stays: bool = False) -> list[Round]:
        """All warps of `task` come; the rounds that they are in. Who `stays` acquires what was released there, if it is one.

        Only a task that is in one round as a whole releases: of another one some warps may have come without the others.
        """
        task.release()
        rounds, left = [], WARP * task.num_warps
        while left:
            one = self._open(task, op, threads)
            if not rounds:
                whole = one.come + left <= threads
                self._tell(task, one, whole)
                one.leaving += stays and whole
            came = min(left, threads - one.come)
            one.come, left, one.time = one.come + came, left - came, max(one.time, task.clock)
            rounds.append(one)
            if one.over:
                self.current = None
                for waiter in one.waiters:
                    waiter.machine.wake(waiter)
                one.waiters.clear()
                if not one.leaving:
                    task.machine.order.forget(one)
        return rounds

    def _open(self, task: Task, op: Op, threads: int) -> Round:
        if self.current is None:
            self.current, self.rounds = Round(self.rounds, threads, op), self.rounds + 1
        elif threads != self.current.threads:
            raise fail(BarrierMisuse, task, op, f"named barrier {self.number} opens for {threads} threads here and for "
                       f"{self.current.threads} at {self.current.began.site}, in one round", self.current.began.site,
                       hint="give one count on all sides")
        return self.current

    def _tell(self, task: Task, one: Round, whole: bool) -> None:
        """Report an arrival to the order and the guide: which of several tasks' arrivals make a round may differ, and if a task
        is cut in two, which task is in which half."""
        if whole:
            task.machine.order.release(task, one)
        if task.machine.guide is not None:
            task.machine.guide.touched((task.cta.key, "named barrier", self.number), "arrive" if whole else "write", one.number)


def _barrier(task: Task, op: Op) -> NamedBarrier:
    return task.cta.named_barriers.setdefault(op.barrier, NamedBarrier(op.barrier))


@handles("named_barrier_arrive", switches=True)
def named_barrier_arrive(task, op):
    _barrier(task, op).arrive(task, op, op.threads)
    task.machine.polls = 0


@handles("named_barrier_wait")
def named_barrier_wait(task, op):
    """A task that came as a whole knows what all did who came as a whole to its round; one that was cut knows of nobody."""
    yield None
    barrier = _barrier(task, op)
    rounds = barrier.arrive(task, op, op.threads, stays=True)
    task.machine.polls, last = 0, rounds[-1]
    while not last.over:
        last.waiters.append(task)
        yield Wait(op, "named barrier", barrier, lambda: f"named barrier {barrier.number}: {last.come} of {last.threads} "
                   "threads have come")
    if len(rounds) == 1:
        task.machine.order.acquire(task, last)
        last.leaving -= 1
        if not last.leaving:
            task.machine.order.forget(last)
    task.wait_until(last.time, op, f"named barrier {barrier.number}")
