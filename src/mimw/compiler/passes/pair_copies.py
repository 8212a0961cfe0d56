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

from ...ir import I32, Block, Builder, Op, Program


def pair_copies(program: Program) -> Program:
    """The program with such copies; the same object if there are none."""
    if not program.in_pairs or not program.named("tmem_copy"):
        return program
    return replace(program, body=_block(program.body, Builder()))


def _block(block: Block, writer: Builder) -> Block:
    outside = writer.open()
    for op in block.ops:
        if op.name == "tmem_copy":
            _by_the_even_cta(op, writer)
        else:
            writer.ops.append(op.with_blocks(lambda inner: _block(inner, writer)) if op.blocks else op)
    return block.with_ops(writer.close(outside))


def _by_the_even_cta(copy: Op, writer: Builder) -> None:
    """The copy that the even CTA starts for both."""
    site = copy.site
    rank = writer.emit("cluster_cta_rank", (), site)
    two, one, zero = (writer.constant(number, I32, site) for number in (2, 1, 0))
    place = writer.emit("srem", (rank, two), site)
    even = writer.emit("icmpEQ", (place, zero), site)
    odd = writer.emit("add", (rank, writer.emit("sub", (one, place), site)), site)
    writer.emit("tmem_copy_pair", (copy.source, copy.buffer, even, odd), site)
