"""A program without branches whose condition is a number that is known.

Input: a plain program. Output: the program with the taken branch in place of each such `if`, or the same object. For example:

    if M == 0: return; for k: ..        the loop, where M is 4096 in the kernel's text

Kernels that are generated for one shape ask such questions of it, and return early by them: what follows then stands in a branch,
out of which nothing is handed over. Triton folds them as well.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Builder, Op, Program
from ..analysis.constants import constant_of
from ..analysis.uses import uses_of


def with_known_branches(program: Program) -> Program:
    """The program with the branches that are taken for certain as part of what is around them."""
    uses = uses_of(program)
    taken = {op: holds for op in program.named("if") if (holds := constant_of(uses, op.condition)) is not None}
    if not taken:
        return program
    builder = Builder(program.site)

    def walk(block: Block) -> Block:
        outside = builder.open()
        inline(block.ops)
        return block.with_ops(builder.close(outside))

    def inline(ops: tuple[Op, ...]) -> None:
        for op in ops:
            if op not in taken:
                builder.copy(op.with_blocks(walk), op.args)
                continue
            block = _branch(op, bool(taken[op]))
            if block is not None:
                inline(tuple(inner for inner in block.ops if "terminator" not in inner.row.traits))
                builder.env.update(zip(op.results, builder.now(block.yielded), strict=True))

    return replace(program, body=walk(program.body))


def _branch(op: Op, holds: bool) -> Block | None:
    """The block for a condition that holds, or the one for one that does not; None if there is none."""
    return op.blocks[0] if holds else op.blocks[1] if len(op.blocks) > 1 else None
