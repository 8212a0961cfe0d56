"""Which ops signal and await which barriers, and in which tasks they stand: what the reports of deadlocks and races name.

Input: a program. Output: `BarrierOp`s in program order. A barrier that control flow hands on is known by its array alone.

    signals(program)    [BarrierOp(tma_load ..., BarrierRef(%full, 0), task="load")]      ops that bring arrivals or bytes
    waits(program)      [BarrierOp(barrier_wait ..., BarrierRef(%full, None), task="mma")]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..ir import Barrier, Block, Op, Program, Value

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

    def visit(block: Block, task: str | None) -> None:
        for op in block.ops:
            if op.name == "constant":
                constants[op.result] = op.value
            elif op.name == "barrier_index":
                index = op.index
                refs[op.result] = BarrierRef(ref(op.barrier).root, index if isinstance(index, int) else constants.get(index))
            for argument, init in _carried_in(op):
                refs[argument] = BarrierRef(ref(init).root)         # the array; which barrier of it differs from trip to trip
            if wanted(op):
                found.append(BarrierOp(op, ref(op.barrier), task))
            names = task_names(op) if op.name == "warp_specialize" else [task] * len(op.blocks)
            for name, inner in zip(names, op.blocks):
                visit(inner, name)
            for result, value in _carried_out(op):
                refs[result] = BarrierRef(ref(value).root)

    visit(program.body, None)
    return found


def _carried_in(op: Op) -> Iterator[tuple[Value, Value]]:
    """(block argument, initial value) of the barriers that a loop carries."""
    if op.name in ("for", "while"):
        inits, arguments = op.inits, op.blocks[0].args
        pairs = zip(arguments[len(arguments) - len(inits):], inits)
        yield from ((argument, init) for argument, init in pairs if isinstance(init.type, Barrier))


def _carried_out(op: Op) -> Iterator[tuple[Value, Value]]:
    """(result, yielded value) of the barriers that control flow gives back."""
    if op.name in ("if", "for", "warp_specialize") and op.results:
        pairs = zip(op.results, op.blocks[0].yielded)
        yield from ((result, value) for result, value in pairs if isinstance(value.type, Barrier))
