"""Which ops signal and await which barriers, and in which tasks they stand: what the reports of deadlocks and races name.

Input: a program. Output: `BarrierOp`s in program order. A barrier that control flow hands on is known by its array alone.

    signals(program)    [BarrierOp(tma_load ..., BarrierRef(%full, 0), task="load")]      ops that bring arrivals or bytes
    waits(program)      [BarrierOp(barrier_wait ..., BarrierRef(%full, None), task="mma")]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir import Barrier, Block, Op, Program, Value
from ..ir.flow import carries, terminator

# What an op brings to a barrier, by the fact `barrier` of its row.
BROUGHT = {"arrive": "an arrival", "expect": "an arrival and its bytes", "complete": "bytes"}


@dataclass(frozen=True)
class BarrierRef:
    """Which barriers a value stands for: `root` is the value of their array, `index` the place there where that is a constant."""

    root: Value
    index: int | None = None

    def may_be(self, root: Value, index: int) -> bool:
        """Whether barrier `index` of the array `root` is among them."""
        return self.root is root and self.index in (None, index)


@dataclass(frozen=True)
class BarrierOp:
    """An op on a barrier, and the name of the task in which the op stands (None: outside of tasks)."""

    op: Op
    barrier: BarrierRef
    task: str | None

    @property
    def is_remote(self) -> bool:
        """Whether the barrier may be one of another CTA."""
        return bool(self.op.row.peers)


def signals(program: Program) -> list[BarrierOp]:
    """The ops that arrive on barriers, or bring bytes to them, in program order."""
    return _found(program, lambda op: op.row.barrier in BROUGHT)


def waits(program: Program) -> list[BarrierOp]:
    """The waits for barriers, in program order."""
    return _found(program, lambda op: op.row.barrier == "wait")


def task_names(op: Op) -> list[str]:
    """A name for each region of a `warp_specialize` op; replicas of one task are numbered."""
    tasks = op.attrs["tasks"]
    names = [task.name for task in tasks]
    return [f"{task.name}[{task.replica}]" if names.count(task.name) > 1 else task.name for task in tasks]


def _found(program: Program, wanted: Callable[[Op], bool]) -> list[BarrierOp]:
    refs: dict[Value, BarrierRef] = {}
    constants: dict[Value, int] = {}
    found: list[BarrierOp] = []

    def ref(value: Value) -> BarrierRef:
        return refs.get(value, BarrierRef(value))

    def hand_on(op: Op, holder: Op | None) -> None:
        """Barriers that `holder` hands on in `op` keep their array; which barrier of the array differs from round to round."""
        for carry in carries(op):
            if carry.op is holder and isinstance(carry.source.type, Barrier):
                refs.setdefault(carry.target, BarrierRef(ref(carry.source).root))

    def visit(block: Block, task: str | None) -> None:
        for op in block.ops:
            if op.name == "constant":
                constants[op.result] = op.value
            elif op.name == "barrier_index":
                index = op.index
                refs[op.result] = BarrierRef(ref(op.barrier).root, index if isinstance(index, int) else constants.get(index))
            hand_on(op, op)
            if wanted(op):
                found.append(BarrierOp(op, ref(op.barrier), task))
            names = task_names(op) if op.name == "warp_specialize" else [task] * len(op.blocks)
            for name, inner in zip(names, op.blocks):
                visit(inner, name)
                hand_on(op, terminator(inner))

    visit(program.body, None)
    return found
