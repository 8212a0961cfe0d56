"""The engines of a core that has no warps: which begins when, by the order of their work and by what they wait for of each other.

Input: a timed task, the scalar unit, at an op that gives an engine work. Output: the engine is busy from when the scalar unit has
issued the work, the engine is free, and what the work reads is there. For example, of `a = load(x); store(y, a + a)`:

    Scalar   |issue..................|            goes on at once, as each engine has a queue
    MTE2        |load|
    Vector            |fadd|                      waits for the load
    MTE3                    |store|               waits for the sum

The chip's compiler puts flags between engines where one needs what another makes; so here a tile knows when it is there, and a
buffer when it was last written, and read. Work on other bytes overlaps. What a kernel computes is moved between memories where it
has to be (`analysis.tile_spaces`): a product that a vector is added to goes through global memory, as there is no other way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...compiler.analysis.tile_spaces import VECTOR, TileSpaces
from ...ir import Op, Program, Tensor, Value
from ...ir.flow import bounds, induction
from ...target import GLOBAL, TARGETS
from ..costs.engines import split_loops
from ..machine.tasks import InFlight, Task
from ..memory_model.shadow import address_of

SCALAR = "Scalar"           # the lane of the task itself
KINDS = {"Vector": "run", "Cube": "dot", "MTE3": "store", "FixPipe": "store"}    # of events; all others copy


_OF_VECTOR_CORES = ("Vector", "MTE2", "MTE3")


@dataclass(eq=False, slots=True)
class Segment:
    """Bytes `low` to `high` of a buffer's memory: when they were last written, and when they will have been read."""

    low: int
    high: int
    ready: float = 0.0
    free: float = 0.0


@dataclass
class Core:
    """The work under way in one core, or in one of its vector cores, whose memory is its own. By tile: the time at which it is
    there, the other memories that have it and since when, and the bytes that it is read from, where it is the value of a buffer.
    By buffer: the bytes that somebody has asked for."""

    arrivals: dict[Value, float] = field(default_factory=dict)
    moved: dict[Value, dict[str, float]] = field(default_factory=dict)
    behind: dict[Value, list[Segment]] = field(default_factory=dict)
    memory: dict[Value, list[Segment]] = field(default_factory=dict)
    renamed: dict[Value, tuple[Value, int]] = field(default_factory=dict)       # by a buffer: whose bytes it stands for, from where


