"""The ops that signal and await each barrier, with the tasks in which those ops stand: the names in reports of deadlocks and
races.

Input: a program. Output: `BarrierOp`s in program order. A barrier that control flow hands on is known by its array alone. The
checks, which need every arrival, read `barriers` instead (`barrier_refs` says why there are two readers).

    signals(program)    [BarrierOp(tma_load ..., root=%full, index=0, task="load")]      ops that bring arrivals or bytes
    waits(program)      [BarrierOp(barrier_wait ..., root=%full, index=None, task="mma")]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ir import Block, Op, Program, Value
from .barrier_refs import BarrierRef, barrier_refs

# What an op brings to a barrier, by the fact `barrier` of its row.
BROUGHT = {"arrive": "an arrival", "expect": "an arrival and its bytes", "complete": "bytes", "commit": "an arrival"}


@dataclass(frozen=True)
class MaybeBarrier:
    """The barriers that an op may use: `root` is the value of their array, `index` the position in the array where that is a
    constant."""

    root: Value
    index: int | None = None

    def may_be(self, root: Value, index: int) -> bool:
        """True if barrier `index` of the array `root` may be one of these barriers."""
        return self.root is root and self.index in (None, index)


@dataclass(frozen=True)
class BarrierOp:
    """An op on a barrier, and the name of the task in which the op stands (None: outside of tasks)."""

    op: Op
    barrier: MaybeBarrier
    task: str | None

    @property
    def is_remote(self) -> bool:
        """True if the barrier may belong to another CTA."""
        return bool(self.op.row.peers)


def signals(program: Program) -> list[BarrierOp]:
    """The ops that arrive on barriers, or bring bytes to them, in program order."""
    return list(program.kept(_signals))


def waits(program: Program) -> list[BarrierOp]:
    """The waits for barriers, in program order."""
    return list(program.kept(_waits))


def _signals(program: Program) -> list[BarrierOp]:
    return _found(program, lambda op: op.row.barrier in BROUGHT)


def _waits(program: Program) -> list[BarrierOp]:
    return _found(program, lambda op: op.row.barrier == "wait")


def task_names(op: Op) -> list[str]:
    """A name for each region of a `warp_specialize` op; those of one name, such as the replicas of a task, are numbered."""
    names = [task.name for task in op.attrs["tasks"]]
    return [f"{name}[{names[:index].count(name)}]" if names.count(name) > 1 else name for index, name in enumerate(names)]


def _found(program: Program, wanted: Callable[[Op], bool]) -> list[BarrierOp]:
    refs = barrier_refs(program)
    constants: dict[Value, int] = {}
    found: list[BarrierOp] = []

    def barrier(value: Value) -> MaybeBarrier:
        ref = refs.get(value, BarrierRef(value))
        return MaybeBarrier(ref.root, ref.index if isinstance(ref.index, int) else constants.get(ref.index))

    def visit(block: Block, task: str | None) -> None:
        for op in block.ops:
            if op.name == "constant":
                constants[op.result] = op.value
            if wanted(op):
                found.append(BarrierOp(op, barrier(op.barrier), task))
            names = task_names(op) if op.name == "warp_specialize" else [task] * len(op.blocks)
            for name, inner in zip(names, op.blocks):
                visit(inner, name)

    visit(program.body, None)
    return found
