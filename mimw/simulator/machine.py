"""The machine: CTAs, their tasks, what is in flight between them, and the scheduler that interleaves it all.

Everything is a step of one loop. A seeded generator picks which task goes on and when an asynchronous operation lands, so
one seed is one run. Clocks only follow: a task that waits takes the time of what it waited for, so the timeline is
consistent whatever the order of the steps.

How late things land is part of the seed too. Seed 0 lands an operation only when nobody can go on without it, which is the
harshest for code that does not wait; other seeds draw how eager the machine is.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

import numpy as np

from ..errors import SimulationError, SimulatorMisuse
from ..ir import OPS, Block, Op, Program, Value
from .deadlock import deadlock, livelock
from .interpreter import Code, prepare, run_block
from .memory import GlobalMemory
from .trace import Event, Trace

LATEST = 10_000          # steps an operation stays in flight at most, if others have work for so long
POLL_ROUNDS = 1000, 50   # so many looks at global memory, and so many more per task, with nothing else going on: a spin


@dataclass(frozen=True)
class Wait:
    """Why a task is blocked: `detail` says it for people, `needs` gives operations in flight that would help."""

    op: Op
    kind: str
    resource: Any
    detail: Callable[[], str]
    needs: Callable[[], Iterable[InFlight]] = tuple


@dataclass(eq=False)
class InFlight:
    """An asynchronous operation on its way: `land` does what it was started for, at time `end`."""

    kind: str
    task: Task
    op: Op
    end: float
    land: Callable[[InFlight], None]
    landed: bool = False
    destination: Any = None
    lands_by: str = ""
    ready: Callable[[], bool] = lambda: True


class Unit:
    """A part of an SM that does one thing at a time (TMA, tensor cores), shared by the tasks of a CTA."""

    def __init__(self):
        self._busy: list[tuple[float, float]] = []

    def reserve(self, earliest: float, duration: float) -> float:
        """The start of the first free stretch of `duration` from `earliest` on. Tasks come in any order of their clocks."""
        start = earliest
        index = max(0, bisect_right(self._busy, (earliest, float("inf"))) - 1)
        for begin, end in self._busy[index:]:
            if begin >= start + duration:
                break
            start = max(start, end)
        insort(self._busy, (start, start + duration))
        return start


@dataclass(eq=False)
class Cta:
    """One program instance."""

    number: int
    index: tuple[int, int, int]
    units: dict[str, Unit] = field(default_factory=dict)
    named_barriers: dict[int, Any] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    live: int = 0

    def unit(self, name: str) -> Unit:
        return self.units.setdefault(name, Unit())


class Task:
    """One thread of control: a task of a CTA, or the kernel's body outside of tasks (named 'default')."""

    def __init__(self, machine: Machine, cta: Cta, name: str, env: dict[Value, Any], num_warps: int, first_warp: int,
                 clock: float, parent: Task | None = None):
        self.machine, self.cta, self.name, self.env, self.parent = machine, cta, name, env, parent
        self.num_warps, self.first_warp = num_warps, first_warp
        self.clock = self.stretch = clock
        self.active: np.ndarray | None = None           # which threads run code under an `if` on thread_id; None is all
        self.wait: Wait | None = None
        self.finished = False
        self.steps: Iterator | None = None
        self.dots: deque = deque()                      # asynchronous dots no wait has finished, oldest first
        self.copies: list[InFlight] = []                # cp.async of the group that is still open
        self.groups: list[list[InFlight]] = []          # closed cp.async groups, oldest first
        self.stores: list[InFlight] = []                # TMA store groups, oldest first

    @property
    def where(self) -> str:
        """The task for messages."""
        return f"task {self.name!r} of CTA {self.cta.index}"

    def read(self, value: Value, op: Op):
        """The value as a number or tile that may be used; refuses a dot that is still running."""
        data = self.env[value]
        if data.__class__ is PendingDot:
            data.refuse(self, op)
        if data.__class__ is PerThread:
            data.check(self, op)
        return data

    def code(self, block: Block) -> Code:
        return self.machine.code(block, self.num_warps)

    def wait_until(self, time: float, op: Op, label: str) -> None:
        """Move this task's clock to `time`, the moment at which what it waited for was done."""
        if time <= self.clock:
            return
        self.end_stretch()
        self.machine.record(self.cta, self.name, "wait", self.clock, time, label, op)
        self.clock = self.stretch = time

    def end_stretch(self) -> None:
        if self.clock > self.stretch:
            self.machine.record(self.cta, self.name, "run", self.stretch, self.clock, self.name, None)
        self.stretch = self.clock


