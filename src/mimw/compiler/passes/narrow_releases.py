"""An arrival on another CTA's barrier releases at cluster scope only where there is something for another CTA to read.

Input: a program. Output: the program with attrs["scope"] = "cta" on its remote arrivals, or the same object:

    local_load tile; remote_arrive %free 1 %rank       the arrival announces the end of a read: "cta"
    store %p %x; remote_arrive %full 1 %rank           another CTA may read %p: the scope stays the cluster's

A release at cluster scope waits until the thread's writes have reached the L2 cache, about half a microsecond; in a
multicast GEMM once a slot. There nothing is written but the CTA's own shared memory, which no instruction of another
CTA reads (a load through `tle.remote` would), and what the copy engines move, which barriers and bulk groups finish.
Such arrivals announce the end of reads, for which release at CTA scope is enough (so does CUTLASS,
`ClusterBarrier::arrive`).
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, OpDef, Program


def narrow_releases(program: Program) -> Program:
    """The program with attrs["scope"] = "cta" on its remote arrivals, unless it writes to global or other CTAs' memory
    by ordinary instructions: anywhere, as a release also passes on what others have released."""
    if not program.named("remote_arrive") or program.where(_is_released):
        return program
    return replace(program, body=_narrowed(program.body))


def _is_released(row: OpDef) -> bool:
    """True if another CTA reads the memory that an op of that row writes after a release, or if the op itself reads so. False
    for writes into this CTA's shared memory, and for data that a copy engine moves."""
    if any(access == "peer-read" for _, access in row.touches):
        return True
    moved = row.copy in ("in", "out") or row.barrier == "complete"
    return "write" in row.effects and not (row.allocates or row.stores_registers or moved)


def _narrowed(block: Block) -> Block:
    ops = (op.with_attrs(scope="cta") if op.name == "remote_arrive" else op.with_blocks(_narrowed) for op in block.ops)
    return block.with_ops(ops)
