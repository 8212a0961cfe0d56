"""fp8 products with a scale for each 1 x 128 of A and each 128 x 128 of B, on Hopper: of one matrix or of groups of rows.

Input: descriptors of A, B, C and A's scales, a pointer to B's scales, and sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, scale_a, scale_b, programs)
    block_scaled_gemm[grid](*args, **meta)

Every 128 of K the sums leave the tensor cores, are multiplied by both scales and added up in fp32 by ordinary instructions, while
another consumer multiplies. That keeps all bits of the sums, too (gemm/promoted.py); how a consumer does it is in multiply.py.

Nouns: the pipe `inputs`, whose chunk holds a (BM, 128) tile of A, the (128, 128) tile of B that goes with it, and the BM scales of
A; STAGING tiles for each consumer's stores. Which rows belong together says LAYOUT:

    plain        all M rows
    contiguous   rows ends[g - 1] to ends[g] - 1 are group g's, and are multiplied by B[g]
    masked       matrix g of A has M rows, of which the first ends[g] are there

Tiles are counted group by group, and a group's last tile ends where the group does: both as in grouped_gemm. Where 64 columns or
fewer are left over (NARROW), a product of 64 columns takes half the time; two such tiles, one below the other, count as one.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, open_turns
from ..gemm.groups import PlaceInGroup
from ..gemm.output import Output, of_width, send, staging_tile
from ..gemm.pieces import begin, count, is_cut, width
from ..gemm.product import columns
from ..gemm.tiles import Grid, Problem, output_tiles, tile_origin
from .multiply import BLOCK, Chunks, Part, multiply, multiply_tall, multiply_tall_late, tall_pairs
from .wide import blocks, multiply_pairs, multiply_wide

WHOLE = tl.constexpr(4)         # scales are 16 bytes: a TMA copy begins at a multiple, else it is an illegal instruction


@tle.struct
class Groups:
    """All groups, `ends` of those that LAYOUT says there are; in NARROW tiles are the columns that are left over."""
    ends: tl.tensor | None
    count: Any
    problem: Problem
    grid: Grid
    LAYOUT: tl.constexpr
    NARROW: tl.constexpr


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
    if groups.LAYOUT == "plain":
        return Extent(0, 0, groups.problem.M, 0)
    elif groups.LAYOUT == "contiguous":
        return Extent(0, before, tl.load(groups.ends + group) - before, before)
    else:
        return Extent(group, 0, tl.load(groups.ends + group), group * groups.problem.M)


@mimw.jit
def whole_tiles(groups, rows):
    """Tiles of 128 columns, and all that are counted."""
    if groups.NARROW:
        whole = output_tiles(rows, groups.problem.N // BLOCK * BLOCK, groups.grid)
        return whole, whole + tl.cdiv(tl.cdiv(rows, groups.grid.BM), 2)
    whole = output_tiles(rows, groups.problem.N, groups.grid)
    return whole, whole


@mimw.jit
def place(groups, tile, whole, rows):
    """(first row, first column, how many tiles one below the other) of tile number `tile` of a group."""
    grid = groups.grid
    if groups.NARROW:
        if tile < whole:
            m, n = tile_origin(tile, rows, groups.problem.N // BLOCK * BLOCK, grid)
            count = 1
        else:
            m, n = (tile - whole) * 2 * grid.BM, groups.problem.N // BLOCK * BLOCK
            count = min(2, tl.cdiv(rows - m, grid.BM))
        return m, n, count
    m, n = tile_origin(tile, rows, groups.problem.N, grid)
    return m, n, 1


@mimw.jit
def copy(operands, slot, matrix, row, group, n, step):
    """Start the copies of one chunk: tiles of A and B, and the scales of A's rows."""
    BOX: tl.constexpr = operands.scales_desc.block_shape[2]
    tle.gpu.copy(operands.a_desc, slot.a, operands.a_desc.block_shape, [matrix, row, step * BLOCK])
    WIDE: tl.constexpr = operands.b_desc.block_shape[2]
    if WIDE < BLOCK:
        ROWS: tl.constexpr = operands.b_desc.block_shape[1]
        for half in tl.static_range(BLOCK // WIDE):
            tle.gpu.copy(operands.b_desc, tlx.local_slice(slot.b, [half * ROWS, 0], [ROWS, WIDE]), operands.b_desc.block_shape,
                         [group, n, step * BLOCK + half * WIDE])
    else:
        tle.gpu.copy(operands.b_desc, slot.b, operands.b_desc.block_shape, [group, n, step * BLOCK])
    for part in tl.static_range(slot.scales.shape[0] // BOX):
        tle.gpu.copy(operands.scales_desc, tlx.local_slice(slot.scales, [part * BOX], [BOX]), operands.scales_desc.block_shape,
                     [matrix, step, row // WHOLE * WHOLE + part * BOX])


@mimw.jit
def load(inputs, operands, groups):
    """Tiles of A and B and scales of A along K, for one output tile of this program after the other."""
    chunk = 0
    done, before = 0, 0
    tile = tl.program_id(0)
    for group in range(groups.count):
        here = extent(groups, group, done)
        whole, all_tiles = whole_tiles(groups, here.rows)
        while tile < before + all_tiles:
            m, n, count = place(groups, tile - before, whole, here.rows)
            for nth in range(count):
                for step in range(tl.cdiv(groups.problem.K, BLOCK)):
                    copy(operands, inputs.acquire(chunk), here.matrix, here.row + m + nth * groups.grid.BM, group, n, step)
                    inputs.commit(chunk)
                    chunk += 1
            tile += tl.num_programs(0)
        done, before = here.row + here.rows, before + all_tiles


@mimw.jit
def store(out, part, sums, at):
    """Write the columns of an output tile up to its group's end in pieces; a piece waits for the store that last used its tile."""
    for piece in tl.static_range(out.PIECES):
        tile = out.staging[part.STAGE + piece % out.STAGING]
        tlx.async_descriptor_store_wait(out.STAGING - 1)
        send(out, tile, columns(sums, piece, out.PIECES), at, piece * (sums.shape[1] // out.PIECES))


@mimw.jit
def store_pieces(out, part, sums, at):
    """`store` of sums that come as pieces of columns."""
    COLUMNS: tl.constexpr = len(sums) * sums[0].shape[1]
    if len(sums) == 1:
        store(out, part, sums[0], at)
        return
    for piece in tl.static_range(count(out.PIECES)):
        send_pieces(out, staging_tile(out, part.me, piece), sums, at, begin(out.PIECES, piece, COLUMNS),
                    width(out.PIECES, piece, COLUMNS), piece)


@mimw.jit
def send_pieces(out, tile, sums, at, FIRST: tl.constexpr, WIDTH: tl.constexpr, piece: tl.constexpr):
    PIECE: tl.constexpr = sums[0].shape[1]
    c_desc = of_width(out, out.c_desc, piece)
    for each in tl.static_range(WIDTH // PIECE):
        tlx.local_store(tlx.local_slice(tile, [0, each * PIECE], [64, PIECE]), sums[FIRST // PIECE + each].to(tlx.dtype_of(c_desc)))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(c_desc, tile, at.box(FIRST))


@mimw.jit
def compute_tile(chunks, out, part, where, at, COLUMNS: tl.constexpr):
    """A consumer's rows of an output tile, from row at.m of C on."""
    if part.ROWS == 64 and where is not None:
        store_pieces(out, part, multiply_pairs(chunks, part, where, COLUMNS) if part.TOGETHER == 2 else multiply_wide(chunks, part, where, COLUMNS), at)
    elif part.ROWS == 128:
        if part.TOGETHER == 2:
            sums, more = tall_pairs(chunks, part, COLUMNS)
        elif part.EARLY:
            sums, more = multiply_tall_late(chunks, part, COLUMNS)
        else:
            sums, more = multiply_tall(chunks, part, COLUMNS)
        store(out, part, sums, at)
        store(out, part, more, at.moved(64))
    else:
        AHEAD: tl.constexpr = part.TOGETHER // 2 if part.me == 1 and part.APART else 0
        store(out, part, multiply(chunks, part, COLUMNS, AHEAD), at)


@mimw.jit
def compute(inputs, groups, scales, out, part):
    """The consumer's rows of each output tile of this program."""
    steps = tl.cdiv(groups.problem.K, BLOCK)
    chunk = 0
    done, before = 0, 0
    tile = tl.program_id(0)
    for group in range(groups.count):
        here = extent(groups, group, done)
        whole, all_tiles = whole_tiles(groups, here.rows)
        while tile < before + all_tiles:
            m, n, count = place(groups, tile - before, whole, here.rows)
            at = scales.scales + group.to(tl.int64) * scales.steps.group + n // BLOCK * scales.steps.column
            chunks = Chunks(inputs, chunk, steps, at, scales.steps.chunk, (here.row + m) % WHOLE)
            m += part.ROW
            if groups.NARROW:
                if tile - before >= whole:
                    half = Output(out.c_desc, out.staging, out.PIECES // 2, 1)
                    for nth in range(count):
                        below = chunks.replace(first=chunk + nth * steps)
                        at_row = PlaceInGroup(group, here.first + m + nth * groups.grid.BM, here.first + here.rows, n)
                        compute_tile(below, half, part, None, at_row, BLOCK // 2)
                    tlx.async_descriptor_store_wait(0)      # the next tile begins with the same staging tile
                else:
                    compute_tile(chunks, out, part, None, PlaceInGroup(group, here.first + m, here.first + here.rows, n), BLOCK)
            else:
                where = None if groups.grid.BN == BLOCK and not part.TURNS else blocks(n, groups.problem.N, scales.steps.column)
                place_here = PlaceInGroup(group, here.first + m, here.first + here.rows, n)
                compute_tile(chunks, out, part, where, place_here, groups.grid.BN)
            chunk += count * steps
            tile += tl.num_programs(0)
        done, before = here.row + here.rows, before + all_tiles
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def staging_tiles(c_desc, FORM: tl.constexpr, CONSUMERS: tl.constexpr):
    """Those of all consumers; a tuple of them, one for each width, where a tile's pieces have several."""
    if is_cut(FORM.PIECES):
        staging = ()
        for each in tl.static_range(len(c_desc)):
            staging += (staging_of(c_desc[each], (FORM.STAGING if each == 0 else 1) * CONSUMERS), )
        return staging
    return staging_of(c_desc, FORM.STAGING * CONSUMERS)


@mimw.jit
def staging_of(c_desc, COUNT: tl.constexpr):
    """So many tiles of 64 rows, as wide as the blocks of a descriptor."""
    return tlx.local_alloc((64, c_desc.block_shape[-1]), tlx.dtype_of(c_desc), COUNT)


@mimw.jit
def block_scaled_gemm(a_desc, b_desc, c_desc, scales_desc, scale_b, steps, ends, groups, sizes, FORM: tl.constexpr):
    """C = A B[group] with scales. A is (matrices, M, K), B (groups, N, K), A's scales (matrices, cdiv(K, 128), M)."""
    BM: tl.constexpr = FORM.BM
    STAGES: tl.constexpr = FORM.STAGES
    tl.static_assert(FORM.APART <= STAGES, "the second consumer's slots would never be given back")
    CONSUMERS: tl.constexpr = BM // FORM.ROWS
    CONTIGUOUS: tl.constexpr = FORM.LAYOUT == "contiguous"
    inputs = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BLOCK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc([STAGES, FORM.BN * (BLOCK // b_desc.block_shape[2]), b_desc.block_shape[2]], tlx.dtype_of(b_desc)),
                      scales=tle.gpu.alloc([STAGES, 2 * BM if CONTIGUOUS else BM], tl.float32))
    staging = staging_tiles(c_desc, FORM, CONSUMERS)
    rows = Groups(ends, groups, Problem(sizes.M, sizes.N, sizes.K), Grid(BM, FORM.BN, FORM.GROUP_M), FORM.LAYOUT, FORM.NARROW)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            part = Part(me, FORM.ROWS * me, FORM.ROWS, FORM.STAGING * me, FORM.TOGETHER, FORM.APART, FORM.EARLY,
                        (2 if FORM.TURNS == 7 else 1) if CONTIGUOUS else 0,
                        FORM.TURNS % 7)
            out = Output(c_desc, staging, FORM.PIECES, FORM.STAGING)
            if FORM.TURNS % 7:
                open_turns(me, CONSUMERS)
            compute(inputs.reader(consumer(me)), rows, ScalesOfB(scale_b + (tlx.thread_id(0) // (sizes.M + 4096) if FORM.APART == 1 else 0), steps), out, part)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), Operands(a_desc, b_desc, scales_desc), rows)
