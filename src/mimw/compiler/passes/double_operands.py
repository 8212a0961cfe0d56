"""Operand A of 64 rows that a pair of CTAs takes from tensor memory lies there twice.

Input: a program. Output: the program in which such arrays have `doubled`: row r in lanes r and 64 + r, all columns in both. For
example:

    local_alloc buffer<fp16[64, 64] in tmem>; tcgen05_mma_pair %a ...      local_alloc ..., doubled=True

A product of 128 rows with .cta_group::2 has 64 rows in each CTA and goes by two data paths: lanes 0 to 63 make the left half of the
columns, lanes 64 to 127 the right half, each of the rows of A that lie there (PTX ISA, tcgen05.mma, "Data Path Layout
Organization", layout B; CUTLASS documents the operand: subpartitions 2 and 3 hold what 0 and 1 hold). So a store writes both, and
a load reads the first. Other arrays of 64 rows lie in halves (`ir.tensor_memory.lying`).
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import KernelError, NotYet
from ...ir import Block, Op, Program, Value
from ...ir.tensor_memory import LANES
from ..constraints.views import find_views

SPACE = "tmem"


def double_operands(program: Program) -> Program:
    """The program with those arrays marked; the same object if there are none."""
    dots = [op for op in program.where(lambda row: {"dot", "pairs"} <= row.traits) if _is_short(op.a)]
    if not dots:
        return program
    views = find_views(program)
    taken = {view.alloc: op for op in dots for view in views[op.a]}
    for op in program.where(lambda row: {"dot", "pairs"} <= row.traits):
        for view in views[op.acc]:
            if view.alloc in taken:
                raise KernelError("a product of a pair of CTAs adds up into a buffer of 64 rows that is operand A of another one: "
                                  "a sum lies in halves of rows, an operand in both halves of the lanes.", op.site,
                                  taken[view.alloc].site,
                                  hint="give A an array of its own, which may share columns: local_alloc(..., reuse=)")
    for value, found in views.items():
        if len({view.alloc in taken for view in found}) > 1:
            op = next(taken[view.alloc] for view in found if view.alloc in taken)
            raise NotYet(f"not yet: {value.name or 'a buffer'} of 64 rows that is now operand A of a pair of CTAs, now another "
                         "array", op.site, hint="choose between the products instead of the buffers")
    return replace(program, body=_marked(program.body, taken.keys()))


def _is_short(a: Value) -> bool:
    return a.type.space == SPACE and a.type.shape[0] == LANES // 2


def _marked(block: Block, taken) -> Block:
    def marked(op: Op) -> Op:
        if op.row.allocates == "buffer" and op.result in taken:
            return op.with_attrs(doubled=True)
        return op.with_blocks(lambda inner: _marked(inner, taken)) if op.blocks else op

    return block.with_ops([marked(op) for op in block.ops])
