"""Links between GPUs on the machine with a clock: what goes over them takes its part of the ways out of one GPU and into another.

Input: a timed task at an access to another GPU's memory. Output: when the bytes have left, and when they are there. For
example, on links of 370 GB/s a GPU, of which an SM can take 46:

    ways.put(task, op, peer, 16384)             (left, there): SM, out of this GPU, into the peer, then `link.put_ns`
    ways.get(task, op, peer, 16384)             the same the other way round, `link.get_ns` after the last byte was asked for
    released = ways.release(task, op, "sys")    when all is there that its SM has on its way; the task waits `link.fence_ns` longer
    ways.told(released)                         when the signal behind it is seen, `link.signal_ns` later

Every GPU has one way out and one way in, as through a switch; where only some of its SMs are simulated, they have their share. What
goes to a peer is an event on the lane of that link. A release waits for the stores and bulk copies out of all tasks of its SM, not
of its own task alone: that was measured (benchmarks/notes/dispatch-combine.md, "What a signal costs where others are at work").
"""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

from ...compiler.analysis.peer_accesses import peer_accesses
from ...ir import Op, Program
from ...ir.trace import LINKS, Event, Trace
from ..costs import Model
from .conditions import Conditions
from .queue import Queue
from .tasks import TimedTask


class Linked(Protocol):
    """The machine between whose GPUs the links are: `clock.machine` has it."""

    program: Program
    trace: Trace
    model: Model
    conditions: Conditions

    def cycles(self, figure: str) -> float: ...

    def unit(self, task: TimedTask, name: str) -> Queue: ...


class Ways:
    """The ways out of and into the GPUs of one machine, of which `share` of the SMs are simulated."""

    def __init__(self, machine: Linked, share: float):
        self.machine, self.share = machine, share
        self.makers = peer_accesses(machine.program)
        self.out: dict[int, Queue] = defaultdict(Queue)
        self.into: dict[int, Queue] = defaultdict(Queue)
        self._drawn: dict[str, float] = {}

    def peer(self, task: TimedTask, op: Op) -> int | None:
        """The rank whose memory `op` reaches; None for the task's own."""
        maker = self.makers.get(op)
        rank = task.env.get(maker.gpu) if maker is not None else None
        return None if rank is None or int(rank) == task.cta.gpu.rank else int(rank)

    def put(self, task: TimedTask, op: Op, peer: int, size: int) -> tuple[float, float]:
        own = task.cta.gpu.rank
        left = self._taken(task, "link out", "put", size, self.out[own], self.into[peer])
        self._draw(op, f"rank {own} to rank {peer}", task, left, size)
        there = left + self.machine.cycles("link.put_ns")
        task.cta.sm.stored(there)
        return left, there

    def get(self, task: TimedTask, op: Op, peer: int, size: int) -> tuple[float, float]:
        own = task.cta.gpu.rank
        left = self._taken(task, "link in", "get", size, self.out[peer], self.into[own])
        self._draw(op, f"rank {peer} to rank {own}", task, left, size)
        return left, left + self.machine.cycles("link.get_ns")

    def release(self, task: TimedTask, op: Op, scope: str) -> float:
        """The task waits until its release is over; when everything has arrived that the release waits for. One of system scope
        holds up the task for another way there and back, in which the signal behind it is on its way already."""
        arrived = max(task.clock, task.cta.sm.performed)
        over = arrived + (self.machine.cycles("link.fence_ns") if scope == "sys" else 0.0)
        task.wait_until(over, op, f"a release of scope {scope}")
        task.floor = task.clock
        return arrived

    def told(self, released: float) -> float:
        """The time at which peers see a signal that is sent after the end of a release."""
        return released + self.machine.cycles("link.signal_ns")

    def _taken(self, task: TimedTask, unit: str, what: str, size: int, *gpus: Queue) -> float:
        machine = self.machine
        per_cycle = 1e3 / machine.conditions.megahertz
        whole = machine.model[f"link.{what}_gb_per_s"] * per_cycle * self.share
        ends = [queue.take(task.clock, size / whole) for queue in gpus]
        ends.append(machine.unit(task, unit).take(task.clock, size / (machine.model[f"link.sm_{what}_gb_per_s"] * per_cycle)))
        return max(ends)

    def _draw(self, op: Op, lane: str, task: TimedTask, left: float, size: int) -> None:
        start = max(self._drawn.get(lane, 0.0), task.clock)
        self._drawn[lane] = max(start, left)
        if left > start and self.machine.trace is not None:
            self.machine.trace.events.append(
                Event(LINKS, lane, "copy", start, left, f"{op.row.word or op.name}, {task.where}", op.site, size))
