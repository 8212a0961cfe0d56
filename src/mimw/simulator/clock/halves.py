"""Two halves of a task's waves on the machine with a clock: each runs the stages of a loop, the second one a stage behind.

Input: a timed task at a loop in stages (`stages`). Output: two lanes of the timeline that share the units of the compute unit, and
the time at which both are done. For example, of two stages in two trips, with `|` for a barrier of all waves:

    first half     read     | multiply | read     | multiply |
    second half             | read     | multiply | read     | multiply

The task itself is the first half. It does the ops as ever, with half of each tile, and notes them; the second half takes the same
time for what was noted, and computes nothing. Each of the four SIMDs has a wave of either half, so both ask for the same matrix
cores, LDS and memory: an instruction of a product, or an access to LDS, goes to the half that is there first, and of two that wait
for the same core to the one whose stage has the higher priority.

In a stage, what does not need the result of a product goes on beside it, as everywhere. A stage is over when its products have been
issued and its reads are there; `async_wait` behind it comes before the barrier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...compiler.analysis.needed import Needed
from ...compiler.analysis.warp_stages import HALF
from ...ir import Op, Value
from ..machine.code import GENERATOR, SWITCHING
from ..machine.table import HANDLERS
from ..machine.tasks import Wait
from .dots import issued
from .table import timed
from .tasks import TimedTask

HALVES = 2
_NOTHING = Needed(frozenset(), frozenset(), frozenset(), ())


@dataclass(eq=False, slots=True)
class Noted:
    """An op that the first half has done, for the second half: what it takes, how it runs, and its operands."""

    op: Op
    run: Any
    mode: int
    cycles: float
    operands: dict[Value, Any]


@dataclass(eq=False, slots=True)
class Between:
    """The ops noted between two barriers; `last` of those behind all barriers."""

    ops: list[Noted] = field(default_factory=list)
    last: bool = False


class Halves:
    """The halves of a task in a loop: what the first one has done and the second one has not, and who has come to which barrier."""

    def __init__(self, first: TimedTask):
        self.machine, self.first, self.now = first.machine, first, Between()
        self._left: deque[Between] = deque()
        self._came: dict[TimedTask, list[float]] = {}
        self._turns = 0
        self._name = first.name
        first.end_stretch()
        second = self.second = TimedTask(first.machine, first.cta, "second half", {}, first.num_warps, first.first_warp + HALF,
                                         first.clock, first)
        first.name = "first half"
        second.arrivals, second.needed = dict(first.arrivals), _NOTHING
        second.copies, second.groups = list(first.copies), [list(group) for group in first.groups]
        for half in (first, second):
            half.halves, half.parts, self._came[half] = self, HALVES, []
        first.cta.drop(first, (second.name, ))
        first.machine.begin(second, self._follow())

    def note(self, op: Op, run, mode: int, cycles: float) -> None:
        env = self.first.env
        self.now.ops.append(Noted(op, run, mode, cycles, {value: env[value] for value in op.operands if value in env}))

    def had_its_turn(self, half: TimedTask) -> None:
        """Of equal priorities the half goes first that waits for longer."""
        self._turns += 1
        half.rank = half.rank[0], self._turns

    def border(self, op: Op) -> Iterator:
        """The first half has come to the end of a stage."""
        self._left.append(self.now)
        self.now = Between()
        yield from self._meet(self.first, op)

    def end(self, op: Op) -> Iterator:
        """The first half has left the loop: it waits at one barrier more, and both go on together."""
        first, second = self.first, self.second
        self.now.last = True
        yield from self.border(op)
        while not second.finished:
            yield Wait(op, "join", first, lambda: "the second half of its waves to end its last stage")
        first.wait_until(second.clock, op, "the second half")
        first.end_stretch()
        first.name, first.halves, first.parts, first.rank, first.floor = self._name, None, 1, (0, 0), first.clock
        for value, there in second.arrivals.items():
            first.arrivals[value] = max(there, first.arrivals.get(value, there))
        for mine, others in zip(reversed(first.groups), reversed(second.groups)):
            mine += [copy for copy in others if copy not in mine]

    def _follow(self) -> Iterator:
        """The second half: it waits at one barrier more before the loop."""
        second, op = self.second, None
        while True:
            yield from self._meet(second, op)
            between = self._left.popleft()
            for noted in between.ops:
                op = noted.op
                second.clock += noted.cycles
                if noted.run is not None:
                    second.env = noted.operands
                    yield from step(second, op, noted.run, noted.mode)
            if between.last:
                return

    def _meet(self, half: TimedTask, op: Op | None) -> Iterator:
        """A barrier of all waves, `s_barrier`: the k-th of either half is one event."""
        mine, others = self._came[half], self._came[self.second if half is self.first else self.first]
        other = self.second if half is self.first else self.first
        mine.append(half.clock)
        k = len(mine)
        if len(others) >= k:
            self.machine.wake(other)
        while len(others) < k:
            yield Wait(op, "half", self, lambda: f"barrier {k} of its waves, to which the {other.name} has not come")
        half.wait_until(others[k - 1], op, f"the {other.name}")
        half.clock += self.machine.model["barrier.named"]
        half.floor = half.clock


def run_stages(task: TimedTask, loop: Op) -> Iterator:
    """The meaning of a loop in stages."""
    halves = Halves(task)
    yield from HANDLERS[loop.name].run(task, loop)
    yield from halves.end(loop)


def step(half: TimedTask, op: Op, run, mode: int) -> Iterator:
    """An op of a half, behind the products whose result it takes."""
    if half.products and any(product.op.result in op.operands and product.op.result is not getattr(op, "acc", None)
                             for product in half.products):
        yield from issued(half)
    if mode == GENERATOR:
        yield from run(half, op)
    else:
        if mode == SWITCHING:
            yield None
        run(half, op)


@timed("stage_start")
def stage_start(task, op):
    task.rank = -task.machine.stages.priorities[op], task.rank[1]


@timed("stage_end")
def stage_end(task, op):
    yield from issued(task)
    task.wait_until(task.reads_end, op, "a read of LDS")
    task.floor = task.clock
