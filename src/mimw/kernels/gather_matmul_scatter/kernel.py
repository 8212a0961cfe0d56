"""`C[to] = A[from] B` on Hopper: TMA brings the picked rows of A straight into the tiles that the tensor cores read, and takes the
product's rows straight to where they belong.

Input: descriptors of A, B and C, the row numbers, and sizes. Output: rows of C are written. For example:

    grid, args, meta = arguments(a, b, c, source, target, programs)
    gather_matmul_scatter[grid](*args, **meta)

Nouns: the pipe `inputs`, whose chunk holds a (BM, BK) tile of picked rows of A and the BK x BN tile of B that goes with the
rows; STAGING tiles for each consumer's rows. Roles: `load`, and CONSUMERS times `compute`, each on its own rows of an output tile.

A row is a copy of its own, so the tiles are wide: 128 rows of 128 bytes take 0.41 us to gather on an H200, and the product of
128 x 256 x 64 takes 0.74 us. The order of the tiles is the GEMM's.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.kernel import columns, multiply, output_tiles, tile_origin


@mimw.jit
def load(inputs, a_desc, b_desc, source_ptr, R, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         B_IS_NK: tl.constexpr):
    """Picked rows of A, and tiles of B, along K, for one output tile of this program after the other."""
    chunk = 0
    for tile in range(tl.program_id(0), output_tiles(R, N, BM, BN), tl.num_programs(0)):
        m, n = tile_origin(tile, R, N, BM, BN, GROUP_M)
        at = m + tl.arange(0, BM)
        rows = tl.load(source_ptr + at, mask=at < R, other=-1)      # row -1 reads zeros
        for k in range(0, K, BK):
            slot = inputs.acquire(chunk)
            tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [n, k] if B_IS_NK else [k, n])
            tle.gpu.copy(a_desc, slot.a, [BM, BK], [rows, k])
            inputs.commit(chunk)
            chunk += 1


@mimw.jit
def store(c_desc, staging, first: tl.constexpr, acc, rows, n, BN: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr):
    """Send the rows of an output tile where they belong, in column pieces."""
    for piece in tl.static_range(PIECES):
        tile = staging[first + piece % STAGING]
        tlx.async_descriptor_store_wait(STAGING - 1)
        tlx.local_store(tile, columns(acc, piece, PIECES).to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_scatter(c_desc, tile, rows, n + piece * (BN // PIECES))


@mimw.jit
def compute(inputs, staging, c_desc, target_ptr, R, N, K, C_ROWS, me: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, GROUP_M: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
            B_IS_NK: tl.constexpr):
    """The rows of each output tile that are consumer `me`'s."""
    ROWS: tl.constexpr = BM // CONSUMERS
    steps = tl.cdiv(K, BK)
    chunk = 0
    for tile in range(tl.program_id(0), output_tiles(R, N, BM, BN), tl.num_programs(0)):
        m, n = tile_origin(tile, R, N, BM, BN, GROUP_M)
        at = m + me * ROWS + tl.arange(0, ROWS)
        rows = tl.load(target_ptr + at, mask=at < R, other=C_ROWS)
        rows = tl.where(rows < 0, C_ROWS, rows)                     # TMA leaves out what is behind the end, not what is before
        acc = multiply(inputs, chunk, steps, me, me * ROWS, ROWS, BN, CONSUMERS, False, B_IS_NK)
        store(c_desc, staging, STAGING * me, acc, rows, n, BN, PIECES, STAGING)
        chunk += steps
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def gather_matmul_scatter(a_desc, b_desc, c_desc, source_ptr, target_ptr, R, N, K, C_ROWS, BM: tl.constexpr, BN: tl.constexpr,
                          BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr,
                          PIECES: tl.constexpr, STAGING: tl.constexpr, LOAD_WARPS: tl.constexpr, B_IS_NK: tl.constexpr):
    """C[target[i], :] = A[source[i], :] B for i < R, with B as (K, N), or as (N, K) where B_IS_NK."""
    B_SHAPE: tl.constexpr = (STAGES, BN, BK) if B_IS_NK else (STAGES, BK, BN)
    inputs = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc(B_SHAPE, tlx.dtype_of(b_desc)))
    staging = tlx.local_alloc((BM // CONSUMERS, BN // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=232, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), staging, c_desc, target_ptr, R, N, K, C_ROWS, me, BM, BN, BK, GROUP_M, CONSUMERS,
                    PIECES, STAGING, B_IS_NK)
        with tlx.async_task(num_warps=LOAD_WARPS, num_regs=40):  # producer
            load(inputs.writer(), a_desc, b_desc, source_ptr, R, N, K, BM, BN, BK, GROUP_M, B_IS_NK)
