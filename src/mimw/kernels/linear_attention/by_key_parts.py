"""COLUMNS columns of a chunk with gates by key: rows with gates, operands of products, and the products, near and far (by_key.py).

Input: tiles of q, k and sums of gates in registers (by_key_tiles.py). Output: operands in shared memory, and sums of products:

    near(chunk, operands, outputs, x, before, behind)                       writes operands
    of_queries, of_keys = products(operands, of_queries, of_keys)           reads them
    of_queries, of_keys = far(chunk, operands, of_queries, of_keys)         both, of one block of rows after the other
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .by_key_tiles import (
    BLOCK,
    BLOCKS,
    BY_COLUMN,
    BY_COLUMN_OF_ROWS,
    OWN,
    ROWS,
    block_of,
    everywhere,
    put_operand,
    put_rows,
    row_of,
    scaled_tile_of,
    sums_behind,
    sums_in_blocks,
    sums_of_others,
    tile_of,
)
from .gates import LOG2_E, gates_of
from .nouns import C

FLOOR = tl.constexpr(-9.5)


@tle.struct
class Part:
    """COLUMNS columns: of q (None without one), k and g as they came; and in the same places, later, of the products' operands:
    q and k times e^(b - m), and k times e^(m - b). Besides what rows of q and k are multiplied by, None for nothing; biases of raw
    gates, None for none; what makes gates of them, None where they are given; and how many rows there are."""

    q: Any
    k: Any
    g: Any
    rise_q: Any
    rise_k: Any
    fall: Any
    of_q: Any
    of_k: Any
    bias: Any
    maker: Any
    rows: Any


@tle.struct
class Outputs:
    """Pointers of rows with gates: q e^b and k e^b, None for what a call does without, k e^(end - b)."""

    q: Any
    k: Any
    w: Any
    K: tl.constexpr


@mimw.jit
def gates_in(part):
    """The gates of a part, as TILE; 0 where there is no row."""
    if part.maker is None:
        return tile_of(part.g)
    else:
        row = tl.arange(0, BLOCKS)[None, :, None] * BLOCK + tl.arange(0, BLOCK)[:, None, None]
        bias = None
        if part.bias is not None:
            bias = tlx.local_load(part.bias, layout=BY_COLUMN)[None, None, :]
        return tl.where(row < part.rows, gates_of(tile_of(part.g), bias, part.maker), 0.0)


@mimw.jit
def largest_in_rows(part):
    """The largest gate of each row of a part, 0 where there is no row."""
    x = tlx.local_load(part.g, layout=ROWS).to(tl.float32)
    if part.maker is None:
        return tl.max(x, 1)
    else:
        if part.bias is not None:
            x += tlx.local_load(part.bias, layout=BY_COLUMN_OF_ROWS)[None, :]
        return tl.where(tl.arange(0, C) < part.rows, gates_of(tl.min(x, 1), None, part.maker), 0.0)


@mimw.jit
def near(part, outputs, x, before, behind):
    """Operands and rows with gates, by x = b - m, m and end - m, all for powers of 2; the last two in two halves, as one factor
    alone may underflow where the other one is large. Of q only here, for want of registers."""
    keys = scaled_tile_of(part.k, part.of_k)
    tile, left = keys * tl.exp2(-x), tl.exp2(0.5 * behind)
    put_operand(part.fall, tile)
    put_rows(outputs.w, tile * left * left, outputs.K)
    rise, grown = tl.exp2(x), tl.exp2(0.5 * before)
    tile = keys * rise
    put_operand(part.rise_k, tile)
    if outputs.k is not None:
        put_rows(outputs.k, tile * grown * grown, outputs.K)
    if part.q is not None:
        tile = scaled_tile_of(part.q, part.of_q) * rise
        put_operand(part.rise_q, tile)
        put_rows(outputs.q, tile * grown * grown, outputs.K)


@mimw.jit
def rescale(part, scales):
    """Operands for rows of the second half and columns of the first one, in place, by numbers of blocks: those that rise times
    e^(m - M) in the second half, those that fall times e^(M - m) in the first one; the rest is not used."""
    scale = tlx.local_load(scales, layout=OWN)[None, :, :]
    put_operand(part.fall, tile_of(part.fall) * scale)
    put_operand(part.rise_k, tile_of(part.rise_k) * scale)
    if part.q is not None:
        put_operand(part.rise_q, tile_of(part.rise_q) * scale)


@mimw.jit
def far_rows(part, outputs, totals):
    """Rows with gates, by the sums of gates before and behind each row, since a difference of large sums has no digits left;
    operands are not written."""
    keys, gates, (before, behind) = scaled_tile_of(part.k, part.of_k), gates_in(part), sums_of_others(totals)
    put_rows(outputs.w, keys * tl.exp2((sums_behind(gates) + behind) * LOG2_E), outputs.K)
    rise = tl.exp2((sums_in_blocks(gates)[0] + before) * LOG2_E)
    if outputs.k is not None:
        put_rows(outputs.k, keys * rise, outputs.K)
    if part.q is not None:
        put_rows(outputs.q, scaled_tile_of(part.q, part.of_q) * rise, outputs.K)


@mimw.jit
def products(part, of_queries, of_keys):
    """The sums and q k^T, k k^T of operands."""
    right = tl.trans(tlx.local_load(part.fall))
    if part.q is not None:
        of_queries = tl.dot(tlx.local_load(part.rise_q), right, of_queries)
    return of_queries, tl.dot(tlx.local_load(part.rise_k), right, of_keys)


@mimw.jit
def far(part, numbers, of_queries, of_keys):
    """The sums and products of blocks of rows, each with its own m, and of gates of FLOOR at least. Operands that rise are written
    once, each row by the m of its block, and a product counts for the rows of one block; those that fall, by the m of their block,
    times e^(m' - m) are those by the m' of a later one."""
    n, keys = tl.arange(0, BLOCKS), scaled_tile_of(part.k, part.of_k)
    within, totals = sums_in_blocks(tl.maximum(gates_in(part), FLOOR) * LOG2_E)
    b = within + sums_of_others(everywhere(numbers, totals))[0]
    middles = row_of(b, BLOCK // 2)
    x = b - middles[None, :, :]
    rise, falling = tl.exp2(x), keys * tl.exp2(-x)
    put_operand(part.rise_k, keys * rise)
    if part.q is not None:
        put_operand(part.rise_q, scaled_tile_of(part.q, part.of_q) * rise)
    of_blocks, block_of_row = everywhere(numbers, middles), tl.arange(0, C)[:, None] // BLOCK
    for block in range(BLOCKS):
        later = tl.where(n[:, None] <= block, block_of(of_blocks, block)[None, :] - of_blocks, float("-inf"))
        step = tlx.require_layout(tl.exp2(0.5 * later), OWN)[None, :, :]        # all of it at once may underflow
        put_operand(part.fall, falling * step * step)
        q_block, k_block = products(part, tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32))
        of_keys = tl.where(block_of_row == block, of_keys + k_block, of_keys)
        if part.q is not None:
            of_queries = tl.where(block_of_row == block, of_queries + q_block, of_queries)
    return of_queries, of_keys
