"""An arrival on another CTA's barrier releases at cluster scope only where there is something for another CTA to read.

Release at cluster scope waits until the thread's writes have reached the L2 cache, about half a microsecond; in a
multicast GEMM once a slot. There nothing is written but the CTA's own shared memory, which no instruction of another
CTA reads (a load through `tle.remote` would), and what the copy engines move, which barriers and bulk groups finish.
Such arrivals tell that reads are over, and for that release at CTA scope is enough (so does CUTLASS, `ClusterBarrier::arrive`).
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import OPS, Block, Program

# Writes that no release is for: into this CTA's shared memory, or by a copy engine.
_NOT_RELEASED = frozenset((
    "alias_overlap", "alias_storage", "alloc_barriers", "async_load", "async_remote_copy", "async_remote_store",
    "bulk_load", "bulk_store", "descriptor_store", "local_alloc", "local_atomic_cas", "local_atomic_rmw", "local_masked_scatter",
    "local_scatter", "local_store", "tma_fetch", "tma_load", "tma_load_multicast", "tma_store"))


def narrow_releases(program: Program) -> Program:
    """The program with attrs["scope"] = "cta" on its remote arrivals, unless it writes to global or other CTAs' memory
    by ordinary instructions: anywhere, as a release also passes on what others have released."""
    ops = list(program.walk())
    written = any("write" in OPS[op.name].effects and op.name not in _NOT_RELEASED or op.name == "remote_load" for op in ops)
    if written or not any(op.name == "remote_arrive" for op in ops):
        return program
    return replace(program, body=_narrowed(program.body))


def _narrowed(block: Block) -> Block:
    ops = []
    for op in block.ops:
        if op.name == "remote_arrive":
            op = replace(op, attrs={**op.attrs, "scope": "cta"})
        elif op.blocks:
            op = replace(op, blocks=tuple(_narrowed(inner) for inner in op.blocks))
        ops.append(op)
    return replace(block, ops=tuple(ops))
