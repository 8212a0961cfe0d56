"""fp8 products with a scale for each 1 x 128 of A and each 128 x 128 of B, on Hopper: of one matrix or of groups of rows.

Input: descriptors of A, B, C and A's scales, a pointer to B's scales, and sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, scale_a, scale_b, programs)
    block_scaled_gemm[grid](*args, **meta)

Every 128 of K the sums leave the tensor cores, are multiplied by both scales and added up in fp32 by ordinary instructions, while
another consumer multiplies. That keeps all bits of the sums, too (gemm/promoted.py); how a consumer does it is in multiply.py.

Nouns: the pipe `inputs`, whose chunk holds a (BM, 128) tile of A, the (BN, 128) tile of B that goes with it, and the BM scales of
A; STAGING tiles for each consumer's stores. Which rows belong together says LAYOUT:

    plain        all M rows
    contiguous   rows ends[g - 1] to ends[g] - 1 are group g's, and are multiplied by B[g]
    masked       matrix g of A has M rows, of which the first ends[g] are there

Tiles are counted group by group, and a group's last tile ends where the group does: both as in grouped_gemm.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.groups import PlaceInGroup
from ..gemm.output import Output, send, staging_tile
from ..gemm.product import columns
from ..gemm.tiles import Problem, output_tiles, tile_origin
from .multiply import BLOCK, Chunks, Part, multiply
from .tall import multiply_tall
from .wide import blocks, multiply_wide

WHOLE = tl.constexpr(4)         # scales are 16 bytes: a TMA copy begins at a multiple, else it is an illegal instruction


@tle.struct
class Groups:
    """All groups, `ends` of those that LAYOUT says there are, and the tiles that they are cut into."""
    ends: tl.tensor | None
    count: Any
    problem: Problem
    tiles: Any


@tle.struct
class Extent:
    """A group's matrix of A, its first row there, how many rows, and its first row of C."""
    matrix: Any
    row: Any
    rows: Any
    first: Any


@tle.struct
class Operands:
    """A, B and A's scales."""
    a_desc: tl.tensor_descriptor
    b_desc: tl.tensor_descriptor
    scales_desc: tl.tensor_descriptor


@tle.struct
class ScalesOfB:
    """B's scales and their strides."""
    scales: tl.tensor
    steps: Any


@mimw.jit
def extent(groups, group, before):
    """A group's rows, where the group before ended at row `before`."""
    if groups.tiles.LAYOUT == "plain":
        return Extent(0, 0, groups.problem.M, 0)
    elif groups.tiles.LAYOUT == "contiguous":
        return Extent(0, before, tl.load(groups.ends + group) - before, before)
    else:
        return Extent(group, 0, tl.load(groups.ends + group), group * groups.problem.M)


