"""Products that are lowered to assembly, and read what their own task has written by ordinary instructions since it last fenced.

Input: a program. Output: those `async_dot`s; for each, the assembly has to fence and to hold the task's warps. For example:

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
from .fencing import NONE, Fencer, Touched, releases


def unfenced_products(program: Program) -> frozenset[Op]:
    """The products that need a fence."""
    return program.kept(_unfenced_products)


def _unfenced_products(program: Program) -> frozenset[Op]:
    finder = _Products(program)
    finder.kernel()
    return frozenset(finder.found)


class _Products(Fencer):
    """Finds products, and keeps nothing of the fences that it puts in. A fence of the author's does where an op that lets other
    tasks go on stands right behind it: that op holds the task's warps until all have come."""

    SCOPE, SCOPES = "product", ("async_shared", "delivery", "product")

    def __init__(self, program: Program):
        super().__init__(program)
        self.found: set[Op] = set()
        self.met = {op for block in _blocks(program.body) for op, after in _pairs(block) if op.name == "fence" and releases(after)}

    def touches(self, op: Op) -> Touched:
        return frozenset((root, False) for root in self.buffers(op, "write")) if op.row.touches else NONE

    def fences(self, op: Op) -> bool:
        return super().fences(op) and (op in self.met or op.scope == self.SCOPE)

    def needs_fence(self, op: Op, touched: Touched) -> bool:
        if op.name != "async_dot" or self.buffers(op, "async-read").isdisjoint(root for root, _ in touched):
            return False
        self.found.add(op)
        return True

    def is_over(self, op: Op) -> bool:
        return op.name == "async_dot"


def _pairs(block: Block) -> Iterator[tuple[Op, Op]]:
    """Each op that does more than compute, and the next such op."""
    return pairwise(op for op in block.ops if "pure" not in op.row.effects)


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for inner in op.blocks:
            yield from _blocks(inner)
