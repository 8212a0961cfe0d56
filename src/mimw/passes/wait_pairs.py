"""Products of pairs of CTAs that are done when their word is over, as commits and waits.

Input: a program. Output: the program in which nobody waits by a product:

    tcgen05_mma_pair %a, %b, %acc .. waits=True       %phase = barrier_phase %bar; tcgen05_mma_pair ..; tcgen05_commit_pair %bar ..;
                                          becomes     barrier_arrive %bar; barrier_wait %bar, %phase

Each such product has a barrier of its own in every CTA, for two arrivals: the commit's, and this CTA's own. So the phase stays
while the CTA looks which one it is. Who does not call the product, the odd CTA under an `if`, waits for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Block, Op, Program, Value
from ..ir.types import I32, Barrier


def wait_pairs(program: Program) -> Program:
    """The program with such waits; the same object if there are none."""
    made: list[Op] = []
    body = _block(program.body, made)
    return replace(program, body=replace(body, ops=(*made, *body.ops))) if made else program


def _block(block: Block, made: list[Op]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if {"dot", "pairs"} <= op.row.traits and op.attrs.get("waits"):
            ops += _waited(op, made)
        else:
            ops.append(op.with_blocks(lambda inner: _block(inner, made)) if op.blocks else op)
    return replace(block, ops=tuple(ops))


def _waited(op: Op, made: list[Op]) -> list[Op]:
    array, barrier, phase = Value(Barrier(1), f"pair_done{len(made)}"), Value(Barrier(0)), Value(I32, "phase")
    made.append(Op("alloc_barriers", (1, 2), (array, ), site=op.site))
    product = replace(op, attrs={name: value for name, value in op.attrs.items() if name != "waits"})
    zero = Value(I32)
    return [Op("constant", (0, I32), (zero, ), site=op.site), Op("barrier_index", (array, zero), (barrier, ), site=op.site),
            Op("barrier_phase", (barrier, ), (phase, ), site=op.site),
            product,
            Op("tcgen05_commit_pair", (barrier, (op.leader, op.peer), op.predicate), site=op.site),
            Op("barrier_arrive", (barrier, 1, op.called), site=op.site),
            Op("barrier_wait", (barrier, phase, op.called), site=op.site)]
