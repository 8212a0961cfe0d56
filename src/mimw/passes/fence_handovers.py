"""A task that accessed shared memory by ordinary instructions fences before others may let a copy overwrite that memory.

Input: a program. Output: the program with a fence before each op that lets others go on, where one is needed:

    x = local_load(slot)                                  x = local_load(slot)
    barrier_arrive(free)         becomes                  fence("handover")
                                                          barrier_arrive(free)

`slot` is filled by TMA, in the asynchronous proxy, and read in the generic one. PTX promises an order between accesses
of two proxies only where a proxy fence stands between, also for a write after a read (PTX ISA, "Async proxy"; its
example of clusterlaunchcontrol.try_cancel fences a generic read before the next asynchronous write of the same bytes).
Without the fence a copy engine has been seen to overwrite bytes whose read was issued and not yet done. Where one task
does both, Triton puts the fence in; from one task to another nothing does. Authors of TLX kernels do not write it, so
the compiler does: docs/MEMORY_MODEL.md, rule 20.

A fence stands before such an op if its task may since its last fence have touched memory that some copy writes. None is
put in for memory that no copy writes, nor for what wgmma reads, nor behind the last copy of the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ..analysis.order import memory_order
from ..constraints.memory_roots import memory_roots
from ..ir import Block, Op, Program, Value
from ..ir.flow import terminator
from ..ir.types import Buffer

# (allocation, whether another CTA's copy of it) that a task has touched since its last fence.
Touched = frozenset[tuple[Value, bool]]
_NONE: Touched = frozenset()
_TOUCHED = ("read", "write", "peer-read", "peer-write")
_FENCE, _PROXY = "handover", "async_shared"


def fence_handovers(program: Program) -> Program:
    """The program with such fences; the same object if no copy writes shared memory that is also touched otherwise."""
    fencer = _Fencer(program)
    return replace(program, body=fencer.kernel()) if fencer.copied else program


class _Fencer:
    """Follows what each task has touched through its blocks. `copied` are the allocations that copies write."""

    def __init__(self, program: Program):
        self.program, self.roots = program, memory_roots(program)
        writing = program.where(lambda row: any(how == "async-write" for _, how in row.touches))
        touching = program.where(lambda row: any(how in _TOUCHED for _, how in row.touches))
        self.copied = frozenset(root for op in writing for root in self._buffers(op, "async-write"))
        self.copied &= frozenset(root for op in touching for how in _TOUCHED for root in self._buffers(op, how))
        self.last = max((index for index, op in enumerate(program.body.ops) if self.copied
                         if any(self._buffers(inner, "async-write") for inner in op.walk())), default=-1)

    def _buffers(self, op: Op, how: str) -> frozenset[Value]:
        """The allocations that the op accesses in this way."""
        found = [getattr(op, name) for name, kind in op.row.touches if kind == how] if op.row.touches else ()
        if not found:
            return frozenset()
        return frozenset(root for value in found if isinstance(value, Value) and isinstance(value.type, Buffer)
                         and value.type.space == "smem" for root in self.roots[value])

    def kernel(self) -> Block:
        """The kernel's body. Behind the last op that holds a copy nothing is overwritten any more."""
        body = self.program.body
        before, _ = self._block(replace(body, ops=body.ops[:self.last + 1]), _NONE, outermost=True)
        return replace(body, ops=(*before.ops, *body.ops[self.last + 1:]))

    def _block(self, block: Block, touched: Touched, outermost: bool = False) -> tuple[Block, Touched]:
        """The block with its fences, and what the task has touched at its end."""
        ops: list[Op] = []
        for index, op in enumerate(block.ops):
            if touched and self._hands_over(op, touched):
                ops.append(_fence(op, touched))
                touched = _NONE
            if op.blocks:
                op, touched = self._regions(op, touched, outermost and index == len(block.ops) - 1)
            elif op.name == "fence" and op.scope in (_PROXY, _FENCE):
                touched = _NONE
            else:
                touched |= self._touches(op)
            ops.append(op)
        return block.with_ops(ops), touched

    def _hands_over(self, op: Op, touched: Touched) -> bool:
        if op.row.releases:
            return "atomic" not in op.row.traits or "RELEASE" in memory_order(op)
        if op.name == "fence":
            return op.scope in ("gpu", "sys")
        return not self._buffers(op, "async-write").isdisjoint(root for root, _ in touched)

    def _touches(self, op: Op) -> Touched:
        if not op.row.touches:
            return _NONE
        return frozenset((root, kind.startswith("peer")) for kind in _TOUCHED for root in self._buffers(op, kind) & self.copied)

    def _regions(self, op: Op, touched: Touched, at_the_end: bool) -> tuple[Op, Touched]:
        if op.name == "warp_specialize":
            return op.with_blocks(lambda block: self._task(block, at_the_end)), _NONE
        if "branch" in op.row.traits:
            branches = [self._block(block, touched) for block in op.blocks]
            return replace(op, blocks=tuple(block for block, _ in branches)), frozenset().union(*(left for _, left in branches))
        return self._loop(op, touched)

    def _task(self, block: Block, at_the_end: bool) -> Block:
        """A task of a region, whose end lets the kernel go on."""
        block, touched = self._block(block, _NONE)
        if not touched or at_the_end:
            return block
        kept, last = (block.ops[:-1], block.ops[-1:]) if terminator(block) else (block.ops, ())
        return replace(block, ops=(*kept, _fence(block.ops[-1], touched), *last))

    def _loop(self, op: Op, touched: Touched) -> tuple[Op, Touched]:
        """A loop, or an op that computes by regions: what is touched at the end of a round is touched at the start of the next."""
        while True:
            blocks, ends, state = [], [], touched
            for inner in op.blocks:
                block, state = self._block(inner, state)
                blocks.append(block)
                ends.append(state)
            if state <= touched:      # a `while` is left after its first block, a `for` perhaps before its first round
                return replace(op, blocks=tuple(blocks)), ends[0] if op.name == "while" else touched
            touched |= state


def _fence(op: Op, touched: Touched) -> Op:
    """The fence before `op`; where another CTA's memory was touched it covers the cluster."""
    attrs = MappingProxyType({"cluster": any(remote for _, remote in touched)})
    return Op("fence", (_FENCE, ), attrs=attrs, site=op.site)
