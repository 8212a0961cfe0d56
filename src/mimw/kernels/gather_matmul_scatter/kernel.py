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

from ..consumers import consumer
from ..gemm.operands import Operands, load_along
from ..gemm.output import output, staging_tile
from ..gemm.product import columns, multiply
from ..gemm.roles import input_pipe
from ..gemm.sources import OneMatrix
from ..gemm.tiles import Problem, part_of


@tle.struct
class PickedRows:
    """The rows of A that a tile takes, and its first column."""
    rows: tl.tensor
    n: tl.tensor


@tle.struct
class PickedOperands(Operands):
    """Rows of A by number; B's tile is asked for first."""

    @mimw.jit
    def copy(self, slot, at, k):
        tle.gpu.copy(self.b_desc, slot.b, self.b_desc.block_shape, [at.n, k] if self.B_IS_NK else [k, at.n])
        tle.gpu.copy(self.a_desc, slot.a, [slot.a.shape[0], slot.a.shape[1]], [at.rows, k])


@mimw.jit
def load(inputs, operands, source, numbers):
    """Picked rows of A, and tiles of B, along K, for one output tile of this program after the other."""
    tiles = source.tiles
    chunk = 0
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        place = source.at(tile)
        at = place.m + tl.arange(0, tiles.BM)
        rows = tl.load(numbers + at, mask=at < source.problem.M, other=-1)      # row -1 reads zeros
        chunk = load_along(inputs, chunk, operands, PickedRows(rows, place.n), source.problem.K, tiles.BK)


@mimw.jit
def store(out, acc, at, part):
    """Send the rows of an output tile where they belong, in column pieces."""
    for piece in tl.static_range(out.PIECES):
        tile = staging_tile(out, part.me, piece)
        tlx.local_store(tile, columns(acc, piece, out.PIECES).to(tlx.dtype_of(out.c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_scatter(out.c_desc, tile, at.rows, at.n + piece * (part.COLUMNS // out.PIECES))


@mimw.jit
def rows_for(numbers, m, R, ROWS: tl.constexpr, C_ROWS):
    """Rows of C for ROWS rows of the product from row m on; C_ROWS, behind the end, for those that there are not."""
    at = m + tl.arange(0, ROWS)
    rows = tl.load(numbers + at, mask=at < R, other=C_ROWS)
    return tl.where(rows < 0, C_ROWS, rows)                     # TMA leaves out what is behind the end, not what is before


@mimw.jit
def compute(inputs, out, source, numbers, C_ROWS, part):
    """The rows of each output tile that are a consumer's."""
    steps = source.steps()
    chunk = 0
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        place = source.at(tile)
        rows = rows_for(numbers, place.m + part.ROW, source.problem.M, part.ROWS, C_ROWS)
        acc = multiply(inputs, chunk, steps, part)
        store(out, acc, PickedRows(rows, place.n), part)
        chunk += steps
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def gather_matmul_scatter(a_desc, b_desc, c_desc, source_ptr, target_ptr, R, N, K, C_ROWS, TILES: tl.constexpr,
                          STAGES: tl.constexpr, LOAD_WARPS: tl.constexpr):
    """C[target[i], :] = A[source[i], :] B for i < R."""
    operands, source = PickedOperands(a_desc, b_desc, TILES.B_IS_NK), OneMatrix(Problem(R, N, K), TILES)
    inputs = input_pipe(operands, TILES, STAGES)
    out = output(c_desc, TILES)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=232, replicate=TILES.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), out, source, target_ptr, C_ROWS, part_of(TILES, me))
        with tlx.async_task(num_warps=LOAD_WARPS, num_regs=40):  # producer
            load(inputs.writer(), operands, source, source_ptr)