@dataclass(eq=False)
class PendingDot:
    """The value of an asynchronous dot before a wait has finished it; `result` is there once it has landed."""

    op: Op
    result: Any = None
    done: bool = False

    def refuse(self, task: Task, op: Op) -> None:
        from ..errors import AsyncDotReadEarly
        raise AsyncDotReadEarly(f"{task.where}: {op.name} at {op.site} reads the result of the async_dot at {self.op.site} "
                                "before a wait has finished it", op.site, self.op.site,
                                hint="put the result through async_dot_wait and use what that returns")


class PerThread(np.ndarray):
    """A scalar that is not the same in all threads of a task: one element for each of them."""

    TAKERS = frozenset(("if", "splat", "load", "masked_load", "store", "masked_store", "vote_ballot", "print"))

    def check(self, task: Task, op: Op) -> None:
        """Refuse an op that needs one number for the whole task."""
        if op.name not in self.TAKERS and (OPS[op.name].layout != "same" or "control" in OPS[op.name].effects):
            raise fail(SimulatorMisuse, task, op, f"{op.name} takes a number that differs between the threads of the task, since it "
                       "comes from thread_id", hint="only arithmetic, `if`, tl.load and tl.store may take it")


class Machine:
    """All CTAs of a launch. `run` executes them to the end or raises what it finds."""

    def __init__(self, program: Program, grid: tuple[int, int, int], arguments: dict[Value, Any], memory: GlobalMemory, *,
                 seed: int, trace: bool, check_unwritten: bool, resident: int = 132):
        self.program, self.grid, self.memory, self.check_unwritten = program, grid, memory, check_unwritten
        self.arguments = arguments
        self.random = Random(seed)
        self.delay = LATEST if seed == 0 else self.random.choice((2, 16, 128, LATEST))
        self.eager = self.delay != LATEST
        self.trace = Trace() if trace else None
        self.resident = resident
        self.runnable: list[Task] = []
        self.blocked: dict[Task, None] = {}
        self.inflight: list[InFlight] = []
        self.ctas: list[Cta] = []
        self.step = 0
        self.polls = 0
        self.end = 0.0
        self.executed: Counter[str] = Counter()
        self._due: list[tuple[int, int, InFlight]] = []
        self._started = 0
        self._codes: dict[Block, Code] = {}
        self.tells_threads_apart = any(op.name == "thread_id" for op in program.walk())

    # ---- code -------------------------------------------------------------------------------------------------------

    def code(self, block: Block, num_warps: int) -> Code:
        found = self._codes.get(block)
        if found is None:
            found = self._codes[block] = prepare(block, num_warps)
        return found

    def counts(self) -> Counter[str]:
        """How often each op ran."""
        total: Counter[str] = Counter(self.executed)
        for code in self._codes.values():
            for op, *_ in code.steps:
                total[op.name] += code.runs
        return total

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def spawn(self, task: Task, block: Block) -> Task:
        """Make `task` runnable on `block`."""
        task.steps = run_block(task, block)
        task.cta.tasks.append(task)
        task.cta.live += 1
        self.runnable.append(task)
        return task

    def wake(self, task: Task) -> None:
        """What `task` waits for may have happened; it looks again when it is scheduled."""
        if task in self.blocked:
            del self.blocked[task]
            self.runnable.append(task)

    def run(self) -> None:
        waiting = iter(_indices(self.grid))
        living = sum(self._admit(waiting) for _ in range(self.resident))
        while living:
            task = self._pick()
            self.step += 1
            polls = self.polls
            try:
                wait = next(task.steps)
            except StopIteration:
                if self._finish(task):
                    living += self._admit(waiting) - 1
                continue
            if self.polls == polls:
                self.polls = 0            # a step that did not look at memory: somebody is at work
            if wait is not None:
                task.wait = wait
                self.runnable.remove(task)
                self.blocked[task] = None
        while self.inflight:
            self._land(self._ready())
        if self.trace is not None:
            self.trace.events.sort(key=lambda event: event.end)

    def _admit(self, waiting: Iterator) -> int:
        """Start the next CTA of the grid; 0 if there is none left."""
        index = next(waiting, None)
        if index is None:
            return 0
        cta = Cta(len(self.ctas), index)
        self.ctas.append(cta)
        self.spawn(Task(self, cta, "default", dict(self.arguments), self.program.num_warps, 0, 0.0), self.program.body)
        return 1

    def _finish(self, task: Task) -> bool:
        """Retire a task; True if it was the last of its CTA."""
        self.runnable.remove(task)
        task.end_stretch()
        task.finished, task.env = True, {}
        self.end = max(self.end, task.clock)
        self.polls = 0
        if task.parent is not None:
            self.wake(task.parent)
        task.cta.live -= 1
        return task.cta.live == 0

    # ---- scheduling -------------------------------------------------------------------------------------------------

    def _pick(self) -> Task:
        while True:
            spinning = self.polls > POLL_ROUNDS[0] + POLL_ROUNDS[1] * len(self.runnable)
            operation = self._overdue()
            if operation is None and self.inflight and (spinning or not self.runnable):
                operation = self._ready()
            if operation is not None:
                self._land(operation)
            elif not self.runnable:
                raise deadlock(self)
            elif spinning:
                raise livelock(self)
            else:
                return self.runnable[int(self.random.random() * len(self.runnable))]

    def start(self, operation: InFlight) -> InFlight:
        """Put an operation in flight; it lands after a number of steps that the seed decides."""
        delay = 1 + self.random.randrange(2 * self.delay) if self.eager else LATEST
        self._started += 1
        heappush(self._due, (self.step + delay, self._started, operation))
        self.inflight.append(operation)
        return operation

    def _overdue(self) -> InFlight | None:
        """An operation whose time has come. One that is not ready lands as soon as what it follows has landed."""
        while self._due and (self._due[0][2].landed or self._due[0][0] <= self.step):
            _, number, operation = heappop(self._due)
            if operation.landed:
                continue
            if operation.ready():
                return operation
            heappush(self._due, (self.step + 1, number, operation))
        return None

    def _ready(self) -> InFlight:
        """The operation to land when somebody has to: any, or on seed 0 one that a task waits for."""
        if not self.eager:
            for task in self.blocked:
                for operation in task.wait.needs():
                    if operation.ready() and not operation.landed:
                        return operation
        ready = [operation for operation in self.inflight if operation.ready()]
        return ready[int(self.random.random() * len(ready))]

    def _land(self, operation: InFlight) -> None:
        self.inflight.remove(operation)
        operation.landed = True
        operation.land(operation)
        self.polls = 0
        self.end = max(self.end, operation.end)
        self.wake(operation.task)

    # ---- reports ----------------------------------------------------------------------------------------------------

    def record(self, cta: Cta, lane: str, kind: str, start: float, end: float, label: str, op: Op | None, size=0) -> None:
        if self.trace is not None:
            self.trace.events.append(Event(cta.number, lane, kind, start, end, label, op.site if op else None, size))


def fail(kind: type[SimulationError], task: Task, op: Op, message: str, *sites, hint: str = "") -> SimulationError:
    """An error of `task` at `op`, to be raised."""
    return kind(f"{task.where}: {message}", op.site, *sites, hint=hint)


def _indices(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """Program ids in launch order: x fastest."""
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                yield x, y, z
