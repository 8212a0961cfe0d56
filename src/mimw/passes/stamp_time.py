"""Time stamps: what each task did when, noted by one of its threads while the kernel runs on a GPU.

A stamp closes a stretch of its task's time and says what that was: `run`, `wait`, `copy`, `dot` or `store`. One stands after
everything that waits or starts something, and one before it unless a stamp has just been left. How many a task has left is a
number that its loops and branches carry, so a stamp costs a clock read and a store, no memory of its own and no atomic.

The pass runs only where a launch asks for a timeline (`mimw.profile`); a kernel compiled without knows nothing of it.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ..errors import NotYet, TargetError
from ..ir import I32, I64, Block, Op, Program, Site, Value
from ..ir.types import Tensor
from ..target import Target

BEGIN, END = 0, 1
RECORD_BYTES = 16       # the clock, then the event and a number

_KINDS = {
    **dict.fromkeys("barrier_wait named_barrier_wait async_dot_wait tma_store_wait async_wait cluster_barrier atomic_poll "
                    "grid_dependency_wait".split(), "wait"),
    **dict.fromkeys("async_dot dot dot_scaled".split(), "dot"),
    **dict.fromkeys("tma_load tma_load_multicast async_load bulk_load async_remote_copy async_remote_store "
                    "descriptor_load".split(), "copy"),
    **dict.fromkeys("tma_store bulk_store local_store remote_store store masked_store descriptor_store".split(), "store"),
}
_REGIONS_OF_TASKS = ("if", "for", "while")


def stamp_time(program: Program, target: Target, capacity: int, every: int = 1) -> Program:
    """The program with time stamps in its body and in each of its tasks.

    args:      capacity  records a lane may leave; of what comes after only the end is kept
               every     only CTAs whose linear number is a multiple of this leave any
    errors:    TargetError off NVIDIA; NotYet for tasks started in a loop or a branch
    """
    if target.backend != "cuda":
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
        tail = [ops.pop()] if ops and ops[-1].name == "yield" else []
        walk.stamp(ops, count, END, "run", "", site)
        return replace(block, ops=(*start, *ops, *tail))

    def event(self) -> int:
        self.events += 1
        return self.events

    def label(self, op: Op) -> str:
        """What an op waits for or works on, by the user's name where there is one."""
        if op.name in ("async_dot", "dot", "dot_scaled"):
            return " x ".join(map(str, (*op.results[0].type.shape, op.args[0].type.shape[-1])))
        for value in reversed(op.operands) if op.name.startswith(("tma_", "bulk_", "async_load")) else op.operands:
            if not isinstance(value.type, Tensor):
                while value in self.made_by and self.made_by[value].name in (
                        "buffer_index", "barrier_index", "buffer_slice", "buffer_trans", "buffer_reinterpret"):
                    value = self.made_by[value].args[0]
                if value.name and str(value.type).startswith(("buffer", "barrier")):
                    return f"{op.name} {value.name}"
        return op.name


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
            kind = _KINDS.get(op.name)
            if op.name in ("yield", "condition"):
                ops.append(op)
            elif kind is not None:
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
            elif op.name in _REGIONS_OF_TASKS and any(_stamped(inner) for inner in op.walk() if inner is not op):
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
        if op.name == "if":
            blocks = tuple(self.block(block, count) for block in op.blocks)
            args = (op.args[0], (*op.args[1], I32)) if len(op.args) > 1 else op.args
            return replace(op, args=args, blocks=blocks, results=results), result
        blocks = []
        for block in op.blocks:
            carried = Value(I32, "stamps")
            blocks.append(self.block(replace(block, args=(*block.args, carried)), carried))
        args = list(op.args)
        args[-1] = (*args[-1], count)
        return replace(op, args=tuple(args), blocks=tuple(blocks), results=results), result

    def block(self, block: Block, count: Value) -> Block:
        """A block whose terminator hands on the count, too."""
        ops, count, _ = self.ops(block.ops, count, False)
        last = ops.pop() if ops and ops[-1].name in ("yield", "condition") else Op("yield", ((), ))
        args = (*last.args[:-1], (*last.args[-1], count))
        return replace(block, ops=(*ops, replace(last, args=args)))


def _stamped(op: Op) -> bool:
    return op.name in _KINDS or op.name == "warp_specialize"


def _takes_no_time(op: Op) -> bool:
    """True for index arithmetic and views: what is not worth a stretch of its own."""
    if op.blocks or op.name.startswith(("time_", "barrier_arrive", "barrier_expect", "fence", "local_", "load", "masked_")):
        return op.name == "barrier_expect"
    return not any(isinstance(value.type, Tensor) for value in (*op.operands, *op.results))
