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

from ..consumers import consumer, consumers, one_of_consumers
from ..gemm.roles import compute_tiles
from ..gemm.tiles import Tiles, part_of
from .blocks import AHEAD_BYTES, BlockOutput, ExpertOperands, ask_ahead, blocks, load_block


@mimw.jit
def load(inputs, operands, source):
    """Tiles of A's rows and of the expert's weights along K, for one output tile of this program after the other."""
    chunk = 0
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        chunk = load_block(inputs, chunk, operands, source, source.at(tile))


@mimw.jit
def tall_tiles(a_desc, STAGES: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """STAGES tiles of A, of 64 rows at least, of which those behind BM are zeros."""
    TALL: tl.constexpr = max(BM, 64)
    tiles = tle.gpu.alloc([STAGES, TALL, BK], tlx.dtype_of(a_desc))
    for stage in tl.static_range(STAGES):
        for row in tl.static_range(BM, TALL, BM):
            tlx.local_store(tlx.local_slice(tiles[stage], [row, 0], [BM, BK]), tl.zeros((BM, BK), tlx.dtype_of(a_desc)))
    if BM < TALL:
        tlx.fence("async_shared")
    return tiles


@mimw.jit
def expert_gemm(a_desc, b_desc, c_desc, sorted_ptr, experts_ptr, total_ptr, N, K, TOP_K, FORM: tl.constexpr):
    """C[rows, N] = A B[expert]^T of rows in blocks, or, GATED, silu(A gate^T) (A up^T) of the halves of B[expert], with B as
    (experts, N or 2 N, K). Where they are not PICKED A's rows lie as C's do."""
    STAGES: tl.constexpr = FORM.STAGES
    CONSUMERS: tl.constexpr = FORM.CONSUMERS
    LOAD_WARPS: tl.constexpr = FORM.LOAD_WARPS
    TALL: tl.constexpr = max(FORM.BM, 64)
    SHARE: tl.constexpr = TALL if FORM.PING_PONG else TALL // CONSUMERS
    tl.static_assert(FORM.BM >= 64 or FORM.PING_PONG or CONSUMERS == 1, "blocks of fewer than 64 rows are one consumer's")
    WIDTH: tl.constexpr = FORM.BN // 2 if FORM.GATED else FORM.BN
    inputs = tle.pipe(capacity=STAGES, name="inputs",
                      readers=one_of_consumers(CONSUMERS) if FORM.PING_PONG else consumers(CONSUMERS),
                      a=tall_tiles(a_desc, STAGES, FORM.BM, FORM.BK),
                      b=tle.gpu.alloc([STAGES, FORM.BN, FORM.BK], tlx.dtype_of(b_desc)))
    staging = tlx.local_alloc((SHARE, WIDTH // FORM.PIECES), tlx.dtype_of(c_desc), FORM.STAGING * CONSUMERS)
    tiles = Tiles(FORM.BM, WIDTH, FORM.GROUP_M, FORM.BK, FORM.CONSUMERS, FORM.PIECES, FORM.STAGING, FORM.PING_PONG, True)
    operands = ExpertOperands(a_desc, b_desc, experts_ptr, N, FORM.GATED, sorted_ptr if FORM.PICKED else None, TOP_K)
    if not FORM.GATED:
        BYTES: tl.constexpr = FORM.BN * FORM.BK * tlx.size_of(tlx.dtype_of(b_desc))
        ask_ahead(operands, blocks(total_ptr, N, K, tiles), AHEAD_BYTES // BYTES)
    tl.extra.cuda.gdc_wait()                    # for all that the launches ahead have written
    tl.extra.cuda.gdc_launch_dependents()

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=(232 if LOAD_WARPS > 1 else 240) // FORM.CTAS // 8 * 8,
                            replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            out = BlockOutput(c_desc, staging, FORM.PIECES, FORM.STAGING, tiles.rows(), FORM.GATED)
            part = part_of(tiles, me).replace(ROWS=SHARE, COLUMNS=FORM.BN)
            compute_tiles(inputs.reader(consumer(me)), blocks(total_ptr, N, K, tiles), out, part)
        with tlx.async_task(num_warps=LOAD_WARPS, num_regs=40 if LOAD_WARPS > 1 else 24):  # producer
            load(inputs.writer(), operands, blocks(total_ptr, N, K, tiles))
