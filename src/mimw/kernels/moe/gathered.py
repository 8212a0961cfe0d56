"""The first product of a mixture of experts, of rows that lie anywhere: threads copy them by number into the tiles that the tensor
cores read.

Input: A as it lies, a descriptor of all experts' weights, the numbers of the rows that each expert gets, in blocks of BM, and the
expert of each block. Output: C[r] = silu(gate a) up a with a = A[sources[r]], where gate and up are the halves of the expert's
weights. For example:

    _, grid, args, meta = gathered_product(rows, w_gate_up, inner, sources, experts, total, programs)
    gathered_gemm[grid](*args, **meta)

The tiles, their order and what the consumers do are those of kernel.py, GATED. What is different is who brings A: TMA on Hopper
starts one copy a row, here four warps copy 16 bytes a thread (cp.async), and one of them starts TMA for the weights. They do not
wait for a chunk before they start the next: what is LAG chunks behind has landed, and only that is told to the consumers, who give
a slot back a chunk later. So there are LAG + 2 slots: with fewer each waits for the other. Rows of padding have a number behind A;
the last row of A is read for them, and nobody reads what becomes of it.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..checks import persistent
from ..descriptors import described
from ..ring_of_tiles import Ring
from .blocks import BlockOutput, BlockTiles, blocks
from .configs import LINE_BYTES, SHARED_BYTES
from .nouns import GatheredForm

BM, BN, CONSUMERS, LAG = 128, 256, 2, 2
REGISTERS = 208, 88         # of a consumer's threads, and of those that copy


@tle.struct
class Gathered:
    """The M rows of A as they lie, the weights, the rows that each expert gets by number, and the expert of each block."""
    a: tl.tensor
    b_desc: tl.tensor_descriptor
    sources: tl.tensor
    experts: tl.tensor
    M: Any


@tle.struct
class Share:
    """One of the CONSUMERS that share the rows of a tile."""
    me: tl.constexpr
    CONSUMERS: tl.constexpr


@mimw.jit
def gather(ring, operands, source, LAG: tl.constexpr, EVEN: tl.constexpr):
    """Tiles of the rows and of the expert's weights along K, for one output tile of this program after the other."""
    BK: tl.constexpr = source.tiles.BK
    WIDTH: tl.constexpr = source.tiles.BN
    STAGES: tl.constexpr = ring.STAGES
    BYTES: tl.constexpr = 2 * WIDTH * BK * tlx.size_of(tlx.dtype_of(operands.b_desc))
    chunk, column = 0, tl.arange(0, BK)[None, :]
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        place = source.at(tile)
        expert = tl.load(operands.experts + place.m // source.tiles.BM)
        row = tl.minimum(tl.load(operands.sources + place.m + tl.arange(0, source.tiles.BM)), operands.M - 1)
        at = operands.a + row.to(tl.int64)[:, None] * source.problem.K + column
        for k in range(0, source.problem.K, BK):
            slot = chunk % STAGES
            tlx.barrier_wait(ring.free[slot], ((chunk // STAGES) & 1) ^ 1)
            tlx.barrier_expect_bytes(ring.full[slot], BYTES)
            for half in tl.static_range(2):
                tlx.async_descriptor_load(operands.b_desc, tlx.local_slice(ring.b[slot], [half * WIDTH, 0], [WIDTH, BK]),
                                          [expert, half * source.problem.N + place.n, k], ring.full[slot])
            if EVEN:
                tlx.async_load(at + k, ring.a[slot])
            else:
                tlx.async_load(at + k, ring.a[slot], mask=k + column < source.problem.K, other=0.0)
            tlx.async_load_commit_group()
            if chunk >= LAG:
                tlx.async_load_wait_group(LAG)
                tlx.fence("async_shared")
                tlx.barrier_arrive(ring.full[(chunk - LAG) % STAGES])
            chunk += 1
    tlx.async_load_wait_group(0)
    tlx.fence("async_shared")
    for last in range(tl.maximum(chunk - LAG, 0), chunk):
        tlx.barrier_arrive(ring.full[last % STAGES])


@mimw.jit
def compute(ring, source, out, part):
    """A consumer's share of the rows of each output tile; one product is always under way."""
    ROWS: tl.constexpr = source.tiles.BM // part.CONSUMERS
    STAGES: tl.constexpr = ring.STAGES
    steps, first = source.steps(), 0
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        acc = tl.zeros((ROWS, 2 * source.tiles.BN), tl.float32)
        for chunk in range(first, first + steps):
            slot = chunk % STAGES
            tlx.barrier_wait(ring.full[slot], (chunk // STAGES) & 1)
            rows = tlx.local_slice(ring.a[slot], [part.me * ROWS, 0], [ROWS, source.tiles.BK])
            acc = tlx.async_dot(rows, tlx.local_trans(ring.b[slot]), acc)
            acc = tlx.async_dot_wait(1, acc)
            tlx.barrier_arrive(ring.free[(chunk + STAGES - 1) % STAGES], pred=chunk > first)
        acc = tlx.async_dot_wait(0, acc)
        first += steps
        tlx.barrier_arrive(ring.free[(first - 1) % STAGES])
        out.store(acc, source.at(tile).moved(part.me * ROWS), part)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def gathered_gemm(a_ptr, b_desc, c_desc, sources_ptr, experts_ptr, total_ptr, N, K, M, FORM: tl.constexpr):
    """C[rows, N] = silu(A[sources] gate^T) (A[sources] up^T) of rows in blocks of BM; gate and up are the halves of B[expert], with
    A as (M, K) and B as (experts, 2 N, K). K is a multiple of BK where it is EVEN."""
    WIDTH: tl.constexpr = FORM.BN // 2
    tl.static_assert(FORM.STAGES >= FORM.LAG + 2)
    a_tiles = tlx.local_alloc((FORM.BM, FORM.BK), tlx.dtype_of(a_ptr), FORM.STAGES)
    b_tiles = tlx.local_alloc((FORM.BN, FORM.BK), tlx.dtype_of(b_desc), FORM.STAGES)
    staging = tlx.local_alloc((FORM.BM // FORM.CONSUMERS, WIDTH // FORM.PIECES), tlx.dtype_of(c_desc), FORM.CONSUMERS)
    ring = Ring(a_tiles, b_tiles, tlx.alloc_barriers(FORM.STAGES, 2), tlx.alloc_barriers(FORM.STAGES, FORM.CONSUMERS), FORM.STAGES)
    tiles, operands = BlockTiles(FORM.BM, WIDTH, FORM.GROUP_M, FORM.BK), Gathered(a_ptr, b_desc, sources_ptr, experts_ptr, M)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=FORM.LARGE, replicate=FORM.CONSUMERS):
            me: tl.constexpr = tlx.async_task_replica_id()
            out = BlockOutput(c_desc, staging, FORM.PIECES, 1, FORM.BM // FORM.CONSUMERS, True)
            compute(ring, blocks(total_ptr, N, K, tiles), out, Share(me, FORM.CONSUMERS))
        with tlx.async_task(num_warps=4, num_regs=FORM.SMALL):
            gather(ring, operands, blocks(total_ptr, N, K, tiles), FORM.LAG, FORM.EVEN)


def gathered_product(a, b, c, sources, experts, total, programs: int, group_m: int = 8) -> tuple:
    """(kernel, grid, args, meta) of c[r] = silu(gate a) up a, a = a[sources[r]], for blocks of BM rows.

    args:      a         (rows, K), contiguous, of 16 or 32 bits a number; K a multiple of 16 bytes
               b         (count, 2 N, K) of a's type: each expert's gate, then its up; rows as TMA reads them
               c         (blocks of BM rows, N) of a's type
               sources   int32, of as many numbers as c has rows: rows of a, or anything above for padding
               experts   int32, of each block; total (1, ) int32: how many rows there are, whole blocks
               programs  one a multiprocessor
    """
    size, (_, n), (m, k) = a.dtype.itemsize, c.shape, a.shape
    pieces = BN // 2 * size // LINE_BYTES
    stages = (SHARED_BYTES - BM * LINE_BYTES) // (LINE_BYTES * (BM + BN))
    form = GatheredForm(BM, BN, LINE_BYTES // size, group_m, stages, CONSUMERS, pieces, LAG, k * size % LINE_BYTES == 0,
                        LARGE=REGISTERS[0], SMALL=REGISTERS[1])
    descriptors = described(b, [1, BN // 2, LINE_BYTES // size]), described(c, [BM // CONSUMERS, BN // 2 // pieces])
    tiles = c.shape[0] // BM * -(-n // (BN // 2))
    args = a, *descriptors, sources, experts, total, n, k, m
    return gathered_gemm, (min(persistent(programs), tiles), ), args, dict(FORM=form, num_warps=4)


__all__ = ["BM", "gathered_gemm", "gathered_product"]
