"""Products that are lowered to assembly, and read what their own task has written by ordinary instructions since it last fenced.

Input: a program. Output: those products; for each, the assembly has to fence and to hold the task's warps. For example:

    local_store(tile, x)                                  local_store(tile, x)
    async_dot(tile, b)         is one of them             fence("async_shared")
                                                          barrier_arrive(full)
                                                          async_dot(tile, b)         is none: all warps have fenced, and have met

For products of its own Triton has such a pass. It does not see what assembly reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...ir import Block, Op, Program
from ...ir.extents import is_odd
from .fencing import NONE, Fencer, Touched


def unfenced_products(program: Program) -> frozenset[Op]:
    """The products that need a fence."""
    return program.kept(_unfenced_products)


def _unfenced_products(program: Program) -> frozenset[Op]:
    finder = _Products(program)
    finder.kernel()
    return frozenset(finder.found)


class _Products(Fencer):
    """Finds products, and keeps nothing of the fences that it puts in. A fence of the author's does where an arrival of the whole
    task stands right behind it, which holds the task's warps until all have come."""

    SCOPE, SCOPES = "product", ("async_shared", "delivery", "product")

    def __init__(self, program: Program):
        super().__init__(program)
        self.found: set[Op] = set()
        copies = program.where(lambda row: row.copy == "in" and "async" in row.effects)
        self.copied = frozenset((root, False) for op in copies for root in self.buffers(op, "write"))
        blocks = program.body, *(block for op in program.walk() for block in op.blocks)
        pairs = (pair for block in blocks for pair in _pairs(block))
        self.met = {op for op, after in pairs if op.name == "fence" and _holds_all(after)}

    def touches(self, op: Op) -> Touched:
        """The memory that the op writes; a copy by pointers has written when it has been waited for."""
        if op.name == "async_wait":
            return self.copied
        return frozenset((root, False) for root in self.buffers(op, "write")) if op.row.touches else NONE

    def fences(self, op: Op) -> bool:
        return super().fences(op) and (op in self.met or op.scope == self.SCOPE)

    def needs_fence(self, op: Op, touched: Touched) -> bool:
        """True of a product that surely becomes assembly. If Triton puts a fence in for another one, that covers whole buffers
        only."""
        if not _may_be_assembly(op) or self.buffers(op, "async-read").isdisjoint(root for root, _ in touched):
            return False
        self.found.add(op)
        return any(is_odd(getattr(value.type, "shape", ())) for value in (*op.operands, *op.results))

    def is_over(self, op: Op) -> bool:
        return _may_be_assembly(op)


def _holds_all(op: Op) -> bool:
    """True of an arrival that one thread makes for the task, when all of its warps have come."""
    return op.row.barrier == "arrive" and "declared" not in op.row.traits and not op.barrier.type.per_thread


def _may_be_assembly(op: Op) -> bool:
    """True of a product that `pad_tiles` may give the author's types."""
    return "dot" in op.row.traits and "exact" in op.row.attributes


def _pairs(block: Block) -> Iterator[tuple[Op, Op]]:
    """Each op that does more than compute, and the next such op."""
    return pairwise(op for op in block.ops if "pure" not in op.row.effects)
