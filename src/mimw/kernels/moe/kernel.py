"""The products of a mixture of experts on Hopper: rows sorted by expert, in blocks of one expert each, times that expert's weights.

Input: descriptors of A, of all experts' weights and of C, what moe_align says of the blocks, and sizes. Output: C is written. For
example:

    _, grid, args, meta = product(a, b, c, tokens, experts, total, k, n, rows, programs, chosen, gated=True)
    expert_gemm[grid](*args, **meta)

Nouns and roles are the GEMM's, and so are both schedules. A block is BM rows: number b has the rows from b BM on, of expert
experts[b], and `total` says how many rows there are; only the device knows it. The grid is persistent: tiles of blocks in use
are shared out, and a program that gets none is over at once.

    PICKED     row r of A's tiles is row sorted[r] // TOP_K of A, the token's: TMA picks the rows, which LOAD_WARPS share out.
               Padding has a number behind A, of which TMA makes zeros
    GATED      the weights have 2 N rows, the gate's in front. A tile has BN / 2 columns of either, so a thread that has an
               element of the gate has the one of up, too: C = silu(gate) up is written at once, [rows, N]

Blocks may have 16 or 32 rows, as in decoding: then the tile's other rows, up to the 64 of a wgmma, are zeros from the start:
nothing is loaded there, and TMA stores only the rows of the block.

A launch may begin before the one ahead of it has ended (`launch_pdl`): it makes its barriers and zeros, the second product also
asks for its first weights to come to L2, then it waits. Whose the blocks are it may read before that: the first product
has waited for what moe_align says, and only then let the second one begin.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, one_of_consumers, open_turns
from ..gemm.epilogue import activated
from ..gemm.kernel import columns, multiply, output_tiles, tile_origin

AHEAD_BYTES = tl.constexpr(1 << 17)     # of weights that each program asks for: 17 MB of 132, a third of L2


@mimw.jit
def ask_ahead(b_desc, experts_ptr, total_ptr, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
              AHEAD: tl.constexpr):
    """The weights of the first AHEAD chunks of this program's first tile to L2; behind K there are none."""
    rows = tl.load(total_ptr)
    if tl.program_id(0) < output_tiles(rows, N, BM, BN):
        m, n = tile_origin(tl.program_id(0), rows, N, BM, BN, GROUP_M)
        expert = tl.load(experts_ptr + m // BM)
        for chunk in tl.static_range(AHEAD):
            tlx.async_descriptor_prefetch_tensor(b_desc, [expert, n, chunk * BK])


@mimw.jit
def load_tile(inputs, chunk, a_desc, b_desc, tokens, expert, m, n, N, K, BM: tl.constexpr, WIDTH: tl.constexpr, BK: tl.constexpr,
              GATED: tl.constexpr):
    """Tiles of A's rows, from row m on or those of `tokens`, and of the expert's weights along K for one output tile, from chunk
    number `chunk` on; the number of the chunk behind them."""
    for k in range(0, K, BK):
        slot = inputs.acquire(chunk)
        if GATED:
            tle.gpu.copy(b_desc, tlx.local_slice(slot.b, [0, 0], [WIDTH, BK]), b_desc.block_shape, [expert, n, k])
            tle.gpu.copy(b_desc, tlx.local_slice(slot.b, [WIDTH, 0], [WIDTH, BK]), b_desc.block_shape, [expert, N + n, k])
        else:
            tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [expert, n, k])
        a = tlx.local_slice(slot.a, [0, 0], [BM, BK])
        if tokens is None:
            tle.gpu.copy(a_desc, a, a_desc.block_shape, [m, k])
        else:
            tle.gpu.copy(a_desc, a, [BM, BK], [tokens, k])
        inputs.commit(chunk)
        chunk += 1
    return chunk


