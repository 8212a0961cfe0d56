"""Rows in blocks of one expert each, as operands and as output of a product: what the products of a mixture have in common.

Input: descriptors of A, of all experts' weights and of C, and what moe_align says of the blocks. Output: copies, stores. For
example:

    source = blocks(total_ptr, N, K, tiles)             the output tiles of the blocks in use, a tile source as of gemm/sources.py
    chunk = load_block(inputs, chunk, operands, source, place)      along K; the number of the next chunk
    ask_ahead(operands, source, AHEAD)                  the first chunks of weights to L2
    out.store(acc, place, part)
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..gemm.epilogue import activated
from ..gemm.operands import load_along
from ..gemm.product import columns
from ..gemm.sources import OneMatrix
from ..gemm.tiles import Grid, Problem

AHEAD_BYTES = tl.constexpr(1 << 17)     # of weights that each program asks for: 17 MB of 132, a third of L2


@tle.struct
class BlockTiles(Grid):
    """Output tiles of BM rows, a block, and BN columns; chunks of BK."""
    BK: tl.constexpr


@tle.struct
class PlaceInBlock:
    """An output tile, whose block is an expert's; the `rows` of A by number, or None where they lie as C's do."""
    m: Any
    n: Any
    expert: Any
    rows: tl.tensor | None


@tle.struct
class ExpertOperands:
    """A, and the weights of each expert, with the expert of each block. Where they are GATED the weights have twice as many rows,
    the gate's N in front. Where rows are picked row r of a tile is row sorted[r] // TOP_K of A."""
    a_desc: tl.tensor_descriptor
    b_desc: tl.tensor_descriptor
    experts: tl.tensor
    N: Any
    GATED: tl.constexpr
    sorted: tl.tensor | None = None
    TOP_K: Any = None

    @mimw.jit
    def copy(self, slot, at, k):
        copy_weights(self, slot, at, k, 1)
        if at.rows is None:
            SHAPE: tl.constexpr = self.a_desc.block_shape
            tle.gpu.copy(self.a_desc, tlx.local_slice(slot.a, [0, 0], SHAPE), SHAPE, [at.m, k])
        else:
            BOX: tl.constexpr = [at.rows.shape[0], slot.a.shape[1]]
            tle.gpu.copy(self.a_desc, tlx.local_slice(slot.a, [0, 0], BOX), BOX, [at.rows, k])


@tle.struct
class BlockOutput:
    """C in PIECES by way of STAGING tiles for each consumer, of which ROWS rows are stored; GATED: silu of the gate times up."""
    c_desc: tl.tensor_descriptor
    staging: tlx.buffered_tensor
    PIECES: tl.constexpr
    STAGING: tl.constexpr
    ROWS: tl.constexpr
    GATED: tl.constexpr

    @mimw.jit
    def store(self, acc, at, part):
        """Write an output tile in column pieces; a piece waits only for the store that last used its staging tile."""
        PIECES: tl.constexpr = self.PIECES
        for piece in tl.static_range(PIECES):
            if self.GATED:
                sums = activated(columns(acc, piece, 2 * PIECES), "silu") * columns(acc, PIECES + piece, 2 * PIECES)
            else:
                sums = columns(acc, piece, PIECES)
            tile = self.staging[self.STAGING * part.me + piece % self.STAGING]
            tlx.async_descriptor_store_wait(self.STAGING - 1)
            tlx.local_store(tile, sums.to(tlx.dtype_of(self.c_desc)))
            tlx.fence("async_shared")
            tlx.async_descriptor_store(self.c_desc, tlx.local_slice(tile, [0, 0], [self.ROWS, tile.shape[1]]),
                                       at.box(piece * sums.shape[1]))


@mimw.jit
def blocks(total_ptr, N, K, tiles):
    """The output tiles of the rows that there are; only the device knows how many."""
    return OneMatrix(Problem(tl.load(total_ptr), N, K), tiles)


@mimw.jit
def copy_weights(operands, slot, at, step, BK: tl.constexpr):
    """Start the copy of the weights from number step BK of K on: of one tile, or of the gate and of up."""
    WIDTH: tl.constexpr = operands.b_desc.block_shape[1]
    b_desc = operands.b_desc
    if operands.GATED:
        SHAPE: tl.constexpr = (WIDTH, slot.b.shape[1])
        tle.gpu.copy(b_desc, tlx.local_slice(slot.b, [0, 0], SHAPE), b_desc.block_shape,
                     [at.expert, at.n, step if BK == 1 else step * BK])
        tle.gpu.copy(b_desc, tlx.local_slice(slot.b, [WIDTH, 0], SHAPE), b_desc.block_shape,
                     [at.expert, operands.N + at.n, step if BK == 1 else step * BK])
    else:
        tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [at.expert, at.n, step if BK == 1 else step * BK])


@mimw.jit
def load_block(inputs, chunk, operands, source, at):
    """Tiles of A's rows and of the expert's weights along K for one output tile; the number of the chunk behind them."""
    BM: tl.constexpr = source.tiles.BM
    expert = tl.load(operands.experts + at.m // BM)
    rows = None
    if operands.sorted is not None:
        rows = tl.load(operands.sorted + at.m + tl.arange(0, BM)) // operands.TOP_K
    return load_along(inputs, chunk, operands, PlaceInBlock(at.m, at.n, expert, rows), source.problem.K, source.tiles.BK)


@mimw.jit
def ask_ahead(operands, source, AHEAD: tl.constexpr):
    """The weights of the first AHEAD chunks of this program's first tile to L2; behind K there are none."""
    if tl.program_id(0) < source.count():
        at = source.at(tl.program_id(0))
        expert = tl.load(operands.experts + at.m // source.tiles.BM)
        for chunk in tl.static_range(AHEAD):
            tlx.async_descriptor_prefetch_tensor(operands.b_desc, [expert, at.n, chunk * source.tiles.BK])
