"""`C = X W` on Hopper for up to 128 rows of X, without sums that programs hand on: each has some columns of C, over all of K.

Input: descriptors of X (M, K), W as (N, K) and C (M, N), and sizes. Output: C is written. For example:

    grid, args, meta = whole_arguments(x, w, c, programs)
    whole_columns[grid](*args, **meta)

X is wgmma's left operand here: 64 rows a consumer, of which TMA fills those with zeros that there are not, so that a tile may have
any multiple of 8 weights, and N is divided among programs evenly (columns.py). Weights are read once and pass through L2 as what it
drops first (STREAMED): so what others have left there stays, and what they have written need not go to memory meanwhile. Scales come
while the product is computed.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, one_of_consumers, open_turns
from ..gemm.output import output
from ..gemm.product import multiply
from ..gemm.sources import Place
from ..gemm.tiles import Problem, Tiles, part_of


@tle.struct
class WholeForm:
    """The constants of a launch. Of scales that are not for EACH_ROW, or column, there is one."""
    tiles: Tiles
    STAGES: tl.constexpr
    STREAMED: tl.constexpr = True
    EACH_ROW: tl.constexpr = False
    EACH_COLUMN: tl.constexpr = False


@tle.struct
class Scales:
    """What sums are multiplied by and added to, in memory or, of one tile, in registers; None for what there is not."""
    row: Any
    column: Any
    bias: Any


@mimw.jit
def of_extent(pointer, at, extent, EACH: tl.constexpr):
    """The numbers at these places, one for all unless there is one for EACH; None for no pointer."""
    if pointer is None:
        return None
    if EACH:
        return tl.load(pointer + at, mask=at < extent, other=0.0).to(tl.float32)
    return tl.load(pointer).to(tl.float32)


@mimw.jit
def scales_at(scales, at, problem, FORM, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """The scales and the bias of a tile of ROWS and WIDTH columns."""
    rows, some = at.m + tl.arange(0, ROWS), at.n + tl.arange(0, WIDTH)
    return Scales(of_extent(scales.row, rows, problem.M, FORM.EACH_ROW),
                  of_extent(scales.column, some, problem.N, FORM.EACH_COLUMN), of_extent(scales.bias, some, problem.N, True))


@mimw.jit
def scaled(sums, scales, FORM):
    """row column sums + bias."""
    if scales.row is not None:
        sums *= scales.row[:, None] if FORM.EACH_ROW else scales.row
    if scales.column is not None:
        sums *= scales.column[None, :] if FORM.EACH_COLUMN else scales.column
    if scales.bias is not None:
        sums += scales.bias[None, :]
    return sums


@mimw.jit
def load(inputs, x_desc, w_desc, problem, FORM):
    """Tiles of weights and of X along K, for one tile of this program after the other."""
    HINT: tl.constexpr = "evict_first" if FORM.STREAMED else ""
    chunk = 0
    for n in range(tl.program_id(0) * FORM.tiles.BN, problem.N, tl.num_programs(0) * FORM.tiles.BN):
        for k in range(0, problem.K, FORM.tiles.BK):
            slot = inputs.acquire(chunk)
            tle.gpu.copy(w_desc, slot.b, w_desc.block_shape, [n, k], eviction_policy=HINT)
            tle.gpu.copy(x_desc, slot.a, x_desc.block_shape, [0, k])
            inputs.commit(chunk)
            chunk += 1


@mimw.jit
def compute(inputs, out, scales, problem, FORM, me: tl.constexpr):
    """Consumer `me`'s rows of each tile of this program, or in ping-pong all rows of its own tiles."""
    part = part_of(FORM.tiles, me)
    steps = tl.cdiv(problem.K, FORM.tiles.BK)
    tlx.prefetch(out.c_desc, tensormap=True)
    if part.PING_PONG:
        open_turns(me, part.CONSUMERS)
    chunk = part.TURN * steps
    apart = tl.num_programs(0) * FORM.tiles.BN
    for n in range(tl.program_id(0) * FORM.tiles.BN + part.TURN * apart, problem.N, part.TURNS * apart):
        at = Place(part.ROW, n)
        here = scales_at(scales, at, problem, FORM, part.ROWS, part.COLUMNS)
        acc = multiply(inputs, chunk, steps, part)
        out.store(scaled(acc, here, FORM), at, part)
        chunk += part.TURNS * steps
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def whole_columns(x_desc, w_desc, c_desc, M, N, K, FORM: tl.constexpr, row_scale=None, column_scale=None, bias=None):
    """C[M, N] = row_scale column_scale X[M, K] W^T + bias; what is None is left out. FORM is a `WholeForm`, M is at most its BM."""
    tiles = FORM.tiles
    problem = Problem(M, N, K)
    out = output(c_desc, tiles)
    READERS: tl.constexpr = one_of_consumers(tiles.CONSUMERS) if tiles.PING_PONG else consumers(tiles.CONSUMERS)
    inputs = tle.pipe(capacity=FORM.STAGES, readers=READERS, name="inputs",
                      a=tle.gpu.alloc([FORM.STAGES, tiles.BM, tiles.BK], tlx.dtype_of(x_desc)),
                      b=tle.gpu.alloc([FORM.STAGES, tiles.BN, tiles.BK], tlx.dtype_of(w_desc)))
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=tiles.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), out, Scales(row_scale, column_scale, bias), problem, FORM, me)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), x_desc, w_desc, problem, FORM)
