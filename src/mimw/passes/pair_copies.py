"""Copies to tensor memory in a kernel of pairs of CTAs, as copies of both CTAs.

Input: a program. Output: the program in which the even CTA of each pair starts such copies, for itself and for the odd one; the
same object if there is none. For example:

    tmem_copy %scales, %table        becomes        %even = rank % 2 == 0; tmem_copy_pair %scales, %table, %even, %odd

All tcgen05 instructions of a kernel have one .cta_group (PTX ISA), and with .cta_group::2 a copy is done in both CTAs: each has its
own shared memory copied to its own tensor memory. So one CTA starts the copy, the one that also starts the products: copies and
products of a thread are in order. Who is to wait for the copy waits for a commit of the pair.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Block, Op, Program, Value
from ..ir.types import I1, I32


def pair_copies(program: Program) -> Program:
    """The program with such copies; the same object if there are none."""
    if not program.in_pairs or not any(op.name == "tmem_copy" for op in program.walk()):
        return program
    return replace(program, body=_block(program.body))


def _block(block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if op.name == "tmem_copy":
            ops += _of_both(op)
        else:
            ops.append(op.with_blocks(_block) if op.blocks else op)
    return replace(block, ops=tuple(ops))


def _of_both(copy: Op) -> list[Op]:
    """The copy that the even CTA starts for both."""
    rank, two, place, one, zero, above, odd = (Value(I32) for _ in range(7))
    even = Value(I1)
    return [Op("cluster_cta_rank", (), (rank, ), site=copy.site),
            Op("constant", (2, I32), (two, ), site=copy.site), Op("constant", (1, I32), (one, ), site=copy.site),
            Op("constant", (0, I32), (zero, ), site=copy.site),
            Op("srem", (rank, two), (place, ), site=copy.site), Op("icmpEQ", (place, zero), (even, ), site=copy.site),
            Op("sub", (one, place), (above, ), site=copy.site), Op("add", (rank, above), (odd, ), site=copy.site),
            Op("tmem_copy_pair", (copy.source, copy.buffer, even, odd), site=copy.site)]
