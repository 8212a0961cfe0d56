"""mbarriers: phases that complete after so many arrivals and so many bytes (PTX ISA, "mbarrier").

Input: arrivals of tasks, and copies that complete bytes. Output: completed phases, and tasks that are woken. For example:

    barrier.arrive(1, task, op, size=8192)      one arrival; the phase waits for 8192 bytes
    barrier.complete(copy, 8192)                they have landed: phase 0 is over
    barrier.completed(parity=0)                 True

A barrier is always in some phase. The phase completes when as many arrivals have come as the barrier was made for and no bytes
are pending; at that moment the next phase begins. A wait names a phase by its parity and passes when the current phase has the
other one. A barrier that has just been made is in phase 0, so a wait for parity 1 passes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...compiler.analysis import PipeSide
from ...compiler.analysis.launch_control import FULL, miscounted
from ...errors import BytesNotExpected, TooManyArrivals, fail
from ...ir import Barrier, Site, Value
from ...ir.trace import BY_PRODUCTS
from ..machine.tasks import InFlight, Task
from .barrier_lives import Life


@dataclass(eq=False)
class Mbarrier:
    """One mbarrier. `root` is the value of its array, `index` its place there."""

    root: Value
    index: int
    count: int
    made: Site
    phase: int = 0                      # number of completed phases
    arrived: int = 0
    pending_bytes: int = 0
    latest: float = 0.0                 # time of the last event of the current phase
    completed_at: list[float] = field(default_factory=lambda: [0.0, 0.0])
    waiters: list[Task] = field(default_factory=list)
    coming: list[InFlight] = field(default_factory=list)
    pipe: PipeSide | None = None        # if a pipe made it, whose user knows of slots and chunks only
    products: bool = False              # whether tcgen05 commits arrive on it
    known: Any = None                   # to the order of accesses
    clc: str = ""                       # what it is to the context of cluster launch control that made it, `empty` or `full`
    life: Life | None = None            # of a barrier that is initialised and invalidated: when it is one

    @property
    def name(self) -> str:
        if self.pipe is not None:
            return self.pipe.slot(self.index)
        return f"{self.root.name or f'barriers of line {self._memory.line}'!r}[{self.index}]"

    @property
    def array(self) -> str:
        """The name of its array and the line where it was made: "'free' (line 24)", or the release of a pipe's slots."""
        if self.pipe is not None:
            return f"the {self.pipe.brings} of {self.pipe.pipe}"
        return f"{self.root.name or 'barriers'!r} (line {self._memory.line})"

    @property
    def _memory(self) -> Site:
        """The line that allocated it."""
        return self.made if self.life is None else self.life.memory

    def restart(self) -> None:
        """Forget what happened in the life that is over."""
        self.phase = self.arrived = self.pending_bytes = 0
        self.latest, self.completed_at, self.products = 0.0, [0.0, 0.0], False
        self.waiters.clear()

    def check(self, task: Task, op) -> None:
        """Refuse `op` if the barrier is not initialised."""
        if self.life is not None:
            self.life.check(self, task, op)

    def completed(self, parity: int) -> bool:
        """True if the phase of that parity has completed."""
        return self.phase & 1 != parity

    def arrive(self, count: int, task: Task, op, size: int = 0) -> None:
        """`count` arrivals of `task`, which also make the phase wait for `size` bytes more."""
        task.release()
        if self.arrived + count > self.count and self.pipe is not None:
            wrong, mend = self.pipe.too_many(self.index, task.calls[-1].chunk)
            raise fail(TooManyArrivals, task, op, wrong, self.made, hint=mend)
        if self.arrived + count > self.count:
            more = f"{count} more arrival{'s' * (count != 1)}"
            raise fail(TooManyArrivals, task, op, f"{more} on {self.name}; {self.state()}", self.made,
                       hint=self._fewer(task, op))
        self.arrived += count
        self.pending_bytes += size
        self._check_bytes(task, op)
        task.machine.order.arrives(task, self)
        self._settle(task.clock, task, op)

    def _fewer(self, task: Task, op) -> str:
        """The mend of an arrival too many."""
        if self.clc:
            return miscounted(task.machine.program, self.root) or (
                "let one task call clc_producer, once for each phase of a stage" if self.clc == FULL else
                "let each consumer call clc_consumer once for each phase of a stage, with k and the phase of the producer")
        if op.row.barrier == "expect" and self.pending_bytes > 0:
            return (f"if the slot is filled again here, let {task.name!r} wait before {op.site} for the barrier that releases the "
                    "slot: the copies of the phase before have not landed. Else drop an arrival (an expect is one, too)")
        return "allocate it with a larger arrive_count, or drop an arrive (an expect is one, too)"

    def expect(self, copy: InFlight) -> None:
        """`copy` is on its way, and will complete bytes here; or a commit, which will arrive."""
        self.coming.append(copy)
        self.products |= copy.kind == "tcgen05_commit"
        for waiter in self.waiters:
            waiter.machine.hopes.add(waiter)

    def complete(self, copy: InFlight, size: int) -> None:
        """`size` bytes of `copy` have landed."""
        self.coming.remove(copy)
        self.pending_bytes -= size
        self._check_bytes(copy.task, copy.op)
        copy.task.machine.order.land(copy, self)
        self._settle(copy.end, copy.task, copy.op)

    def landed(self, copy: InFlight, count: int) -> None:
        """`copy`, of which no bytes count, has landed and arrives `count` times."""
        self.coming.remove(copy)
        copy.task.machine.order.land(copy, self)
        self.arrive_late(count, copy.task, copy.op)

    def arrive_late(self, count: int, task: Task, op) -> None:
        """`count` arrivals that say nothing of what the task itself has done."""
        if self.arrived + count > self.count:
            raise fail(TooManyArrivals, task, op, f"{count} more arrivals on {self.name}; {self.state()}", self.made,
                       hint="initialise it with a larger count: each warp, or each thread, that copies arrives once")
        self.arrived += count
        self._settle(task.clock, task, op)

    def _check_bytes(self, task: Task, op) -> None:
        """PTX ISA, "tx-count of mbarrier objects": -(2^20 - 1) to 2^20 - 1, beyond it is undefined."""
        if abs(self.pending_bytes) > Barrier.MOST_BYTES:
            what = "expects" if self.pending_bytes > 0 else "got, without expecting them,"
            raise fail(BytesNotExpected, task, op, f"phase {self.phase} (parity {self.phase & 1}) of {self.name} {what} "
                       f"{abs(self.pending_bytes)} bytes, and it counts to {Barrier.MOST_BYTES}", self.made,
                       hint="split the copies over several barriers or phases")

    def arrive_of(self, commit: InFlight) -> None:
        """The one arrival of a `tcgen05_commit`, whose earlier work is done."""
        self.coming.remove(commit)
        if self.arrived + 1 > self.count:
            raise fail(TooManyArrivals, commit.task, commit.op, f"1 more arrival on {self.name}; {self.state()}", self.made,
                       hint="allocate it with a larger arrive_count, or drop an arrival: each barrier of `mBarriers` and each "
                       "tcgen05_commit is one")
        self.arrived += 1
        commit.task.machine.order.commits(commit, self)
        self._settle(commit.end, commit.task, commit.op)

    def _settle(self, time: float, task: Task, op) -> None:
        self.latest = max(self.latest, time)
        if self.arrived < self.count:
            return
        if self.pending_bytes < 0:
            raise fail(BytesNotExpected, task, op, f"phase {self.phase} (parity {self.phase & 1}) of {self.name} got "
                       f"{-self.pending_bytes} bytes more than it expects", self.made,
                       hint="barrier_expect_bytes takes the sum of the bytes of all copies of the phase")
        if self.pending_bytes == 0:
            task.machine.order.phase(self, task, op)
            self.completed_at[self.phase & 1] = self.latest
            self.phase, self.arrived, self.latest = self.phase + 1, 0, 0.0
            task.machine.completed.setdefault(self.root, self)
            for waiter in self.waiters:
                waiter.machine.wake(waiter)
            self.waiters.clear()
            if (observer := task.machine.hooks.observer) is not None:
                observer.completes(self, task, op)

    def state(self) -> str:
        """The state of the current phase, for messages."""
        if self.pipe is not None:
            return self.pipe.state(self.phase, self.arrived, self.pending_bytes)
        return (f"it is in phase {self.phase} (parity {self.phase & 1}) with {self.arrived} of {self.count} arrivals "
                f"and {self.pending_bytes} bytes pending")

    def landing(self, where: str = "") -> Callable[[], str]:
        """A function that names the phase in which a copy lands that starts now; `where` tells whose barrier it is."""
        phase = self.phase
        return lambda: f"barrier {self.name}{where}, phase {phase} (parity {phase & 1})"

    def wanted(self, parity: int, op, chunk: int | str | None) -> str:
        """The name of what a wait for `parity` is for: the barrier's phase, or the chunk of its pipe."""
        if self.pipe is not None:
            return self.pipe.wanted(op, self.index, chunk)
        return f"{self.name} parity {parity}{BY_PRODUCTS if self.products else ''}"

    def awaited(self, parity: int, op, chunk: int | str | None) -> str:
        """The name of what a wait for `parity` is for, and the state of the barrier."""
        if self.pipe is not None:
            return f"{self.wanted(parity, op, chunk)}; {self.state()}"
        return f"parity {parity} of {self.name}: {self.state()}"


def single(task: Task, op, value) -> Mbarrier:
    """The one barrier that an op works on: a single one, or an array of one."""
    barrier = _one(task, value)
    barrier.check(task, op)
    task.machine.order.used(task, op, barrier)
    return barrier


def namesake(task: Task, op, value) -> Mbarrier:
    """The barrier by which an op names that of another CTA. Memory of one may hold none here, where CTAs share the first one's."""
    barrier = _one(task, value)
    return barrier if barrier.life is not None else single(task, op, value)


def _one(task: Task, value) -> Mbarrier:
    barriers = task.env[value]
    if isinstance(barriers, Mbarrier):
        return barriers
    (barrier, ) = barriers
    return barrier


