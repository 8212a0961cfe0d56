"""Barriers among some CTAs of a cluster, and among all CTAs of a launch."""

from __future__ import annotations

from dataclasses import dataclass, field

from .tasks import Cta, Task, Wait


@dataclass(eq=False)
class Meeting:
    """A barrier among CTAs, each one task: it opens when all are there, and counts how often."""

    what: str
    ctas: list[Cta]
    phase: int = 0
    came: dict[Cta, float] = field(default_factory=dict)
    opened_at: float = 0.0
    waiters: list[Task] = field(default_factory=list)

    def arrive(self, task: Task) -> None:
        self.came[task.cta] = task.clock
        if len(self.came) < len(self.ctas):
            return
        self.phase, self.opened_at = self.phase + 1, max(self.came.values())
        self.came.clear()
        for waiter in self.waiters:
            waiter.machine.wake(waiter)
        self.waiters.clear()

    def state(self) -> str:
        """Who is missing, for messages."""
        missing = [cta for cta in self.ctas if cta not in self.came]
        names = ", ".join(f"CTA {cta.index}{'' if cta.live else ' (which has left)'}" for cta in missing[:4])
        more = f" and {len(missing) - 4} others" if len(missing) > 4 else ""
        return f"the barrier of {self.what}, to which {names}{more} have not come"


def meet(task: Task, op, meeting: Meeting):
    yield None
    task.release()
    phase = meeting.phase
    task.machine.order.release(task, (meeting, phase))
    task.machine.order.forget((meeting, phase - 2))      # who comes has seen the phase before open, so that one is over for all
    meeting.arrive(task)
    while meeting.phase == phase:
        meeting.waiters.append(task)
        yield Wait(op, "meeting", meeting, meeting.state)
    task.machine.order.acquire(task, (meeting, phase))
    task.wait_until(meeting.opened_at, op, "distributed barrier")


