"""Drops pure ops whose results nothing uses.

Input: a program. Output: the program without them, or the same object. For example:

    %c = constant 4; %r = add %c %c; store %p %x       becomes        store %p %x

Recording leaves constants, index arithmetic and views behind that only the language needed. They would hold captures of
tasks, show in every printout and cost the layout solver unknowns. Ops with an effect stay, whether or not their results
are used.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program, Value
from ...ir.ops import is_pure


def drop_unused(program: Program) -> Program:
    """The program without pure ops whose results reach no op with an effect; the same object if there are none."""
    body = _block(program.body, set())
    return program if body is program.body else replace(program, body=body)


def _block(block: Block, used: set[Value]) -> Block:
    """The block without unused ops. `used` gains the values that the kept ops read.

    Uses stand after definitions, and what a loop hands back to its start goes through its `yield`, which is always
    kept: one walk from the end to the start of each block finds everything.
    """
    kept: list[Op] = []
    for op in reversed(block.ops):
        if is_pure(op.name) and used.isdisjoint(op.results):
            continue
        inside = op.with_blocks(lambda inner: _block(inner, used))
        used.update(op.operands)
        kept.append(inside)
    ops = tuple(reversed(kept))
    return block.with_ops(ops)
