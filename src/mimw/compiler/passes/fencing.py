"""The walk of passes that put proxy fences in: the memory that each task has touched since its last fence, block by block.

Input: a program, and a subclass that says which accesses count and before which ops a fence has to stand. Output: the blocks with
fences, as few as the walk can prove enough. For example, for writes that must be fenced before other tasks go on:

    local_store %tile %x                   local_store %tile %x
    barrier_arrive %full     becomes       fence "delivery"; barrier_arrive %full

What is touched at the end of a round of a loop is touched at the start of the next; a branch leaves what either side leaves.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ...ir import Block, Op, Program, Value
from ...ir.flow import terminator
from ...ir.types import Buffer
from ..analysis.order import memory_order
from ..constraints.memory_roots import memory_roots

# (allocation, whether another CTA's copy of it) that a task has touched since its last fence.
Touched = frozenset[tuple[Value, bool]]
NONE: Touched = frozenset()


def releases(op: Op) -> bool:
    """True if the op may let other tasks go on and a fence can stand before it. Native code has no such place: its declared
    effects are recorded where the code has arrived already."""
    if "declared" in op.row.traits:
        return False
    if op.row.releases:
        return "atomic" not in op.row.traits or "RELEASE" in memory_order(op)
    return op.name == "fence" and op.scope in ("gpu", "sys")


class Fencer:
    """Follows what each task has touched through its blocks. A subclass has `SCOPE`, the scope of its fences; `SCOPES`, those of
    all fences that do as well; and says what counts."""

    SCOPE, SCOPES = "", ()

    def __init__(self, program: Program):
        self.program, self.roots = program, memory_roots(program)

    def touches(self, op: Op) -> Touched:
        """The accesses of the op that need a fence."""
        raise NotImplementedError

    def needs_fence(self, op: Op, touched: Touched) -> bool:
        """True if a fence has to stand before the op."""
        raise NotImplementedError

    def fences(self, op: Op) -> bool:
        """True of a fence after which nothing that was touched before needs one."""
        return op.name == "fence" and op.scope in self.SCOPES

    def is_over(self, op: Op) -> bool:
        """True if the op may need a fence; no fence is put behind the last such op of the kernel's body."""
        raise NotImplementedError

    def buffers(self, op: Op, how: str) -> frozenset[Value]:
        """The allocations in shared memory that the op accesses in this way."""
        found = [getattr(op, name) for name, kind in op.row.touches if kind == how] if op.row.touches else ()
        if not found:
            return frozenset()
        return frozenset(root for value in found if isinstance(value, Value) and isinstance(value.type, Buffer)
                         and value.type.space == "smem" for root in self.roots[value])

    def kernel(self) -> Program:
        """The program with its fences."""
        body = self.program.body
        last = max((index for index, op in enumerate(body.ops) if any(map(self.is_over, op.walk()))), default=-1)
        before, _ = self._block(replace(body, ops=body.ops[:last + 1]), NONE, outermost=True)
        return replace(self.program, body=replace(body, ops=(*before.ops, *body.ops[last + 1:])))

    def _block(self, block: Block, touched: Touched, outermost: bool = False) -> tuple[Block, Touched]:
        """The block with its fences, and the memory that the task has touched at its end."""
        ops: list[Op] = []
        for index, op in enumerate(block.ops):
            if touched and self.needs_fence(op, touched):
                ops.append(self._fence(op, touched))
                touched = NONE
            if op.blocks:
                op, touched = self._regions(op, touched, outermost and index == len(block.ops) - 1)
            elif self.fences(op):
                touched = NONE
            else:
                touched |= self.touches(op)
            ops.append(op)
        return block.with_ops(ops), touched

    def _regions(self, op: Op, touched: Touched, at_the_end: bool) -> tuple[Op, Touched]:
        if op.name == "warp_specialize":
            return op.with_blocks(lambda block: self._task(block, at_the_end)), NONE
        if "branch" in op.row.traits:
            branches = [self._block(block, touched) for block in op.blocks]
            return replace(op, blocks=tuple(block for block, _ in branches)), frozenset().union(*(left for _, left in branches))
        return self._loop(op, touched)

    def _task(self, block: Block, at_the_end: bool) -> Block:
        """A task of a region, whose end lets the kernel go on."""
        block, touched = self._block(block, NONE)
        if not touched or at_the_end:
            return block
        kept, last = (block.ops[:-1], block.ops[-1:]) if terminator(block) else (block.ops, ())
        return replace(block, ops=(*kept, self._fence(block.ops[-1], touched), *last))

    def _loop(self, op: Op, touched: Touched) -> tuple[Op, Touched]:
        """A loop, or an op that computes by regions."""
        while True:
            blocks, ends, state = [], [], touched
            for inner in op.blocks:
                block, state = self._block(inner, state)
                blocks.append(block)
                ends.append(state)
            if state <= touched:      # a `while` is left after its first block, a `for` perhaps before its first round
                return replace(op, blocks=tuple(blocks)), ends[0] if op.name == "while" else touched
            touched |= state

    def _fence(self, op: Op, touched: Touched) -> Op:
        """The fence before `op`; where another CTA's memory was touched it covers the cluster."""
        attrs = MappingProxyType({"cluster": any(remote for _, remote in touched)})
        return Op("fence", (self.SCOPE, ), attrs=attrs, site=op.site)
