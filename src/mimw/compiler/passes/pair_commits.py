"""Commits in kernels of pairs of CTAs are the pair's, said or not.

Input: a program. Output: with products of pairs, the program in which every commit is the even CTA's and arrives in both:

    tcgen05_commit %done       becomes       %even = rank % 2 == 0; tcgen05_commit_pair %done, [%leader, %odd], %even

So does Triton lower a commit in such a kernel: one thread of the even CTA commits, by `.cta_group::2` and to the barriers of both.
What a commit is about, products of the pair, the even CTA has issued; one that each CTA made by itself would arrive at once in the
odd one.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import I32, Block, Builder, Op, Program, Value


def pair_commits(program: Program) -> Program:
    """The program with such commits; the same object if it has no pairs, or no other commits."""
    if not program.in_pairs or not any(map(_is_single, program.where(lambda row: row.barrier == "commit"))):
        return program
    return replace(program, body=_block(program.body, Builder()))


def _is_single(op: Op) -> bool:
    return op.row.barrier == "commit" and not op.row.peers


def _block(block: Block, writer: Builder) -> Block:
    outside = writer.open()
    for op in block.ops:
        if _is_single(op):
            _commit(op, writer)
        else:
            writer.ops.append(op.with_blocks(lambda inner: _block(inner, writer)) if op.blocks else op)
    return block.with_ops(writer.close(outside))


def _commit(op: Op, writer: Builder) -> None:
    commit_of_the_pair(writer, op.barrier, op.site, op.predicate)


def commit_of_the_pair(writer: Builder, barrier: Value, site, predicate: Value | None = None) -> None:
    """A commit, on `barrier` of both CTAs, by the even one of the pair of the CTA that comes by."""
    rank = writer.emit("cluster_cta_rank", (), site)
    place = writer.by_constant("srem", rank, 2, site)
    leader = writer.emit("sub", (rank, place), site)
    odd = writer.by_constant("add", leader, 1, site)
    issues = writer.emit("icmpEQ", (place, writer.constant(0, I32, site)), site)
    if predicate is not None:
        issues = writer.emit("and", (issues, predicate), site)
    writer.emit("tcgen05_commit_pair", (barrier, (leader, odd), issues), site)
