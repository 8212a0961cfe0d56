"""`C[i] = A[i] B[i]` for a batch of matrices on Hopper: the GEMM over tiles of three dimensions.

Input: descriptors of A, B and C, the batch's length and the matrices' sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, programs)
    batched_gemm[grid](*args, **meta)

Nouns, roles and schedules are the GEMM's. The tiles of a batch are counted matrix by matrix, each in the GEMM's order, so programs
work on few matrices at a time. A tile that sticks out of its matrix does not reach the next one: TMA knows three extents.
An operand of one matrix for the whole batch is read at 0 each time.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, one_of_consumers, open_turns
from ..gemm.kernel import columns, multiply, output_tiles, tile_origin


@mimw.jit
def place(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """(matrix, first row, first column) of output tile number `tile`."""
    each = output_tiles(M, N, BM, BN)
    m, n = tile_origin(tile % each, M, N, BM, BN, GROUP_M)
    return tile // each, m, n


@mimw.jit
def load(inputs, a_desc, b_desc, batch, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         B_IS_NK: tl.constexpr, ONE_A: tl.constexpr, ONE_B: tl.constexpr):
    """Tiles of A and B along K, for one output tile of this program after the other."""
    chunk = 0
    for tile in range(tl.program_id(0), batch * output_tiles(M, N, BM, BN), tl.num_programs(0)):
        i, m, n = place(tile, M, N, BM, BN, GROUP_M)
        for k in range(0, K, BK):
            slot = inputs.acquire(chunk)
            tle.gpu.copy(a_desc, slot.a, a_desc.block_shape, [0 if ONE_A else i, m, k])
            tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [0 if ONE_B else i, n, k] if B_IS_NK else [0 if ONE_B else i, k, n])
            inputs.commit(chunk)
            chunk += 1


@mimw.jit
def store(c_desc, staging, first: tl.constexpr, acc, i, m, n, BN: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr):
    """Write an output tile in column pieces; a piece waits only for the store that last used its staging tile."""
    for piece in tl.static_range(PIECES):
        tile = staging[first + piece % STAGING]
        tlx.async_descriptor_store_wait(STAGING - 1)
        tlx.local_store(tile, columns(acc, piece, PIECES).to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(c_desc, tile, [i, m, n + piece * (BN // PIECES)])


@mimw.jit
def compute(inputs, staging, c_desc, batch, M, N, K, me: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            GROUP_M: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr, PING_PONG: tl.constexpr,
            B_IS_NK: tl.constexpr):
    """The output tiles of consumer `me`: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    TURNS: tl.constexpr = CONSUMERS if PING_PONG else 1
    ROWS: tl.constexpr = BM // (CONSUMERS // TURNS)
    turn: tl.constexpr = me if PING_PONG else 0
    row: tl.constexpr = 0 if PING_PONG else me * ROWS
    steps = tl.cdiv(K, BK)
    chunk = turn * steps
    if PING_PONG:
        open_turns(me, CONSUMERS)
    for tile in range(tl.program_id(0) + turn * tl.num_programs(0), batch * output_tiles(M, N, BM, BN), TURNS * tl.num_programs(0)):
        acc = multiply(inputs, chunk, steps, me, row, ROWS, BN, CONSUMERS, PING_PONG, B_IS_NK)
        i, m, n = place(tile, M, N, BM, BN, GROUP_M)
        store(c_desc, staging, STAGING * me, acc, i, m + row, n, BN, PIECES, STAGING)
        chunk += TURNS * steps
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def batched_gemm(a_desc, b_desc, c_desc, batch, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 GROUP_M: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
                 PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr, ONE_A: tl.constexpr, ONE_B: tl.constexpr):
    """C[i] = A[i] B[i] for i < batch, with B as (batch, K, N), or as (batch, N, K) where B_IS_NK; ONE_A: A[0] for every i."""
    ROWS: tl.constexpr = BM if PING_PONG else BM // CONSUMERS
    B_SHAPE: tl.constexpr = (STAGES, BN, BK) if B_IS_NK else (STAGES, BK, BN)
    inputs = tle.pipe(capacity=STAGES, readers=one_of_consumers(CONSUMERS) if PING_PONG else consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc(B_SHAPE, tlx.dtype_of(b_desc)))
    staging = tlx.local_alloc((ROWS, BN // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), staging, c_desc, batch, M, N, K, me, BM, BN, BK, GROUP_M, CONSUMERS, PIECES,
                    STAGING, PING_PONG, B_IS_NK)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), a_desc, b_desc, batch, M, N, K, BM, BN, BK, GROUP_M, B_IS_NK, ONE_A, ONE_B)
