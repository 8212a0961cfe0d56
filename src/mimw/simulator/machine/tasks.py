"""What runs and what is under way: CTAs, their tasks, why a task is blocked, and operations in flight.

Input: the machine makes them. Output: plain objects with the state of a run. For example:

    Task(machine, cta, "load", env, num_warps=1, first_warp=4, clock=0.0)
    machine.start(InFlight("TMA load", task, op, end=1200.0, land=write_the_tile))
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir import Block, Op, Value
from .code import Code
from .gpus import Gpu
from .guarded import PendingDot, PerThread
from .poison import Poisoned
from .protocols import CtaGroup, Scheduler


@dataclass(eq=False, slots=True)
class Wait:
    """The reason why a task is blocked: `detail` says it for people, `needs` gives operations in flight that would help."""

    op: Op
    kind: str
    resource: Any
    detail: Callable[[], str]
    needs: Callable[[], Iterable[InFlight]] = tuple


@dataclass(eq=False, slots=True)
class InFlight:
    """An asynchronous operation on its way: `land` does what it was started for, at time `end`.

    `group` names the issuer's sequence of groups that a wait counts: "wgmma", "bulk", "cp.async", "tdm"; "" is for what lands on
    a barrier, "remote" for ordinary stores that are only late. `strand` is its place in the order of accesses.
    """

    kind: str
    task: Task
    op: Op
    end: float
    land: Callable[[InFlight], None] | None     # None once it has landed
    landed: bool = False
    destination: Any = None
    lands_by: Callable[[], str] | None = None       # by what, for messages
    follows: InFlight | None = None         # lands before this one can
    followed_by: InFlight | None = None     # that waits for this one to land
    group: str = ""
    lands_in: Cta | None = None     # whose shared memory it writes or reads last, if not the issuer's
    strand: Any = None
    number: int = 0                 # of its start

    def ready(self) -> bool:
        """True if it can land now."""
        return self.follows is None or self.follows.landed

    @property
    def machine(self) -> Scheduler:
        return self.task.machine


class Unit:
    """A part of an SM that does one thing at a time (TMA, tensor cores), shared by the tasks of a CTA."""

    KEPT = 16

    def __init__(self, cta: Cta):
        self._cta = cta
        self._busy: list[tuple[float, float]] = []
        self._many = self.KEPT

    def reserve(self, earliest: float, duration: float) -> float:
        """The start of the first free stretch of `duration` from `earliest` on. Clocks come in any order."""
        start = earliest
        if not self._busy or self._busy[-1][1] <= earliest:
            self._busy.append((start, start + duration))        # as below, without a look at each stretch
            self._forget()
            return start
        for begin, end in self._busy[self._passed(earliest):]:
            if begin >= start + duration:
                break
            start = max(start, end)
        insort(self._busy, (start, start + duration))
        self._forget()
        return start

    def _forget(self) -> None:
        if len(self._busy) > self._many:
            self._busy = self._busy[self._passed(self._cta.now):]
            self._many = self.KEPT + 2 * len(self._busy)

    def _passed(self, now: float) -> int:
        """The number of stretches that are over for who comes at `now` or later."""
        return max(0, bisect_right(self._busy, (now, float("inf"))) - 1)


@dataclass(eq=False)
class Cta:
    """One program instance, number `rank` of its cluster.

    `memory` and `barriers` hold what the last execution of each allocation made: the handles of other CTAs name these.
    """

    number: int
    index: tuple[int, int, int]
    cluster: CtaGroup
    rank: int = 0
    gpu: Gpu | None = None          # the GPU that it runs on; None where nothing runs
    memory: dict[Value, Any] = field(default_factory=dict)
    barriers: dict[Value, Any] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)
    named_barriers: dict[int, Any] = field(default_factory=dict)
    descriptors: dict[tuple[str, Op], Any] = field(default_factory=dict)    # where those lie that its tasks make in no slot
    tasks: list[Task] = field(default_factory=list)
    live: int = 0
    refused: Op | None = None       # that saw first that a request for the work of another cluster was refused
    granted: dict[int, tuple[Op, tuple]] = field(default_factory=dict)      # by the address of an answer nobody has read yet: the
                                                                            # request, and the cluster that it has got

    @property
    def key(self) -> tuple[int, ...]:
        """Its program id, in a launch on several GPUs with the rank behind it: the same in every run, and no other CTA's."""
        return self.index if self.gpu is None or not self.gpu.others else (*self.index, self.gpu.rank)

    def __str__(self) -> str:
        return f"CTA {self.index}{self.gpu.label if self.gpu is not None else ''}"

    def unit(self, name: str) -> Unit:
        found = self.units.get(name)
        if found is None:
            found = self.units[name] = Unit(self)
        return found

    @property
    def now(self) -> float:
        """No task of it acts before this time: the earliest clock but of those that wait for their own tasks."""
        parents = {task.parent for task in self.tasks if not task.finished}
        return min((task.clock for task in self.tasks if not task.finished and task not in parents), default=float("inf"))

    def drop(self, parent: Task, names: Iterable[str]) -> None:
        """`parent` starts tasks of these names: those of the same names that it had before are over."""
        over = [task for task in self.tasks if task.parent is parent and task.name in names]
        if over:
            self.tasks[:] = [task for task in self.tasks if task not in over]
            parent.machine.order.drop(over)

    def forget(self) -> None:
        """It is over: what it held is free, whoever still knows its name."""
        for task in self.tasks:
            task.calls.clear()
        for held in (self.memory, self.barriers, self.units, self.named_barriers, self.descriptors, self.tasks):
            held.clear()


