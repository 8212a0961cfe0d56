"""A task that wrote shared memory by ordinary instructions fences before a copy, or a product of another task, reads that memory.

Input: a program. Output: the program with a fence before each op that lets the reader go on, and before a copy of the task's own:

    local_store(tile, x)                                  local_store(tile, x)
    barrier_arrive(full)         becomes                  fence("delivery")
                                                          barrier_arrive(full)

`tile` is stored to global memory by a TMA store of another task, which reads in the asynchronous proxy: it may see what was
there before the writes in the generic proxy, unless a proxy fence stands between (PTX ISA, "Async proxy"). Within one task Triton
puts one in, before copies and before products; from one task to another nothing does. Authors write `fence("async_shared")`, on
either side of the barrier, and where they have done so there is nothing to put in: docs/MEMORY_MODEL.md, rule 18. For products of
the writing task Triton, or `fence_pairs`, has the fence (rule 19).

Writes by cp.async are fenced behind their task's wait. For stores to another CTA that land on a barrier
(`async_remote_shmem_store`) the reader has to fence, which is its author's to do, and for native code that arrives by itself
(`tle.raw`) the code.
"""

from __future__ import annotations

from ...ir import Block, Op, Program, Task, Value
from ..analysis import uses_of
from .fencing import NONE, Fencer, Touched, releases

_WRITES = ("write", "peer-write")
_READS = "async-read"


def fence_deliveries(program: Program) -> Program:
    """The program with such fences; the same object if no copy or product reads shared memory that is also written otherwise."""
    fencer = _Deliveries(program)
    return fencer.kernel() if fencer.readers else program


class _Deliveries(Fencer):
    """`readers` are the allocations that are written by ordinary instructions and read in the asynchronous proxy with no fence of
    the author's before it: for each the tasks whose own writes need no fence, since only products of theirs read them."""

    SCOPE, SCOPES = "delivery", ("async_shared", "delivery")

    def __init__(self, program: Program):
        super().__init__(program)
        self.uses, self.late = uses_of(program), {}
        self.readers: dict[Value, list[Task | None | bool]] = {}
        written = {root for op in program.where(lambda row: any(how in _WRITES for _, how in row.touches))
                   for how in _WRITES for root in self.buffers(op, how)}
        if written and program.where(lambda row: any(how == _READS for _, how in row.touches)):
            self._find(program.body, written)
        for op in program.where(lambda row: "async" in row.effects and any(how == "write" for _, how in row.touches)):
            self.late.setdefault(self.uses.task(op), set()).update(self.buffers(op, "write") & self.readers.keys())

    def _find(self, block: Block, written: set[Value]) -> None:
        """The readers in a block that no fence of the author's stands before, behind the last op that waits."""
        fenced = False
        for op in block.ops:
            if op.name == "fence" and op.scope in self.SCOPES:
                fenced = True
            elif op.blocks or _waits(op):
                fenced = False
            for root in () if fenced else self.buffers(op, _READS) & written:
                self.readers.setdefault(root, []).append(self._excused(op))
            for inner in op.blocks:
                self._find(inner, written)

    def _excused(self, op: Op) -> Task | None | bool:
        """The task whose writes a reader may read without a fence of this pass; False for none."""
        own = "dot" in op.row.traits or "fenced" in op.row.traits
        return self.uses.task(op) if own and "pairs" not in op.row.traits else False

    def _wanted(self, root: Value, task: Task | None) -> bool:
        """True if another task, or a copy, reads the data that the task writes there."""
        return any(excused is False or excused is not task for excused in self.readers.get(root, ()))

    def touches(self, op: Op) -> Touched:
        if "wait" in op.row.effects and op.row.barrier != "wait":
            task = self.uses.task(op)
            return frozenset((root, False) for root in self.late.get(task, ()) if self._wanted(root, task))
        if not op.row.touches:
            return NONE
        task = self.uses.task(op)
        return frozenset((root, kind.startswith("peer")) for kind in _WRITES for root in self.buffers(op, kind)
                         if kind.startswith("peer") or self._wanted(root, task))

    def needs_fence(self, op: Op, touched: Touched) -> bool:
        if releases(op):
            return True
        return self._excused(op) is False and not self.buffers(op, _READS).isdisjoint(root for root, _ in touched)

    def is_over(self, op: Op) -> bool:
        return bool(self.buffers(op, _READS) & self.readers.keys())


def _waits(op: Op) -> bool:
    """True if the op may make writes of other tasks visible to the task."""
    return bool(op.row.blocks) or op.row.barrier in ("wait", "test") or "wait" in op.row.effects or "atomic" in op.row.traits
