"""What the gradients of a norm do with a chunk of a row: the first pass, which makes sums, and the second one, which makes dx.

Input: chunks of x, dy and w. Output: sums over the columns and over the rows; dx. With g = dy w and h = (x - mean) rstd:

    dx = rstd (g - mean of g - h (mean of g h)) = g rstd - x slope + offset
    dw = sum of dy h over the rows
    db = sum of dy

`tiles` are those of x, dy, a gradient more and w, of which the last two may be None.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.ring import chunk_at
from ..norm.statistics import send_statistics
from ..norm.unpack import unpacked


@mimw.jit
def of_rows(pointer, block, BLOCKS, ROWS_EACH: tl.constexpr):
    """One number of each row of a block; 0 behind the last block."""
    found = ()
    for i in tl.static_range(ROWS_EACH):
        found = found + (tl.load(pointer + block * ROWS_EACH + i, mask=block < BLOCKS, other=0.0), )
    return found


@mimw.jit
def zeros(pointer, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    """A sum over the rows for each chunk; none where `pointer`, to which they are to go, is None."""
    sums = ()
    if pointer is not None:
        for chunk in tl.static_range(CHUNKS):
            sums = sums + (tl.zeros((CHUNK, ), tl.float32), )
    return sums


@mimw.jit
def held_w(tiles, weights, CHUNKS: tl.constexpr, HELD: tl.constexpr):
    """This CTA's part of w in registers, once it is in shared memory; None where it is not HELD."""
    ws = None
    if tiles[3] is not None:
        tlx.barrier_wait(weights[0], 0)
        if HELD:
            ws = ()
            for chunk in tl.static_range(CHUNKS):
                ws = ws + (unpacked(tlx.local_load(tiles[3][chunk])), )
    return ws


@mimw.jit
def chunk_of_w(tiles, ws, chunk: tl.constexpr):
    """A chunk of w in fp32: held in registers, or out of shared memory; None where there is no w."""
    wide = None
    if ws is not None:
        wide = ws[chunk]
    elif tiles[3] is not None:
        wide = unpacked(tlx.local_load(tiles[3][chunk]))
    return wide


@mimw.jit
def read(tiles, at, wide_w, inside):
    """(x, dy, g) of the chunk in tile number `at`; g is 0 where `inside` is false."""
    x, dy = unpacked(tlx.local_load(tiles[0][at])), unpacked(tlx.local_load(tiles[1][at]))
    g = dy if wide_w is None else dy * wide_w
    if inside is not None:
        g = tl.where(inside, g, 0.0)
    return x, dy, g


@mimw.jit
def first_pass(x, dy, g, mean, rstd, g_total, gh_total, dw, db, CENTRED: tl.constexpr):
    """The sums of g and of g h of a row, and those of a chunk over the rows, tuples that may be empty, with these numbers more."""
    h = x * rstd - mean * rstd if CENTRED else x * rstd
    if len(dw) > 0:
        dw = (dw[0] + dy * h, )
    if len(db) > 0:
        db = (db[0] + dy, )
    return g_total + g, gh_total + g * h, dw, db


@mimw.jit
def slopes_and_offsets(sums, means, rstds, N, ROWS_EACH: tl.constexpr, CENTRED: tl.constexpr):
    """What dx of each row is made with; sums are those of g h of each row, and behind them those of g."""
    slopes, offsets = (), ()
    for i in tl.static_range(ROWS_EACH):
        slope = sums[i] / N * rstds[i] * rstds[i]
        slopes = slopes + (slope, )
        offsets = offsets + ((means[i] * slope - sums[ROWS_EACH + i] / N * rstds[i]) if CENTRED else 0.0, )
    return slopes, offsets


@mimw.jit
def second_pass(x, g, rstd, slope, offset, tiles, at, dx_at, inside):
    """dx of a chunk, two fused multiplies and adds a number."""
    dx = g * rstd + (offset - x * slope)
    if tiles[2] is not None:
        dx += tlx.local_load(tiles[2][at]).to(tl.float32)
    tl.store(dx_at, dx.to(tlx.dtype_of(dx_at)), mask=inside)


@mimw.jit
def write_sums(dws, dbs, dw_ptr, db_ptr, number, N, inside, rank, units, UNIT: tl.constexpr, CHUNK: tl.constexpr,
               CHUNKS: tl.constexpr, EVEN: tl.constexpr):
    """dw and db of the rows of consumer number `number` of all, into its row of each."""
    at = number.to(tl.int64) * N
    for chunk in tl.static_range(CHUNKS):
        columns = at + chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
        own = None if inside is None else inside[chunk]
        if dw_ptr is not None:
            tl.store(dw_ptr + columns, dws[chunk], mask=own)
        if db_ptr is not None:
            tl.store(db_ptr + columns, dbs[chunk], mask=own)


@mimw.jit
def means_of_row(g_sum, gh_sum, parts, arrived, place, phase, rank, N, CLUSTER: tl.constexpr):
    """The sums of all CTAs, over N."""
    if CLUSTER > 1:
        send_statistics(g_sum, gh_sum, parts[place], arrived[place], rank, CLUSTER)
        tlx.barrier_wait(arrived[place], phase)
        g_parts, gh_parts = tlx.local_load(parts[place]).split()
        g_sum, gh_sum = tl.sum(g_parts), tl.sum(gh_parts)
    return g_sum / N, gh_sum / N