@dataclass(eq=False, slots=True)      # one is made at each call: a frozen class takes three times as long
class PipeCall:
    """A call of a pipe's method that a task has made: `op` on the slot's barrier is what the method became. What the task did after
    the call has a higher tick of the task's strand than `tick`."""

    op: Op
    barrier: Any
    chunk: int
    tick: int

    def __str__(self) -> str:
        return self.barrier.pipe.called(self.op, self.barrier.index, self.chunk)


CALLS = 64      # of a task that are remembered


class Task:
    """One thread of control: a task of a CTA, or the kernel's body outside of tasks (named 'default')."""

    def __init__(self, machine: Scheduler, cta: Cta, name: str, env: dict[Value, Any], num_warps: int, first_warp: int,
                 clock: float, parent: Task | None = None):
        self.machine, self.cta, self.name, self.env, self.parent = machine, cta, name, env, parent
        self.memory = machine.memory if cta.gpu is None else cta.gpu.memory     # global memory, as this GPU reaches it
        self.num_warps, self.first_warp = num_warps, first_warp
        self.clock = self.stretch = clock
        self.active: np.ndarray | None = None           # which threads run code under an `if` on thread_id; None is all
        self.wait: Wait | None = None
        self.blocked_at = self.hopes_at = -1            # the step at which it last was blocked, and that of its place in `Hopes`
        self.strand: Any = None                         # its place in the order of accesses
        self.finished = False
        self.loops: list[Op] = []                       # that it is in, the innermost last
        self.trips = self.look = 0                     # of all its loops so far; when to look at them again
        self.steps: Iterator | None = None
        self.dots: deque = deque()                      # asynchronous dots no wait has finished, oldest first
        self.tensor_work: deque[InFlight] = deque()     # tcgen05 operations, oldest first; the last may be under way
        self.copies: list[InFlight] = []                # cp.async of the group that is still open
        self.groups: list[list[InFlight]] = []          # closed cp.async groups, oldest first
        self.stores: list[InFlight] = []                # TMA store groups, oldest first
        self.moves: list[list[InFlight]] = []           # copies of AMD's data mover, oldest first; a fused one has several parts
        self.moving: list[InFlight] = []                # parts of the copy that is being started
        self.remote: list[InFlight] = []                # ordinary stores to other CTAs that nothing has released yet
        self.calls: deque[PipeCall] = deque(maxlen=CALLS)       # of methods of pipes, the latest last

    @property
    def where(self) -> str:
        """The task for messages."""
        return f"task {self.name!r} of {self.cta}"

    @property
    def is_body(self) -> bool:
        """True of the kernel's body, False of the tasks that it starts."""
        return self.parent is None

    @property
    def task(self) -> Task:
        """Itself: what acts is a task or an operation of one."""
        return self

    def read(self, value: Value, op: Op):
        """The value as a number or tile that may be used; refuses a dot that is still running."""
        data = self.env[value]
        if data.__class__ is PendingDot:
            data.refuse(self, op)
        if data.__class__ is PerThread:
            data.check(self, op)
        if data.__class__ is Poisoned:
            data.refuse(self, op)
        return data

    def take(self, value: Value, op: Op):
        """Read a value as it is: poison stays poison."""
        data = self.env[value]
        return data if data.__class__ is Poisoned else self.read(value, op)

    def used(self, value: Value, op: Op, mask):
        """Read a value of which only the elements that `mask` lets through (None: all) are used."""
        data = self.env[value]
        return data.used(self, op, mask) if data.__class__ is Poisoned and mask is not None else self.read(value, op)

    def code(self, block: Block) -> Code:
        return self.machine.code(block, self.num_warps)

    def last_call(self, is_meant: Callable[[PipeCall], bool]) -> PipeCall | None:
        """The latest call of a pipe's method that is meant; None if it has made none, or many others since."""
        return next(filter(is_meant, reversed(self.calls)), None)

    def wait_until(self, time: float, op: Op | None, label: str) -> None:
        """Move this task's clock to `time`, the moment at which what it waited for was done."""
        if time <= self.clock:
            return
        self.end_stretch()
        self.machine.record(self.cta, self.name, "wait", self.clock, time, label, op)
        self.clock = self.stretch = time

    def release(self) -> None:
        """Land what this task has stored in other CTAs: it is there for whoever acquires what the task does next."""
        for store in self.remote:
            if not store.landed:
                self.machine.land(store)
        self.remote.clear()

    def end_stretch(self) -> None:
        if self.clock > self.stretch:
            self.machine.record(self.cta, self.name, "run", self.stretch, self.clock, self.name, None)
        self.stretch = self.clock


def all_but(what: str, pending: int) -> str:
    """The name of a wait for groups in a timeline: "all dots", "all dots but 1"."""
    return f"all {what} but {pending}" if pending else f"all {what}"
