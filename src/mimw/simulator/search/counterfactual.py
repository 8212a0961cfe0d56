"""The same program with one thing changed, to see whether that is what was wrong; and what its author calls that thing.

Input: a program and a source position. Output: the changed program, or a word. For example:

    flipped_waits(program, site)      the barrier waits at that line name the other parity
"""

from __future__ import annotations

from dataclasses import replace

from ...compiler.analysis.barrier_ops import waits
from ...ir import Block, Op, Program, Value
from ...ir.types import I32


def verb_of_pipe(program: Program, site) -> str:
    """The word of a pipe's user for the barrier waits at a source position: "wait" or "acquire"; "" if they are of no pipe."""
    return next((wait.op.attrs["method"] for wait in waits(program) if wait.op.site == site and "method" in wait.op.attrs), "")


def flipped_waits(program: Program, site) -> Program | None:
    """The program in which the barrier waits at a source position name the other parity; None if there are none there."""
    found = False

    def ops_of(op: Op) -> list[Op]:
        nonlocal found
        if op.name == "barrier_wait" and op.site == site:
            found = True
            one, other = Value(I32), Value(I32)
            return [Op("constant", (1, I32), (one, ), site=op.site), Op("xor", (op.phase, one), (other, ), site=op.site),
                    replace(op, args=tuple(other if arg is op.phase else arg for arg in op.args))]
        return [replace(op, blocks=tuple(map(block_of, op.blocks)))] if op.blocks else [op]

    def block_of(block: Block) -> Block:
        return replace(block, ops=tuple(new for op in block.ops for new in ops_of(op)))

    changed = replace(program, body=block_of(program.body))
    return changed if found else None
