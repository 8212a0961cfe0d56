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

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..checks import persistent
from ..descriptors import described
from ..gemm.kernel import output_tiles, tile_origin
from .configs import LINE_BYTES, SHARED_BYTES
from .kernel import store

BM, BN, CONSUMERS, LAG = 128, 256, 2, 2
REGISTERS = 208, 88         # of a consumer's threads, and of those that copy


@mimw.jit
def gather(a_tiles, b_tiles, full, free, a_ptr, b_desc, sources_ptr, experts_ptr, total_ptr, N, K, M, BM: tl.constexpr,
           WIDTH: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr, LAG: tl.constexpr,
           EVEN: tl.constexpr):
    """Tiles of the rows and of the expert's weights along K, for one output tile of this program after the other."""
    BYTES: tl.constexpr = 2 * WIDTH * BK * tlx.size_of(tlx.dtype_of(b_desc))
    rows, chunk, column = tl.load(total_ptr), 0, tl.arange(0, BK)[None, :]
    for tile in range(tl.program_id(0), output_tiles(rows, N, BM, WIDTH), tl.num_programs(0)):
        m, n = tile_origin(tile, rows, N, BM, WIDTH, GROUP_M)
        expert = tl.load(experts_ptr + m // BM)
        row = tl.minimum(tl.load(sources_ptr + m + tl.arange(0, BM)), M - 1)
        at = a_ptr + row.to(tl.int64)[:, None] * K + column
        for k in range(0, K, BK):
            slot = chunk % STAGES
            tlx.barrier_wait(free[slot], ((chunk // STAGES) & 1) ^ 1)
            tlx.barrier_expect_bytes(full[slot], BYTES)
            for half in tl.static_range(2):
                tlx.async_descriptor_load(b_desc, tlx.local_slice(b_tiles[slot], [half * WIDTH, 0], [WIDTH, BK]),
                                          [expert, half * N + n, k], full[slot])
            if EVEN:
                tlx.async_load(at + k, a_tiles[slot])
            else:
                tlx.async_load(at + k, a_tiles[slot], mask=k + column < K, other=0.0)
            tlx.async_load_commit_group()
            if chunk >= LAG:
                tlx.async_load_wait_group(LAG)
                tlx.fence("async_shared")
                tlx.barrier_arrive(full[(chunk - LAG) % STAGES])
            chunk += 1
    tlx.async_load_wait_group(0)
    tlx.fence("async_shared")
    for last in range(tl.maximum(chunk - LAG, 0), chunk):
        tlx.barrier_arrive(full[last % STAGES])


@mimw.jit
def compute(a_tiles, b_tiles, full, free, staging, c_desc, total_ptr, N, K, me: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, GROUP_M: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGES: tl.constexpr):
    """The share of consumer `me` of the rows of each output tile; one product is always under way."""
    WIDTH: tl.constexpr = BN // 2
    ROWS: tl.constexpr = BM // CONSUMERS
    rows, steps, first = tl.load(total_ptr), tl.cdiv(K, BK), 0
    for tile in range(tl.program_id(0), output_tiles(rows, N, BM, WIDTH), tl.num_programs(0)):
        acc = tl.zeros((ROWS, BN), tl.float32)
        for chunk in range(first, first + steps):
            slot = chunk % STAGES
            tlx.barrier_wait(full[slot], (chunk // STAGES) & 1)
            acc = tlx.async_dot(tlx.local_slice(a_tiles[slot], [me * ROWS, 0], [ROWS, BK]), tlx.local_trans(b_tiles[slot]), acc)
            acc = tlx.async_dot_wait(1, acc)
            tlx.barrier_arrive(free[(chunk + STAGES - 1) % STAGES], pred=chunk > first)
        acc = tlx.async_dot_wait(0, acc)
        first += steps
        tlx.barrier_arrive(free[(first - 1) % STAGES])
        m, n = tile_origin(tile, rows, N, BM, WIDTH, GROUP_M)
        store(c_desc, staging, me, acc, m + me * ROWS, n, ROWS, WIDTH, PIECES, 1, True)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def gathered_gemm(a_ptr, b_desc, c_desc, sources_ptr, experts_ptr, total_ptr, N, K, M, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr,
                  LAG: tl.constexpr, EVEN: tl.constexpr, SMALL: tl.constexpr, LARGE: tl.constexpr):
    """C[rows, N] = silu(A[sources] gate^T) (A[sources] up^T) of rows in blocks of BM; gate and up are the halves of B[expert], with
    A as (M, K) and B as (experts, 2 N, K). K is a multiple of BK where it is EVEN."""
    WIDTH: tl.constexpr = BN // 2
    tl.static_assert(STAGES >= LAG + 2)
    a_tiles = tlx.local_alloc((BM, BK), tlx.dtype_of(a_ptr), STAGES)
    b_tiles = tlx.local_alloc((BN, BK), tlx.dtype_of(b_desc), STAGES)
    staging = tlx.local_alloc((BM // CONSUMERS, WIDTH // PIECES), tlx.dtype_of(c_desc), CONSUMERS)
    full, free = tlx.alloc_barriers(STAGES, 2), tlx.alloc_barriers(STAGES, CONSUMERS)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=LARGE, replicate=CONSUMERS):
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(a_tiles, b_tiles, full, free, staging, c_desc, total_ptr, N, K, me, BM, BN, BK, GROUP_M, CONSUMERS, PIECES,
                    STAGES)
        with tlx.async_task(num_warps=4, num_regs=SMALL):
            gather(a_tiles, b_tiles, full, free, a_ptr, b_desc, sources_ptr, experts_ptr, total_ptr, N, K, M, BM, WIDTH, BK,
                   GROUP_M, STAGES, LAG, EVEN)


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
    meta = dict(BM=BM, BN=BN, BK=LINE_BYTES // size, GROUP_M=group_m, STAGES=stages, CONSUMERS=CONSUMERS, PIECES=pieces, LAG=LAG,
                EVEN=k * size % LINE_BYTES == 0, LARGE=REGISTERS[0], SMALL=REGISTERS[1], num_warps=4)
    descriptors = described(b, [1, BN // 2, meta["BK"]]), described(c, [BM // CONSUMERS, BN // 2 // pieces])
    tiles = c.shape[0] // BM * -(-n // (BN // 2))
    return gathered_gemm, (min(persistent(programs), tiles), ), (a, *descriptors, sources, experts, total, n, k, m), meta


__all__ = ["BM", "gathered_gemm", "gathered_product"]
