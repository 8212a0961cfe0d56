"""Tasks and CTAs on the machine with a clock, and the SM that they share.

Input: the machine makes them. Output: plain objects: how long each unit of an SM is taken, and by when a task is done. For example:

    cta.sm.units["inbound"].take(1200.0, 32.0)      the SM's way in is taken for 32 cycles from 1200 on, or later
    task.floor                                      what the task does next starts then, or later
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ...ir import Op, Scalar, Tensor, Value
from ..machine.tasks import Cta, Task
from .queue import Queue


def may_be_under_way(value: Value) -> bool:
    """True of a tile or a float, which is waited for where it is used; other numbers, of which it follows what runs, and where, are
    waited for at once."""
    return isinstance(value.type, Tensor) or isinstance(value.type, Scalar) and value.type.is_float


@dataclass
class Sm:
    """The units of one SM and what went through them; `drawn` is how far each one's lane of the timeline goes, `performed` when
    all is there that its tasks have stored, and their bulk copies have carried out of it, so far."""

    units: dict[str, Queue] = field(default_factory=lambda: defaultdict(Queue))
    drawn: dict[str, float] = field(default_factory=dict)
    performed: float = 0.0

    def stored(self, there: float) -> None:
        """Something that has left the SM is there at that time."""
        self.performed = max(self.performed, there)


@dataclass(eq=False, slots=True)
class Pending:
    """A product whose matrix instructions are still to be issued: from `ready` on; `read` is when its operands are all there."""

    op: Op
    ready: float
    read: float


@dataclass(eq=False)
class TimedCta(Cta):
    """A CTA on an SM, which it may share with others; `group` is the number of its cluster's SMs."""

    sm: Sm = field(default_factory=Sm)
    group: int = 0


class TimedTask(Task):
    """A task with what it keeps its units busy with.

    floor       what the task does next starts then, or later: the end of its last op that was no arithmetic
    unit_ends   unit -> when it is done with the task's arithmetic since then; units work side by side
    arrivals    tile -> (when it is there, what it is), of loads and products in flight that the task has not used yet
    needed      what decides the course of the kernel, and so is computed by this task
    issued      when all instructions of its products so far have been issued
    behind      that time, of the products of earlier trips of a loop: what it asks memory for comes later
    ahead       of loads in a loop that Triton pipelines: what is asked for (`pipelined`)
    product_end when its last product in such a loop is done
    rank        of tasks that go on at the same time the lowest does first: a priority, negated, then when it had its last turn

    Of half of a task's waves in a loop of stages (`halves`):

    halves      both halves, else None
    parts       into how many its tiles are parted: it has this part of each
    products    those that are still to be issued
    reads_end   when all reads of shared memory are there that it does not wait for
    """

    def __init__(self, *given):
        super().__init__(*given)
        self.floor = self.clock
        self.unit_ends: dict[str, float] = {}
        self.arrivals: dict[Value, tuple[float, str]] = {}
        self.needed = self.machine.needed
        self.issued = self.behind = self.reads_end = 0.0
        self.ahead: dict[Op, Any] = {}
        self.product_end = 0.0
        self.rank, self.parts = (0, 0), 1
        self.halves: Any = None
        self.products: list[Pending] = []

    def come_behind(self) -> None:
        """Ask memory for nothing before the products of earlier trips have been issued."""
        if self.behind > self.clock:
            self.clock = self.floor = self.behind

    def arrive(self, op: Op) -> None:
        """Wait for what is in flight of the tiles that the op takes."""
        if self.arrivals:
            arrived, what = max((self.arrivals.pop(value) for value in op.operands if value in self.arrivals), default=(0.0, ""))
            if arrived > self.clock:
                self.wait_until(arrived, op, what)
                self.floor = self.clock
