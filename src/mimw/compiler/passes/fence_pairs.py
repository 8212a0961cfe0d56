"""A task that wrote operands by ordinary instructions fences before a product of a pair of CTAs reads them, or a copy of a pair.

Input: a program. Output: the program with such products and copies marked whose own task may have written what they read:

    local_store %tile, %x; tcgen05_mma_pair %tile, %b, ..        becomes        ..; tcgen05_mma_pair %tile, %b, .. fences=True

Triton puts the fence before its own products (docs/MEMORY_MODEL.md, rule 19), and nothing before assembly, which products of
pairs are, and their copies to tensor memory. What another task wrote, or the other CTA, its author fences (rule 18): the fence
is for this task's own writes only.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program, Task, Value
from ...ir.types import Buffer
from ..analysis import Uses, uses_of
from ..constraints.memory_roots import memory_roots


def fence_pairs(program: Program) -> Program:
    """The program with such ops marked; the same object if there are none."""
    if not any(map(_reads, program.where(lambda row: "pairs" in row.traits))):
        return program
    uses, roots = uses_of(program), memory_roots(program)
    written = {(uses.task(op), root) for op in program.walk() for name, kind in op.row.touches if kind == "write"
               for root in _roots(getattr(op, name), roots)}
    body = _fenced(program.body, uses, roots, written)
    return program if body is program.body else replace(program, body=body)


def _reads(op: Op) -> bool:
    """True for an op of a pair that reads shared memory in the asynchronous proxy."""
    return "pairs" in op.row.traits and not op.row.traits.isdisjoint(("dot", "fenced"))


def _roots(value, roots) -> frozenset[Value]:
    """The allocations in shared memory that an operand may be a view of."""
    if not isinstance(value, Value) or not isinstance(value.type, Buffer) or value.type.space != "smem":
        return frozenset()
    return frozenset(roots[value])


def _fenced(block: Block, uses: Uses, roots, written: set[tuple[Task | None, Value]]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        operands = [root for name in op.row.reads for root in _roots(getattr(op, name), roots)] if _reads(op) else ()
        if any((uses.task(op), root) in written for root in operands):
            op = op.with_attrs(fences=True)
        ops.append(op.with_blocks(lambda inner: _fenced(inner, uses, roots, written)) if op.blocks else op)
    return block.with_ops(ops)
