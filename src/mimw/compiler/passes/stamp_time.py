"""Time stamps: start and end of each task's work, noted by one of its threads while the kernel runs on a GPU.

Input: a program and how many records a task may leave. Output: the program with `time_stamp` ops:

    barrier_wait %full %phase       becomes       time_stamp "run"; barrier_wait %full %phase; time_stamp "wait"

A stamp closes a stretch of its task's time and says what that was: `run`, `wait`, `copy`, `dot` or `store`. One stands
after everything that waits or starts something, and one before it unless a stamp has just been left. How many a task
has left is a number that its loops and branches carry, so a stamp costs a clock read and a store, no memory of its own
and no atomic.

The pass runs only where a launch asks for a timeline (`mimw.profile`); a kernel compiled without the pass has no
stamps.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ...errors import NotYet, TargetError
from ...ir import I32, I64, Block, Op, Program, Site, Value
from ...ir.types import Tensor
from ...target import Target

BEGIN, END = 0, 1
_NAMED = ("buffer", "source", "barrier")        # the operands of which a user knows the name, the best first
RECORD_BYTES = 16       # the clock, then the event and a number

_STAMPED = ("wait", "dot", "copy", "store")     # by the fact `time` of an op's row


def stamp_time(program: Program, target: Target, capacity: int, every: int = 1) -> Program:
    """The program with time stamps in its body and in each of its tasks.

    args:      capacity  records a lane may leave; of what comes after only the end is kept
               every     only CTAs whose linear number is a multiple of this leave any
    errors:    TargetError off NVIDIA; NotYet for tasks started in a loop or a branch
    """
    if target.assembly != "ptx":
        raise TargetError(f"time stamps are read from NVIDIA's clock registers; {target} has others")
    return _Stamper(program, capacity, every).program()


def stamp_bytes(program: Program) -> int:
    """Bytes of records that a CTA of a stamped program may leave."""
    attrs = next(op.attrs for op in program.body.ops if op.name == "time_base")
    return RECORD_BYTES * attrs["capacity"] * attrs["lanes"]


class _Stamper:
    """One walk over a program. Lanes are the body, then the tasks of each region, in program order."""

    def __init__(self, source: Program, capacity: int, every: int):
        self.source, self.capacity, self.every = source, capacity, every
        self.made_by = {result: op for op in source.walk() for result in op.results}
        self.lanes = 1 + sum(len(op.blocks) for op in source.body.ops if op.name == "warp_specialize")
        self.next_lane, self.events = 0, END

    def program(self) -> Program:
        return replace(self.source, body=self.lane(self.source.body, self.source.site))

    def lane(self, block: Block, site: Site) -> Block:
        """A task's block with its first stamp, those inside, and its last."""
        base, count, lane = Value(I64, "time_base"), Value(I32, "stamps"), self.next_lane
        self.next_lane += 1
        attrs = dict(lane=lane, lanes=self.lanes, capacity=self.capacity, every=self.every)
        start = [Op("time_base", (), (base, ), attrs=MappingProxyType(attrs), site=site),
                 Op("constant", (0, I32), (count, ), site=site)]
        walk = _Walk(self, base, lane)
        count = walk.stamp(start, count, BEGIN, "run", "", site)
        ops, count, fresh = walk.ops(block.ops, count, True)
        tail = [ops.pop()] if ops and "terminator" in ops[-1].row.traits else []
        walk.stamp(ops, count, END, "run", "", site)
        return replace(block, ops=(*start, *ops, *tail))

    def event(self) -> int:
        self.events += 1
        return self.events

    def label(self, op: Op) -> str:
        """A name of the object that an op waits for or works on, with the user's name where there is one."""
        if "dot" in op.row.traits:
            return " x ".join(map(str, (*(op.result if op.results else op.acc).type.shape, op.a.type.shape[-1])))
        for operand in _NAMED:
            value = self.array(getattr(op, operand)) if operand in op.row.places else None
            if value is not None and value.name:
                return f"{op.name} {value.name}"
        return op.name

    def array(self, value: Value) -> Value | None:
        """The array that a buffer or barrier is a part of; None for the number of a barrier of the hardware."""
        while value in self.made_by and "pure" in self.made_by[value].row.effects and self.made_by[value].viewed is not None:
            value = self.made_by[value].viewed
        return value if isinstance(value, Value) else None


