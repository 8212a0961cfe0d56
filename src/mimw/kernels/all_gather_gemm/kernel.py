"""`C = A B` where each GPU has some rows of A and all want all of C: a GEMM that begins with its own rows while the others come.

Input: at each GPU descriptors of its rows of A, of symmetric memory for all rows, of B and C. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, workspace, world, programs)
    all_gather_gemm[grid](*args, **meta)                at every GPU

Nouns: the pipe `inputs`, as the GEMM has it; `gathered`, where the rows of the other GPUs arrive; STAGING tiles for each consumer's
stores; with PUSH `lines`, by which rows go out. Roles: `load`, CONSUMERS times `compute`, and with PUSH `push`.

Each GPU computes the tiles of its own rows first, from where they lie, then those of the next GPU's rows and so on. `load` waits
for the signal of a band of rows, GROUP_M tiles high, before it loads the first of them. Who brings the rows is one of two:

    PUSH        a warp of each program of the rank that has them, by bulk copies over NVLink (push.py)
    copy engine the host has put the copies and signals into another stream; `open_gather` comes before, and resets the signals

With PUSH signals count launches, so does each program for itself in `calls`: nothing is reset, and nothing comes from the host. A
peer's `gathered` is free when it has begun the launch, as then its last one has ended.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..batched_gemm.kernel import store
from ..consumers import consumer, consumers, one_of_consumers, open_turns
from ..gemm.kernel import multiply, output_tiles, tile_origin
from .push import push


@mimw.jit
def load_tile(inputs, a_desc, b_desc, chunk, matrix, m, n, K, BK: tl.constexpr, B_IS_NK: tl.constexpr):
    """Tiles of A and B along K, as chunks from number `chunk` on; the number of the next one."""
    for k in range(0, K, BK):
        slot = inputs.acquire(chunk)
        tle.gpu.copy(a_desc, slot.a, a_desc.block_shape, [matrix, m, k])
        tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [n, k] if B_IS_NK else [k, n])
        inputs.commit(chunk)
        chunk += 1
    return chunk


@mimw.jit
def load(inputs, a_desc, gathered_desc, b_desc, arrived, wanted, world, M, N, K, BM: tl.constexpr, BN: tl.constexpr,
         BK: tl.constexpr, GROUP_M: tl.constexpr, B_IS_NK: tl.constexpr):
    """The tiles of this rank's rows, then those of the others', each behind the signal of its band."""
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    tiles, bands, chunk = output_tiles(M, N, BM, BN), tl.cdiv(M, BM * GROUP_M), 0
    for number in range(program, tiles, programs):
        m, n = tile_origin(number, M, N, BM, BN, GROUP_M)
        chunk = load_tile(inputs, a_desc, b_desc, chunk, 0, m, n, K, BK, B_IS_NK)
    first = program + tl.cdiv(max(tiles - program, 0), programs) * programs
    for number in range(first, tiles * size, programs):
        shard = (me + number // tiles) % size
        m, n = tile_origin(number % tiles, M, N, BM, BN, GROUP_M)
        tlx.wait_signal(arrived + shard * bands + m // (BM * GROUP_M), wanted)
        tlx.fence("gpu")
        chunk = load_tile(inputs, gathered_desc, b_desc, chunk, shard, m, n, K, BK, B_IS_NK)


@mimw.jit
def compute(inputs, staging, c_desc, world, M, N, K, me: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            GROUP_M: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr, PING_PONG: tl.constexpr,
            B_IS_NK: tl.constexpr):
    """The output tiles of consumer `me`: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    TURNS: tl.constexpr = CONSUMERS if PING_PONG else 1
    ROWS: tl.constexpr = BM // (CONSUMERS // TURNS)
    turn: tl.constexpr = me if PING_PONG else 0
    row: tl.constexpr = 0 if PING_PONG else me * ROWS
    program, programs, steps = tl.program_id(0), tl.num_programs(0), tl.cdiv(K, BK)
    rank, size, tiles = tlx.world_rank(world), tlx.world_size(world), output_tiles(M, N, BM, BN)
    chunk = turn * steps
    if PING_PONG:
        open_turns(me, CONSUMERS)
    for number in range(program + turn * programs, tiles * size, TURNS * programs):
        acc = multiply(inputs, chunk, steps, me, row, ROWS, BN, CONSUMERS, PING_PONG, B_IS_NK)
        m, n = tile_origin(number % tiles, M, N, BM, BN, GROUP_M)
        store(c_desc, staging, STAGING * me, acc, (rank + number // tiles) % size, m + row, n, BN, PIECES, STAGING)
        chunk += TURNS * steps
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def open_gather(arrived, world, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """By one program, before the copy engines bring rows: the signals are 0, and no GPU reads what it gathered last."""
    at = tl.arange(0, BLOCK)
    tl.store(arrived + at, tl.zeros((BLOCK, ), tl.int64), mask=at < COUNT)
    tlx.world_barrier(world)


@mimw.jit
def all_gather_gemm(a_desc, gathered_desc, b_desc, c_desc, a, gathered, arrived, started, calls, world, M, N, K, BM: tl.constexpr,
                    BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr,
                    PIECES: tl.constexpr, STAGING: tl.constexpr, PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr,
                    PUSH: tl.constexpr, PIECE: tl.constexpr, LINE: tl.constexpr, SLOTS: tl.constexpr):
    """C = A B: C is (ranks, M, N), A's rows of this rank (1, M, K), of the others (ranks, M, K) in symmetric memory `gathered`. B
    is (K, N), or (N, K) where B_IS_NK. PUSH: this rank's rows go to the peers by pieces of PIECE elements, SLOTS buffers of LINE a
    program; 0: `a`, `gathered`, `started` and `calls` are None.

    arrived     symmetric, int64, a word for each rank and band of GROUP_M tiles' rows
    started     symmetric, int64, a word for each rank and program
    calls       int64, a word for each program, of this rank alone. With PUSH all words are 0 before the first launch, and are
                left to launches of the same sizes, grid and configuration, which follow each other
    """
    ROWS: tl.constexpr = BM if PING_PONG else BM // CONSUMERS
    B_SHAPE: tl.constexpr = (STAGES, BN, BK) if B_IS_NK else (STAGES, BK, BN)
    inputs = tle.pipe(capacity=STAGES, readers=one_of_consumers(CONSUMERS) if PING_PONG else consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc(B_SHAPE, tlx.dtype_of(b_desc)))
    staging = tlx.local_alloc((ROWS, BN // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)
    if PUSH:
        lines, full = tlx.local_alloc((LINE, ), tlx.dtype_of(a_desc), SLOTS), tlx.alloc_barriers(SLOTS)
        call = tl.load(calls + tl.program_id(0)) + 1
        wanted = call * tl.num_programs(0)
    else:
        wanted = 1

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=232 if PUSH else 240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), staging, c_desc, world, M, N, K, me, BM, BN, BK, GROUP_M, CONSUMERS, PIECES,
                    STAGING, PING_PONG, B_IS_NK)
        with tlx.async_task(num_warps=1, num_regs=40 if PUSH else 24):  # producer
            load(inputs.writer(), a_desc, gathered_desc, b_desc, arrived, wanted, world, M, N, K, BM, BN, BK, GROUP_M, B_IS_NK)
        if PUSH:
            with tlx.async_task(num_warps=1, num_regs=40):  # pusher
                push(a, gathered, arrived, started, call, lines, full, world, M, K, BM * GROUP_M, PIECE, SLOTS)
    if PUSH:
        tl.store(calls + tl.program_id(0), call)