@mimw.jit
def copy(operands, slot, matrix, row, group, n, step):
    """Start the copies of one chunk: tiles of A and B, and the scales of A's rows."""
    BOX: tl.constexpr = operands.scales_desc.block_shape[2]
    tle.gpu.copy(operands.a_desc, slot.a, operands.a_desc.block_shape, [matrix, row, step * BLOCK])
    tle.gpu.copy(operands.b_desc, slot.b, operands.b_desc.block_shape, [group, n, step * BLOCK])
    for part in tl.static_range(slot.scales.shape[0] // BOX):
        tle.gpu.copy(operands.scales_desc, tlx.local_slice(slot.scales, [part * BOX], [BOX]), operands.scales_desc.block_shape,
                     [matrix, step, row // WHOLE * WHOLE + part * BOX])


@tle.struct
class Tile:
    """An output tile: its group, and its first row and column there."""
    group: Any
    here: Extent
    m: Any
    n: Any


@mimw.jit
def walk(role, groups):
    """The output tiles of this program, group by group."""
    chunk = 0
    done, before = 0, 0
    tile = tl.program_id(0)
    for group in range(groups.count):
        here = extent(groups, group, done)
        behind = before + output_tiles(here.rows, groups.problem.N, groups.tiles)
        while tile < behind:
            m, n = tile_origin(tile - before, here.rows, groups.problem.N, groups.tiles)
            chunk = role.one(chunk, Tile(group, here, m, n))
            tile += tl.num_programs(0)
        done, before = here.row + here.rows, behind


@tle.struct
class Producer:
    """Tiles of A and B and scales of A along K."""
    inputs: tle.pipe_writer
    operands: Operands
    steps: Any

    @mimw.jit
    def one(self, chunk, tile):
        for step in range(self.steps):
            row = tile.here.row + tile.m
            copy(self.operands, self.inputs.acquire(chunk), tile.here.matrix, row, tile.group, tile.n, step)
            self.inputs.commit(chunk)
            chunk += 1
        return chunk


@mimw.jit
def store(out, part, sums, at, first: tl.constexpr = 0):
    """Write sums in pieces, of which number `first` of the tile is the first."""
    COUNT: tl.constexpr = out.PIECES * sums.shape[1] // part.COLUMNS
    WIDTH: tl.constexpr = part.COLUMNS // out.PIECES
    for piece in tl.static_range(COUNT):
        tile = staging_tile(out, part.me, first + piece)
        send(out, tile, columns(sums, piece, COUNT), at, (first + piece) * WIDTH)


@tle.struct
class Consumer:
    """The consumer's rows of each output tile."""
    inputs: tle.pipe_reader
    scales: ScalesOfB
    out: Output
    part: Part
    problem: Problem
    steps: Any

    @mimw.jit
    def one(self, chunk, tile):
        here, out, part, steps = tile.here, self.out, self.part, self.scales.steps
        first = self.scales.scales + tile.group.to(tl.int64) * steps.group + tile.n // BLOCK * steps.column
        chunks = Chunks(self.inputs, chunk, self.steps, first, steps.chunk, (here.row + tile.m) % WHOLE)
        at = PlaceInGroup(tile.group, here.first + tile.m + part.ROW, here.first + here.rows, tile.n)
        if part.ROWS == 128:
            sums, more = multiply_tall(chunks, part)
            store(out, part, sums, at)
            store(out, part, more, at.moved(64))
        elif part.COLUMNS == BLOCK:
            store(out, part, multiply(chunks, part), at)
        else:
            found = multiply_wide(chunks, part, blocks(tile.n, self.problem.N, steps.column))
            store(out, part, found.left, at)
            store(out, part, found.middle, at, out.PIECES // 3)
            store(out, part, found.right, at, out.PIECES // 3 * 2)
        return chunk + self.steps


@mimw.jit
def in_lanes(scales, sizes, FORM: tl.constexpr):
    """B's scales, of which ptxas shall not know that all lanes load the same ones: it would move each to a uniform register, and
    the next product would wait for that. So a scale is waited for where it is used. No thread's number is so large that this is not
    0; `multiply` needs no such loads."""
    if FORM.ROWS == 128 or FORM.BN != BLOCK:
        return scales + tlx.thread_id(0) // (sizes.M + 4096)
    return scales


@mimw.jit
def block_scaled_gemm(a_desc, b_desc, c_desc, scales_desc, scale_b, steps, ends, groups, sizes, FORM: tl.constexpr):
    """C = A B[group] with scales. A is (matrices, M, K), B (groups, N, K), A's scales (matrices, cdiv(K, 128), M)."""
    BM: tl.constexpr = FORM.BM
    STAGES: tl.constexpr = FORM.STAGES
    CONSUMERS: tl.constexpr = BM // FORM.ROWS
    tl.static_assert(FORM.BN == BLOCK or (FORM.BN == 192 and FORM.ROWS == 64), "128 columns, or by consumers of 64 rows 192")
    CONTIGUOUS: tl.constexpr = FORM.LAYOUT == "contiguous"
    inputs = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BLOCK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc([STAGES, FORM.BN, BLOCK], tlx.dtype_of(b_desc)),
                      scales=tle.gpu.alloc([STAGES, 2 * BM if CONTIGUOUS else BM], tl.float32))
    staging = tlx.local_alloc((64, FORM.BN // FORM.PIECES), tlx.dtype_of(c_desc), FORM.STAGING * CONSUMERS)
    problem, chunks = Problem(sizes.M, sizes.N, sizes.K), tl.cdiv(sizes.K, BLOCK)
    all_groups = Groups(ends, groups, problem, FORM)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            part = Part(me, FORM.ROWS * me, FORM.ROWS, FORM.BN, FORM.TOGETHER, CONTIGUOUS)
            out = Output(c_desc, staging, FORM.PIECES, FORM.STAGING)
            scales = ScalesOfB(in_lanes(scale_b, sizes, FORM), steps)
            walk(Consumer(inputs.reader(consumer(me)), scales, out, part, problem, chunks), all_groups)
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            walk(Producer(inputs.writer(), Operands(a_desc, b_desc, scales_desc), chunks), all_groups)
