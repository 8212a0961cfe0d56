"""What the gradients of a norm do with a chunk of a row: the first pass, which makes sums, and the second one, which makes dx.

Input: chunks of x, dy and w. Output: sums over the columns and over the rows; dx. With g = dy w and h = (x - mean) rstd:

    dx = rstd (g - mean of g - h (mean of g h)) = g rstd - x slope + offset
    dw = sum of dy h over the rows
    db = sum of dy
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.exchange import received_pairs, send_pair
from ..norm.ring import Matrix, chunk_at
from ..norm.unpack import unpacked


@tle.struct
class Tiles:
    """Parts of x and dy, and, or None, of a gradient that is added to dx, all in slots of the ring; of w, or None; and the mean, or
    None, and 1 / deviation of each row in a slot."""
    x: tlx.buffered_tensor
    dy: tlx.buffered_tensor
    more: tlx.buffered_tensor | None
    w: tlx.buffered_tensor | None
    mean: tlx.buffered_tensor | None
    rstd: tlx.buffered_tensor


@tle.struct
class Statistics:
    """Numbers that the forward launch has left of each row; the means may be None."""
    mean: tl.tensor | None
    rstd: tl.tensor


@tle.struct
class Outputs:
    """dx, and the sums for dw and db, a row of each for each consumer; None for those that are not wanted."""
    dx: Matrix
    dw: tl.tensor | None
    db: tl.tensor | None


@tle.struct
class Moments:
    """Tuples with the mean and 1 / deviation of each row of a block; not CENTRED: without means."""
    means: tl.tuple
    rstds: tl.tuple
    CENTRED: tl.constexpr


@tle.struct
class Lines:
    """Tuples with what makes dx of each row of a block: dx = g rstd - x slope + offset."""
    rstds: tl.tuple
    slopes: tl.tuple
    offsets: tl.tuple


@tle.struct
class Chunk:
    """Numbers of a chunk in fp32."""
    x: tl.tensor
    dy: tl.tensor
    g: Any


@mimw.jit
def zeros(pointer, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    """A sum over the rows for each chunk; none where `pointer`, to which they are to go, is None."""
    sums = ()
    if pointer is not None:
        for chunk in tl.static_range(CHUNKS):
            sums = sums + (tl.zeros((CHUNK, ), tl.float32), )
    return sums


@mimw.jit
def held_w(tiles, arrived, CHUNKS: tl.constexpr, HELD: tl.constexpr):
    """This CTA's part of w in registers, once it is in shared memory; None where it is not HELD."""
    ws = None
    if tiles.w is not None:
        tlx.barrier_wait(arrived[0], 0)
        if HELD:
            ws = ()
            for chunk in tl.static_range(CHUNKS):
                ws = ws + (unpacked(tlx.local_load(tiles.w[chunk])), )
    return ws


@mimw.jit
def chunk_of_w(tiles, ws, chunk: tl.constexpr):
    """A chunk of w in fp32: held in registers, or out of shared memory; None where there is no w."""
    wide = None
    if ws is not None:
        wide = ws[chunk]
    elif tiles.w is not None:
        wide = unpacked(tlx.local_load(tiles.w[chunk]))
    return wide


@mimw.jit
def read(tiles, at, wide_w, inside):
    """The chunk in tile number `at`; g is 0 where `inside` is false."""
    x, dy = unpacked(tlx.local_load(tiles.x[at])), unpacked(tlx.local_load(tiles.dy[at]))
    g = dy if wide_w is None else dy * wide_w
    if inside is not None:
        g = tl.where(inside, g, 0.0)
    return Chunk(x, dy, g)


@mimw.jit
def first_pass(chunk, mean, rstd, g_total, gh_total, dw, db, CENTRED: tl.constexpr):
    """The sums of g and of g h of a row, and those of a chunk over the rows, tuples that may be empty, with these numbers more."""
    h = chunk.x * rstd - mean * rstd if CENTRED else chunk.x * rstd
    if len(dw) > 0:
        dw = (dw[0] + chunk.dy * h, )
    if len(db) > 0:
        db = (db[0] + chunk.dy, )
    return g_total + chunk.g, gh_total + chunk.g * h, dw, db


@mimw.jit
def lines_of(sums, moments, N, ROWS_EACH: tl.constexpr):
    """The lines of a block's rows; sums are those of g h of each row, and behind them those of g."""
    slopes, offsets, rstds = (), (), moments.rstds
    for i in tl.static_range(ROWS_EACH):
        slope = sums[i] / N * rstds[i] * rstds[i]
        slopes = slopes + (slope, )
        offsets = offsets + ((moments.means[i] * slope - sums[ROWS_EACH + i] / N * rstds[i]) if moments.CENTRED else 0.0, )
    return Lines(rstds, slopes, offsets)


@mimw.jit
def second_pass(chunk, lines, i: tl.constexpr, tiles, at, dx_at, inside):
    """dx of a chunk of row number i, two fused multiplies and adds a number."""
    dx = chunk.g * lines.rstds[i] + (lines.offsets[i] - chunk.x * lines.slopes[i])
    if tiles.more is not None:
        dx += tlx.local_load(tiles.more[at]).to(tl.float32)
    tl.store(dx_at, dx.to(tlx.dtype_of(dx_at)), mask=inside)


@mimw.jit
def write_sums(dws, dbs, out, number, N, inside, part):
    """dw and db of the rows of consumer number `number` of all, into its row of each."""
    at = number.to(tl.int64) * N
    for chunk in tl.static_range(part.CHUNKS):
        columns = at + chunk_at(part, chunk) + tl.arange(0, part.CHUNK)
        own = None if inside is None else inside[chunk]
        if out.dw is not None:
            tl.store(out.dw + columns, dws[chunk], mask=own)
        if out.db is not None:
            tl.store(out.db + columns, dbs[chunk], mask=own)


@mimw.jit
def means_of_row(g_sum, gh_sum, exchange, place, phase, N):
    """The sums of all CTAs, over N."""
    if exchange.CLUSTER > 1:
        send_pair(exchange.at(place), g_sum, gh_sum)
        g_parts, gh_parts = received_pairs(exchange.at(place), phase)
        g_sum, gh_sum = tl.sum(g_parts), tl.sum(gh_parts)
    return g_sum / N, gh_sum / N