@mimw.jit
def load(inputs, a_desc, b_desc, sorted_ptr, experts_ptr, total_ptr, N, K, TOP_K, BM: tl.constexpr, BN: tl.constexpr,
         BK: tl.constexpr, GROUP_M: tl.constexpr, GATED: tl.constexpr, PICKED: tl.constexpr):
    """Tiles of A's rows and of the expert's weights along K, for one output tile of this program after the other."""
    WIDTH: tl.constexpr = BN // 2 if GATED else BN
    rows = tl.load(total_ptr)
    chunk = 0
    for tile in range(tl.program_id(0), output_tiles(rows, N, BM, WIDTH), tl.num_programs(0)):
        m, n = tile_origin(tile, rows, N, BM, WIDTH, GROUP_M)
        expert = tl.load(experts_ptr + m // BM)
        tokens = tl.load(sorted_ptr + m + tl.arange(0, BM)) // TOP_K if PICKED else None
        chunk = load_tile(inputs, chunk, a_desc, b_desc, tokens, expert, m, n, N, K, BM, WIDTH, BK, GATED)


@mimw.jit
def store(c_desc, staging, first: tl.constexpr, acc, m, n, ROWS: tl.constexpr, WIDTH: tl.constexpr, PIECES: tl.constexpr,
          STAGING: tl.constexpr, GATED: tl.constexpr):
    """Write ROWS rows of an output tile in column pieces; a piece waits only for the store that last used its staging tile."""
    for piece in tl.static_range(PIECES):
        if GATED:
            sums = activated(columns(acc, piece, 2 * PIECES), "silu") * columns(acc, PIECES + piece, 2 * PIECES)
        else:
            sums = columns(acc, piece, PIECES)
        tile = staging[first + piece % STAGING]
        tlx.async_descriptor_store_wait(STAGING - 1)
        tlx.local_store(tile, sums.to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(c_desc, tlx.local_slice(tile, [0, 0], [ROWS, tile.shape[1]]), [m, n + piece * (WIDTH // PIECES)])


@mimw.jit
def compute(inputs, staging, c_desc, total_ptr, N, K, me: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, GROUP_M: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
            PING_PONG: tl.constexpr, GATED: tl.constexpr):
    """The output tiles of consumer `me`: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    TURNS: tl.constexpr = CONSUMERS if PING_PONG else 1
    ROWS: tl.constexpr = BM // (CONSUMERS // TURNS)
    TALL: tl.constexpr = max(ROWS, 64)
    WIDTH: tl.constexpr = BN // 2 if GATED else BN
    turn: tl.constexpr = me if PING_PONG else 0
    row: tl.constexpr = 0 if PING_PONG else me * ROWS
    rows = tl.load(total_ptr)
    steps = tl.cdiv(K, BK)
    chunk = turn * steps
    if PING_PONG:
        open_turns(me, CONSUMERS)
    for tile in range(tl.program_id(0) + turn * tl.num_programs(0), output_tiles(rows, N, BM, WIDTH), TURNS * tl.num_programs(0)):
        acc = multiply(inputs, chunk, steps, me, row, TALL, BN, CONSUMERS, PING_PONG, True)
        m, n = tile_origin(tile, rows, N, BM, WIDTH, GROUP_M)
        store(c_desc, staging, STAGING * me, acc, m + row, n, ROWS, WIDTH, PIECES, STAGING, GATED)
        chunk += TURNS * steps
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def expert_gemm(a_desc, b_desc, c_desc, sorted_ptr, experts_ptr, total_ptr, N, K, TOP_K, BM: tl.constexpr, BN: tl.constexpr,
                BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr,
                STAGING: tl.constexpr, PING_PONG: tl.constexpr, GATED: tl.constexpr, LOAD_WARPS: tl.constexpr,
                CTAS: tl.constexpr, PICKED: tl.constexpr):
    """C[rows, N] = A B[expert]^T of rows in blocks, or, GATED, silu(A gate^T) (A up^T) of the halves of B[expert], with B as
    (experts, N or 2 N, K). Where they are not PICKED A's rows lie as C's do."""
    TALL: tl.constexpr = max(BM, 64)
    SHARE: tl.constexpr = TALL if PING_PONG else TALL // CONSUMERS
    tl.static_assert(BM >= 64 or PING_PONG or CONSUMERS == 1, "blocks of fewer than 64 rows are one consumer's")
    WIDTH: tl.constexpr = BN // 2 if GATED else BN
    a_tiles = tle.gpu.alloc([STAGES, TALL, BK], tlx.dtype_of(a_desc))
    for stage in tl.static_range(STAGES):
        for row in tl.static_range(BM, TALL, BM):
            tlx.local_store(tlx.local_slice(a_tiles[stage], [row, 0], [BM, BK]), tl.zeros((BM, BK), tlx.dtype_of(a_desc)))
    if BM < TALL:
        tlx.fence("async_shared")
    inputs = tle.pipe(capacity=STAGES, readers=one_of_consumers(CONSUMERS) if PING_PONG else consumers(CONSUMERS), name="inputs",
                      a=a_tiles, b=tle.gpu.alloc([STAGES, BN, BK], tlx.dtype_of(b_desc)))
    staging = tlx.local_alloc((SHARE, WIDTH // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)
    if not GATED:
        BYTES: tl.constexpr = BN * BK * tlx.size_of(tlx.dtype_of(b_desc))
        ask_ahead(b_desc, experts_ptr, total_ptr, N, BM, BN, BK, GROUP_M, AHEAD_BYTES // BYTES)
    tl.extra.cuda.gdc_wait()                    # for all that the launches ahead have written
    tl.extra.cuda.gdc_launch_dependents()

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=(232 if LOAD_WARPS > 1 else 240) // CTAS // 8 * 8, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), staging, c_desc, total_ptr, N, K, me, BM, BN, BK, GROUP_M,
                    CONSUMERS, PIECES, STAGING, PING_PONG, GATED)
        with tlx.async_task(num_warps=LOAD_WARPS, num_regs=40 if LOAD_WARPS > 1 else 24):  # producer
            load(inputs.writer(), a_desc, b_desc, sorted_ptr, experts_ptr, total_ptr, N, K, TOP_K, BM, BN, BK, GROUP_M, GATED,
                 PICKED)