class Engines:
    """The engines of a chip's cores, for one program."""

    def __init__(self, program: Program, target: str):
        self.spaces = TARGETS[target].spaces
        self.tiles = program.kept(TileSpaces)
        self._split = split_loops(program)
        self._cores: dict[tuple[int, int], Core] = {}

    def core(self, task: Task) -> Core:
        return self._cores.setdefault((task.cta.number, self.turn(task)), Core())

    def turn(self, task: Task) -> int:
        """The number of the vector core, at the side of a cube core, that works on the task's trip of a loop which they share;
        else 0."""
        loop = next((loop for loop in reversed(task.loops) if loop in self._split), None)
        if loop is None:
            return 0
        start, _, step = (int(task.env[bound]) for bound in bounds(loop))
        return (int(task.env[induction(loop)]) - start) // step % task.machine.model.vector_cores

    def engine(self, task: Task, name: str) -> str:
        """The engine of that name of the core that works now; the cube has engines of its own."""
        turn = self.turn(task) if name in _OF_VECTOR_CORES else 0
        return f"{name} {turn}" if turn else name

    def drained(self, task: Task) -> float:
        """The time at which all engines of the task's core have done what they were given."""
        return max((unit.free for unit in task.cta.sm.units.values()), default=task.clock)

    # ---- tiles ------------------------------------------------------------------------------------------------------

    def make(self, task: Task, value: Value, time: float, behind: Iterable[Segment] = ()) -> None:
        """`value` is there at `time`, read from these bytes."""
        core = self.core(task)
        core.arrivals[value], core.behind[value] = time, list(behind)
        core.moved.pop(value, None)

    def arrival(self, task: Task, value: Value) -> float:
        return self.core(task).arrivals.get(value, 0.0)

    def behind(self, task: Task, *values: Value) -> list[Segment]:
        known = self.core(task).behind
        return [segment for value in values for segment in known.get(value, ())]

    def was_read(self, task: Task, time: float, *values: Value) -> None:
        """The bytes behind these tiles are read until `time`."""
        for segment in self.behind(task, *values):
            segment.free = max(segment.free, time)

    def bring(self, task: Task, op: Op, value: Value, to: str) -> float:
        """The time at which a tile is in the memory `to`, where it is brought if it is not there yet."""
        here, ready = self.tiles.of(value), self.arrival(task, value)
        if here in (None, to) or here == GLOBAL and to in (VECTOR, "l1"):       # a load goes where it is needed
            return ready
        known = self.core(task).moved.setdefault(value, {})
        if to not in known:
            size, at = value.type.numel * value.type.element.bytes, "l1" if here == GLOBAL else here
            read = 0.0
            for step, engine in self.way(at, to):
                done, ready = self.copy(task, op, engine, at, step, size, ready, f"{value.name or 'a tile'} to {step}")
                read, at = read or done, step
            known[to] = ready
            self.was_read(task, read, value)
        return known[to]

    def way(self, here: str, there: str) -> list[tuple[str, str]]:
        """The shortest way from one memory to another, as (memory, engine) of each step."""
        ways: dict[str, list[tuple[str, str]]] = {here: []}
        todo = [here]
        while todo and there not in ways:
            at = todo.pop(0)
            for path in self.spaces[at].copies:
                if path.to not in ways:
                    ways[path.to] = [*ways[at], (path.to, path.engine)]
                    todo.append(path.to)
        return ways.get(there, [])

    # ---- buffers ----------------------------------------------------------------------------------------------------

    def segment(self, task: Task, buffer: Value) -> Segment:
        """The bytes of a buffer, or of a part of one; those of another where it was renamed."""
        view, core = task.env[buffer], self.core(task)
        root = next(root for root, made in task.cta.memory.items() if made.allocation is view.allocation)
        low = address_of(view.data) - address_of(task.cta.memory[root].data)
        steps = ((extent - 1) * abs(stride) for extent, stride in zip(view.data.shape, view.data.strides))
        high = low + sum(steps) + view.data.itemsize
        if root in core.renamed:
            root, shift = core.renamed[root]
            low, high = low + shift, high + shift
        known = core.memory.setdefault(root, [])
        found = next((one for one in known if (one.low, one.high) == (low, high)), None)
        if found is None:
            found = Segment(low, high)
            known.append(found)
        return found

    def overlapping(self, task: Task, segment: Segment) -> list[Segment]:
        known = next((known for known in self.core(task).memory.values() if segment in known), [segment])
        return [one for one in known if one.low < segment.high and segment.low < one.high]

    def written(self, task: Task, segment: Segment) -> float:
        """The time at which everything that lies there has been written."""
        return max(one.ready for one in self.overlapping(task, segment))

    def claim(self, task: Task, segment: Segment) -> float:
        """The time at which the segment may be overwritten: written before, and read by all that read it."""
        return max(max(one.ready, one.free) for one in self.overlapping(task, segment))

    def rename(self, task: Task, source: Value, buffer: Value) -> None:
        """From now on `buffer` stands for the bytes of `source`, as the compiler lets slots of a ring take turns."""
        core, there = self.core(task), self.segment(task, source)
        roots = {id(made.allocation): root for root, made in task.cta.memory.items()}
        here = roots[id(task.env[buffer].allocation)]
        core.renamed.pop(here, None)
        core.renamed[here] = (roots[id(task.env[source].allocation)], there.low)

    # ---- work -------------------------------------------------------------------------------------------------------

    def issue(self, task: Task, engine: str, earliest: float) -> float:
        """The time at which an engine begins with work that it is given now, whose operands are there at `earliest`."""
        machine = task.machine
        machine.advance(task, task.clock + machine.model["issue.engine"])
        return max(task.clock, earliest, machine.unit(task, self.engine(task, engine)).free)

    def work(self, task: Task, op: Op, engine: str, earliest: float, duration: float, label: str, size: int = 0) -> float:
        """The end of work that takes an engine so long."""
        start = self.issue(task, engine, earliest)
        return self._busy(task, op, engine, start, duration, label, size)

    def copy(self, task: Task, op: Op, engine: str, here: str, there: str, size: int, earliest: float,
             label: str) -> tuple[float, float]:
        """(when the engine is done with a copy and has read all of it, when the copy is there): between memories of a core, out
        of them, or into them."""
        machine, table = task.machine, engine.lower()
        start, taken = self.issue(task, engine, earliest), machine.model.copy(engine, there, size)
        if GLOBAL not in (here, there):
            done = self._busy(task, op, engine, start, taken, label, size)
            return done, done
        latency = machine.cycles(f"{table}.ns")
        if here == GLOBAL:
            left, end = machine.load(task, size, object(), latency, machine.cycles(f"{table}.dram_ns"), start)
        else:
            left = machine.store(task, size, start)
            end = left + latency
        done = self._busy(task, op, engine, start, max(taken, left - start), label, size)
        end = max(end, done)
        machine.start(InFlight("copy", task, op, end, lambda copy: None))
        return done, end

    def _busy(self, task: Task, op: Op, engine: str, start: float, duration: float, label: str, size: int) -> float:
        machine, lane = task.machine, self.engine(task, engine)
        end = machine.unit(task, lane).take(start, duration)
        machine.record(task.cta, lane, KINDS.get(engine, "copy"), start, end, label, op, size)
        return end


def tiles_of(op: Op) -> list[Value]:
    """The tiles among an op's operands."""
    return [value for value in op.operands if isinstance(value.type, Tensor)]