class _Walk:
    """The blocks of one lane."""

    def __init__(self, stamper: _Stamper, base: Value, lane: int):
        self.stamper, self.base, self.lane = stamper, base, lane

    def stamp(self, ops: list[Op], count: Value, event: int, kind: str, label: str, site: Site) -> Value:
        """Append a stamp; the new count."""
        after = Value(I32, "stamps")
        attrs = dict(event=event, kind=kind, label=label, lane=self.lane, capacity=self.stamper.capacity)
        ops.append(Op("time_stamp", (self.base, count), (after, ), attrs=MappingProxyType(attrs), site=site))
        return after

    def ops(self, source, count: Value, fresh: bool) -> tuple[list[Op], Value, bool]:
        """The ops with stamps between; the count behind them; whether no time has passed since the last stamp."""
        ops: list[Op] = []
        for op in source:
            kind = op.row.time
            if "terminator" in op.row.traits:
                ops.append(op)
            elif kind in _STAMPED:
                if not fresh:
                    count = self.stamp(ops, count, self.stamper.event(), "run", "", op.site)
                ops.append(op)
                count = self.stamp(ops, count, self.stamper.event(), kind, self.stamper.label(op), op.site)
                fresh = True
            elif op.name == "warp_specialize":
                if op not in self.stamper.source.body.ops:
                    raise NotYet("not yet: a timeline of tasks that a loop or a branch starts", op.site,
                                 hint="start the tasks once and loop inside of them")
                if not fresh:
                    count = self.stamp(ops, count, self.stamper.event(), "run", "", op.site)
                blocks = tuple(self.stamper.lane(block, op.site) for block in op.blocks)
                ops.append(replace(op, blocks=blocks))
                count = self.stamp(ops, count, self.stamper.event(), "wait", "its tasks", op.site)
                fresh = True
            elif op.row.hands_on and any(_stamped(inner) for inner in op.walk() if inner is not op):
                op, count = self.region(op, count)
                ops.append(op)
                fresh = False
            else:
                ops.append(op)
                fresh = fresh and _takes_no_time(op)
        return ops, count, fresh

    def region(self, op: Op, count: Value) -> tuple[Op, Value]:
        """A branch or loop that carries the count."""
        result = Value(I32, "stamps")
        results = (*op.results, result)
        if "branch" in op.row.traits:
            inside = op.with_blocks(lambda block: self.block(block, count))
            return replace(inside.with_operands(types=(*op.types, I32)), results=results), result
        blocks = []
        for block in op.blocks:
            carried = Value(I32, "stamps")
            blocks.append(self.block(replace(block, args=(*block.args, carried)), carried))
        return replace(op.with_operands(inits=(*op.inits, count)), blocks=tuple(blocks), results=results), result

    def block(self, block: Block, count: Value) -> Block:
        """A block whose terminator hands on the count, too."""
        ops, count, _ = self.ops(block.ops, count, False)
        last = ops.pop() if ops and "terminator" in ops[-1].row.traits else Op("yield", ((), ))
        return replace(block, ops=(*ops, last.with_operands(values=(*last.values, count))))


def _stamped(op: Op) -> bool:
    return op.row.time in _STAMPED or op.name == "warp_specialize"


def _takes_no_time(op: Op) -> bool:
    """True for index arithmetic and views, which are not worth a stretch of their own."""
    if op.blocks or op.row.time:
        return False
    return not any(isinstance(value.type, Tensor) for value in (*op.operands, *op.results))
