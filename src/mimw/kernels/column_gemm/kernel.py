"""`C = X W` on Hopper for up to 128 rows of X, as in decoding: each program has columns of C of its own, over all of K.

Input: descriptors of X (M, K), of W as (N, K) and of C (M, N), and sizes. Output: C is written. For example:

    grid, args, meta = arguments(x, w, c, programs)
    column_gemm[grid](*args, **meta)

The weights bound such a product: who reads them once, all SMs alike, is done. X is wgmma's left operand, in tiles of 64 rows, of
which TMA fills with zeros those that there are not: so a tile may have any multiple of 16 weights, N is divided evenly, and no
program waits for sums of another one, as in `skinny_gemm`, whose tiles have 64 weights or 128.

Weights pass through L2 as what it drops first (STREAMED): what others have left there stays, and what they have written need not go
to memory before the weights come. Scales are loaded before the product is computed, so that nothing waits for them after it.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, one_of_consumers, open_turns
from ..gemm.epilogue import numbers
from ..gemm.output import output, send, staging_tile
from ..gemm.product import multiply
from ..gemm.sources import Place
from ..gemm.tiles import Form, Problem, part_of
from .shares import exchange_of


@tle.struct
class ColumnForm(Form):
    """Also STREAMED, and which scales there are one of for EACH_ROW or EACH_COLUMN, not one for all."""
    STREAMED: tl.constexpr = True
    SPLIT: tl.constexpr = 1
    EACH_ROW: tl.constexpr = False
    EACH_COLUMN: tl.constexpr = False


@tle.struct
class Scales:
    """Factors of rows and columns, and a bias: in memory, or of one tile in registers; None for what there is not."""
    row: Any
    column: Any
    bias: Any


@mimw.jit
def scales_of_tile(scales, at, ROWS: tl.constexpr, COLUMNS: tl.constexpr, problem, FORM):
    """Those of the rows and columns of a tile."""
    rows, columns = at.m + tl.arange(0, ROWS), at.n + tl.arange(0, COLUMNS)
    return Scales(numbers(scales.row, rows, problem.M, FORM.EACH_ROW), numbers(scales.column, columns, problem.N, FORM.EACH_COLUMN),
                  numbers(scales.bias, columns, problem.N, True))


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


@tle.struct
class Share:
    """The tiles of a program, from column `n` to `stop`, each `apart` from the one before, and the chunks `begin` to `end` of K."""
    n: Any
    stop: Any
    apart: Any
    begin: Any
    end: Any


@mimw.jit
def share_of(problem, FORM):
    """Tiles over all of K; or a part of K, one in SPLIT, of the one tile of a cluster."""
    BN: tl.constexpr = FORM.tiles.BN
    SPLIT: tl.constexpr = FORM.SPLIT
    steps = tl.cdiv(problem.K, FORM.tiles.BK)
    if SPLIT == 1:
        return Share(tl.program_id(0) * BN, problem.N, tl.num_programs(0) * BN, 0, steps)
    n, part = tl.program_id(0) // SPLIT * BN, tl.program_id(0) % SPLIT
    return Share(n, min(problem.N, n + BN), BN, steps * part // SPLIT, steps * (part + 1) // SPLIT)


@mimw.jit
def load(inputs, x_desc, w_desc, problem, FORM):
    """Tiles of weights and of X along K, for one tile of this program after the other."""
    HINT: tl.constexpr = "evict_first" if FORM.STREAMED else ""
    share = share_of(problem, FORM)
    chunk = 0
    for n in range(share.n, share.stop, share.apart):
        for k in range(share.begin * FORM.tiles.BK, share.end * FORM.tiles.BK, FORM.tiles.BK):
            slot = inputs.acquire(chunk)
            tle.gpu.copy(w_desc, slot.b, w_desc.block_shape, [n, k], eviction_policy=HINT)
            tle.gpu.copy(x_desc, slot.a, x_desc.block_shape, [0, k])
            inputs.commit(chunk)
            chunk += 1


@mimw.jit
def compute(inputs, out, exchange, scales, problem, FORM, me: tl.constexpr):
    """Consumer `me`'s rows of each tile of this program, or in ping-pong all rows of its own tiles."""
    part, share = part_of(FORM.tiles, me), share_of(problem, FORM)
    steps = share.end - share.begin
    WIDTH: tl.constexpr = part.COLUMNS // FORM.SPLIT
    chunk = part.TURN * steps
    tlx.prefetch(out.c_desc, tensormap=True)
    if part.PING_PONG:
        open_turns(me, part.CONSUMERS)
    for n in range(share.n + part.TURN * share.apart, share.stop, part.TURNS * share.apart):
        at = Place(part.ROW, n + tl.program_id(0) % FORM.SPLIT * WIDTH)
        here = scales_of_tile(scales, at, part.ROWS, WIDTH, problem, FORM)
        acc = multiply(inputs, chunk, steps, part)
        if FORM.SPLIT > 1:
            send(out, staging_tile(out, me, 0), scaled(exchange.sums(acc, me), here, FORM), at, 0)
        else:
            out.store(scaled(acc, here, FORM), at, part)
        chunk += part.TURNS * steps
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def column_gemm(x_desc, w_desc, c_desc, M, N, K, FORM: tl.constexpr, row_scale=None, column_scale=None, bias=None):
    """C[M, N] = row_scale column_scale X[M, K] W[N, K]^T + bias; what is None is left out. FORM is a `ColumnForm` whose tiles have
    all M rows."""
    tiles = FORM.tiles
    problem, out, exchange = Problem(M, N, K), output(c_desc, tiles), exchange_of(tiles, FORM.SPLIT)
    READERS: tl.constexpr = one_of_consumers(tiles.CONSUMERS) if tiles.PING_PONG else consumers(tiles.CONSUMERS)
    inputs = tle.pipe(capacity=FORM.STAGES, readers=READERS, name="inputs",
                      a=tle.gpu.alloc([FORM.STAGES, tiles.BM, tiles.BK], tlx.dtype_of(x_desc)),
                      b=tle.gpu.alloc([FORM.STAGES, tiles.BN, tiles.BK], tlx.dtype_of(w_desc)))
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=tiles.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), out, exchange, Scales(row_scale, column_scale, bias), problem, FORM, me)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), x_desc, w_desc, problem, FORM)
