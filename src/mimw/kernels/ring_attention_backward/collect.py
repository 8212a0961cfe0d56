"""dK and dV of a rank's own keys: the shares that all ranks have given it, added in the order of ranks.

Input: at every rank the shares of its keys, one of each rank. Output: dK and dV. For example:

    collect[(programs, )](parts_k, parts_v, dk, dv, world, ...)

Programs of one number meet first: all ranks have given their shares then, since a rank's launches follow each other. They meet
again at the end, so that no rank gives its next shares while these are being read. The same programs at all ranks, no more
than run at a time.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .places import sees_from

ROWS = tl.constexpr(32)


@mimw.jit
def has_share(source, me, row, rows, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """True if queries of rank `source` see row `row` of rank `me`."""
    if CAUSAL:
        return (source == me) | (sees_from(me, source, row, rows, PARTS) < rows)
    else:
        return source >= 0


@mimw.jit
def collect(parts_k, parts_v, dk, dv, world, units, rows, D: tl.constexpr, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """dk and dv, (units, rows, D), of shares (ranks, units, rows, D); a unit is a head of a batch."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    blocks = rows // ROWS
    within = tl.arange(0, ROWS)[:, None] * D + tl.arange(0, D)[None, :]
    tlx.world_barrier(world)
    for block in range(tl.program_id(0), units * blocks, tl.num_programs(0)):
        unit, row = block // blocks, block % blocks * ROWS
        to = (unit.to(tl.int64) * rows + row) * D + within
        k, v = tl.zeros((ROWS, D), tl.float32), tl.zeros((ROWS, D), tl.float32)
        for source in range(size):
            if has_share(source, me, row, rows, PARTS, CAUSAL):
                at = (source.to(tl.int64) * units * rows) * D + to
                k += tl.load(parts_k + at).to(tl.float32)
                v += tl.load(parts_v + at).to(tl.float32)
        tl.store(dk + to, k.to(dk.dtype.element_ty))
        tl.store(dv + to, v.to(dv.dtype.element_ty))
    tlx.world_barrier(world)
