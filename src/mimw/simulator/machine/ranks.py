"""Barriers among GPUs: the programs of one program id, one at each rank.

Input: the ranks that wait for each other, and the program id. Output: a `Rendezvous`; the task goes on when a task of that program
has come at every rank. For example:

    yield from arrive_and_wait(task, op, RankBarrier(machine, (0, 1, 2, 3), (5, 0, 0)))

A CTA of another rank need not have started when the first ones come, and may have left: so the ranks are counted, not CTAs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .rendezvous import Rendezvous
from .tasks import Cta, Task

if TYPE_CHECKING:
    from .machine import Machine


class RankBarrier(Rendezvous):
    """One task of the program `index` comes at each of `ranks`."""

    kind, label = "world", "barrier of ranks"

    def __init__(self, machine: Machine, ranks: tuple[int, ...], index: tuple[int, int, int]):
        super().__init__([])
        self.machine, self.ranks, self.index = machine, ranks, index

    def arrive(self, task: Task, count: int) -> None:
        rank = task.cta.gpu.rank
        self.came[rank] = self.came.get(rank, 0) + count
        self.latest = max(self.latest, task.clock)
        self.settle()

    def settle(self) -> None:
        """Open if all have come."""
        if len(self.came) == len(self.ranks):
            self.open()

    def absent(self) -> list[int]:
        """The ranks that have not come."""
        return [rank for rank in self.ranks if rank not in self.came]

    def state(self) -> str:
        named = ", ".join(f"rank {rank}, {self._where(rank)}" for rank in self.absent())
        return f"the barrier of ranks {', '.join(map(str, self.ranks))} for program {self.index}, to which have not come: {named}"

    def _where(self, rank: int) -> str:
        cta = self._cta(rank)
        if self.machine.uneven is not None and rank in self.machine.uneven.dead:
            return "which has died"
        if cta is None or not cta.live:
            return "whose program has left" if rank in self.machine.left.get(self.index, ()) or cta is not None else \
                "whose program has not started"
        stuck = next((task for task in cta.tasks if task in self.machine.blocked and task.wait.kind != "join"), None)
        return f"whose task {stuck.name!r} waits at {stuck.wait.op.site}" if stuck is not None else "whose program runs"

    def _cta(self, rank: int) -> Cta | None:
        return next((cta for cta in self.machine.ctas.values() if cta.gpu.rank == rank and cta.index == self.index), None)
