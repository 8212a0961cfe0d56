"""What each chunk needs of its own keys, queries and gates, where every column of the keys has gates of its own.

Input: maps of q, k and g that end with each sequence (attention_varlen/maps.py), a pointer of beta, and the table of chunks;
gates and betas may be raw (gates.py).
Output: T and P of each chunk, its last b, and its rows of q and k with their gates (see __init__.py), by 4 warps:

    prepare_by_key[(chunks * HV, )](q, k, g, beta, parameters, last, T, P, q_out, k_out, w_out, bounds, table, problem, ...)

e^(b_i - b_j) is a product e^(b_i - m) e^(m - b_j) with a row's b for m, so that a tensor core sums over columns. Where, in COLUMNS
columns, gates before and behind a chunk's middle sum to no less than -FAR, m is the b between, for the whole chunk, and rows with
gates come from the same two powers. Where gates of no block of 16 rows sum to less, as those of -5 and more, each half of a chunk
has its own m. That is right for rows and columns of one half; a second sum, for rows of the second half and columns of the first
one, is of the same operands times e^(m - M) and e^(M - m'), M between the halves, all three whole powers of 2, so that nothing is
rounded twice. Elsewhere each block of 16 rows has its own m, and gates count as FLOOR at least, since e^(m - b_j) overflows
otherwise: by that, and by what underflows, an element of P, or of A, is wrong by at most 8e-5 of the lengths of q_i and k_j, a
fiftieth of what bf16 rounds.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .by_key_parts import Outputs, Part, far, far_rows, gates_in, largest_in_rows, near, products, rescale
from .by_key_tiles import BLOCKS, COLUMNS, OWN, block_of, everywhere, sums_in_blocks
from .forgotten import growth
from .gates import LOG2_E, betas_of, maker_of
from .inverse import SUM, of_room, room_of
from .nouns import C
from .prepare import bring, diagonal, numbers_of, place_of, put_inverse, put_tile, shrink_of

FAR = tl.constexpr(80.0)        # e^80 and its sums are finite in bf16 and fp32


@tle.struct
class Buffers:
    """Of all columns: q (None without one), k and g as TMA brings them, COLUMNS at a time, with barriers; the operands of
    by_key_parts.py; numbers of blocks; the inverse's room; what rows of q and k are multiplied by, or None; and biases of gates,
    COLUMNS at a time, or None."""

    q: Any
    k: Any
    g: Any
    filled: Any
    rise_q: Any
    rise_k: Any
    fall: Any
    numbers: Any
    room: Any
    of_rows: Any
    biases: Any


@mimw.jit
def rows_and_operand(TYPE: tl.constexpr, OPERAND: tl.constexpr, PARTS: tl.constexpr):
    """(Rows as they come, operands): in the same place, and the same buffers where the types are."""
    if OPERAND == TYPE:
        rows = tlx.local_alloc((C, COLUMNS), TYPE, PARTS)
        return rows, rows
    else:
        both = tlx.storage_alias_spec()
        rows = tlx.local_alloc((C, COLUMNS), TYPE, PARTS, reuse=both)
        operand = tlx.local_alloc((C, COLUMNS), OPERAND, PARTS, reuse=both)
        both.set_buffer_overlap(tlx.reuse_group(rows, operand))
        return rows, operand


@mimw.jit
def buffers(Q: tl.constexpr, TYPE: tl.constexpr, GATES: tl.constexpr, OPERAND: tl.constexpr, K: tl.constexpr, NORM: tl.constexpr,
            maker):
    """The buffers. Operands take the place of the same columns' inputs, which are in registers by then: those that fall the place
    of gates. In the end the inverse takes that place, too."""
    PARTS: tl.constexpr = K // COLUMNS
    both, q, rise_q, of_rows, biases = tlx.storage_alias_spec(), None, None, None, None
    g, fall = tlx.local_alloc((C, COLUMNS), GATES, PARTS, reuse=both), tlx.local_alloc((C, COLUMNS), OPERAND, PARTS, reuse=both)
    room = room_of(both)
    both.set_buffer_overlap(tlx.reuse_group(g, fall, of_room(room)))
    k, rise_k = rows_and_operand(TYPE, OPERAND, PARTS)
    if Q:
        q, rise_q = rows_and_operand(TYPE, OPERAND, PARTS)
    numbers = tlx.local_alloc((BLOCKS, COLUMNS), tl.float32, PARTS)
    if NORM:
        of_rows = tlx.local_alloc((C, ), tl.float32, 2)
    if maker is not None:
        if maker.bias is not None:
            biases = tlx.local_alloc((PARTS, COLUMNS), tl.float32, 1)
            at = tl.arange(0, PARTS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
            tlx.local_store(biases[0], tl.load(maker.bias + at).to(tl.float32))
    return Buffers(q, k, g, tlx.alloc_barriers(PARTS), rise_q, rise_k, fall, numbers, room, of_rows, biases)


@mimw.jit
def part_of(buffers, number, maker, rows):
    """Columns COLUMNS * number .. of the buffers."""
    q, rise_q, of_q, of_k, bias = None, None, None, None, None
    if buffers.q is not None:
        q, rise_q = buffers.q[number], buffers.rise_q[number]
    if buffers.of_rows is not None:
        of_q, of_k = buffers.of_rows[0], buffers.of_rows[1]
    if buffers.biases is not None:
        bias = tlx.local_reshape(tlx.local_slice(buffers.biases[0], [number, 0], [1, COLUMNS]), [COLUMNS])
    return Part(q, buffers.k[number], buffers.g[number], rise_q, buffers.rise_k[number], buffers.fall[number], of_q, of_k, bias,
                maker, rows)


@mimw.jit
def put_norms(buffers, K: tl.constexpr):
    """1 / the norms of all rows of q and k: their squares are the diagonals of products."""
    of_queries, of_keys = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    for number in tl.range(0, K // COLUMNS, num_stages=1):
        tlx.barrier_wait(buffers.filled[number], 0)
        of_keys = tl.dot(tlx.local_load(buffers.k[number]), tl.trans(tlx.local_load(buffers.k[number])), of_keys)
        if buffers.q is not None:
            of_queries = tl.dot(tlx.local_load(buffers.q[number]), tl.trans(tlx.local_load(buffers.q[number])), of_queries)
    tlx.local_store(buffers.of_rows[0], tl.exp2(shrink_of(diagonal(of_queries))))
    tlx.local_store(buffers.of_rows[1], tl.exp2(shrink_of(diagonal(of_keys))))


@mimw.jit
def begin(q, k, g, buffers, place, K: tl.constexpr, parts):
    """All columns of the chunk, of the parts whose bits are set, on their way."""
    BYTES: tl.constexpr = C * COLUMNS * (tlx.size_of(tlx.dtype_of(g)) + (1 if q is None else 2) * tlx.size_of(tlx.dtype_of(k)))
    for number in tl.static_range(K // COLUMNS):
        if (parts >> number) & 1 == 1:
            filled = buffers.filled[number]
            tlx.barrier_expect_bytes(filled, BYTES)
            bring(g, buffers.g[number], place, place.head, number * COLUMNS, filled)
            bring(k, buffers.k[number], place, place.of_key, number * COLUMNS, filled)
            if q is not None:
                bring(q, buffers.q[number], place, place.of_key, number * COLUMNS, filled)


@mimw.jit
def gated(part, numbers, last, outputs):
    """(0 where a part's b are near its middle, 1 near those of its halves, 2 elsewhere; b of the last row). Writes rows with gates,
    the last b, operands of what is near, and into `numbers` what `rescale` takes for halves."""
    within, totals = sums_in_blocks(gates_in(part))
    totals, n = everywhere(numbers, totals), tl.arange(0, BLOCKS)[:, None]
    first, second = tl.sum(tl.where(n < 2, totals, -0.0), 0), tl.sum(tl.where(n >= 2, totals, -0.0), 0)
    end = first + second
    tl.store(last + tl.arange(0, COLUMNS), end)
    way = 0
    if tl.min(tl.minimum(first, second), 0) < -FAR:
        way = tl.where(tl.min(tl.min(totals, 0), 0) < -FAR, 2, 1)
    if way == 2:
        far_rows(part, outputs, totals)
    else:
        before_first, before_second = block_of(totals, 0) * LOG2_E, block_of(totals, 2) * LOG2_E    # m of halves, but for M
        between = first * LOG2_E
        shift = tl.where(n == 3, before_second[None, :], 0.0) - tl.where(n == 1, block_of(totals, 1)[None, :] * LOG2_E, 0.0)
        shift -= tl.where(n == 0, between[None, :], 0.0)
        middle = between[None, :] + tl.zeros((BLOCKS, COLUMNS), tl.float32)
        if way == 1:
            M, of_first, of_second = tl.floor(between), tl.floor(before_first), tl.floor(before_second)
            shift = tl.where(n == 1, before_first[None, :], 0.0) - tl.where(n < 2, of_first[None, :], 0.0)
            shift += tl.where(n == 3, before_second[None, :], 0.0)
            shift += tl.where(n >= 2, (between - M - of_second)[None, :], 0.0)
            middle = tl.where(n < 2, of_first[None, :], (M + of_second)[None, :])
            scales = tl.exp2(tl.where(n < 2, (M - of_first)[None, :], of_second[None, :]))
            tlx.local_store(numbers, tlx.require_layout(scales, OWN))
        x = within * LOG2_E + tlx.require_layout(shift, OWN)[None, :, :]
        middle = tlx.require_layout(middle, OWN)[None, :, :]
        near(part, outputs, x, middle, (end * LOG2_E)[None, None, :] - middle)
    return way, end


@mimw.jit
def by_halves(chunk, halves, of_queries, of_keys, maker, rows, K: tl.constexpr):
    """The sums and products of all parts, near, or near in the halves whose bits are set."""
    for number in tl.range(0, K // COLUMNS, num_stages=1):
        of_queries, of_keys = products(part_of(chunk, number, maker, rows), of_queries, of_keys)
    if halves != 0:
        for number in tl.range(0, K // COLUMNS, num_stages=1):
            if (halves >> number) & 1 == 1:
                rescale(part_of(chunk, number, maker, rows), chunk.numbers[number])
        if chunk.q is not None:
            of_queries = across(chunk.rise_q, chunk.fall, of_queries, K)
        of_keys = across(chunk.rise_k, chunk.fall, of_keys, K)
    return of_queries, of_keys


@mimw.jit
def across(rise, fall, sums, K: tl.constexpr):
    """The sums, with products of operands for rows of the second half and columns of the first one. One product at a time has
    registers."""
    found = tl.zeros((C, C), tl.float32)
    for number in tl.range(0, K // COLUMNS, num_stages=1):
        found = tl.dot(tlx.local_load(rise[number]), tl.trans(tlx.local_load(fall[number])), found)
    return tl.where((tl.arange(0, C)[:, None] >= C // 2) & (tl.arange(0, C)[None, :] < C // 2), found, sums)


@mimw.jit
def by_blocks(chunk, fars, of_queries, of_keys, maker, rows, K: tl.constexpr):
    """The sums and products of all parts, of which some are far; rows of the others come again."""
    for number in tl.range(0, K // COLUMNS, num_stages=1):
        if (fars >> number) & 1 == 0:
            tlx.barrier_wait(chunk.filled[number], 1)
        of_queries, of_keys = far(part_of(chunk, number, maker, rows), chunk.numbers[number], of_queries, of_keys)
    return of_queries, of_keys


@mimw.jit
def prepare_by_key(q, k, g, beta, parameters, last, T_out, P_out, q_out, k_out, w_out, bounds, table, problem, K: tl.constexpr,
                   NORM: tl.constexpr, MAKING: tl.constexpr):
    """T, P, the last b, rows with gates and the bound of a chunk and head (forgotten.py); T and k_out only with beta, P and q_out
    only with q. NORM: rows of q and k are divided by their norms."""
    TYPE: tl.constexpr = tlx.dtype_of(k)
    OPERAND: tl.constexpr = tl.bfloat16 if TYPE == tl.bfloat16 else tl.float32     # fp16 does not hold e^FAR
    place = place_of(table, problem)
    maker, rows = maker_of(parameters, place.head, K, MAKING), place.end - place.first
    chunk = buffers(q is not None, TYPE, tlx.dtype_of(g), OPERAND, K, NORM, maker)
    ALL: tl.constexpr = (1 << (K // COLUMNS)) - 1
    begin(q, k, g, chunk, place, K, ALL)
    if NORM:
        put_norms(chunk, K)
    largest = tl.full((C if beta is not None else 1, ), float("-inf"), tl.float32)     # of gates in each row, or of b at the end
    halves, fars = 0, 0             # parts whose halves have an m each, or blocks
    if beta is not None:
        weight = tlx.local_alloc((C, ), tl.float32, 1)
        tlx.local_store(weight[0], betas_of(numbers_of(beta, place), place.there, MAKING))
    for number in tl.range(0, K // COLUMNS, num_stages=1):
        part, at = part_of(chunk, number, maker, rows), place.number * (C * K) + number * COLUMNS
        tlx.barrier_wait(chunk.filled[number], 0)
        if bounds is not None and beta is not None:
            largest = tl.maximum(largest, largest_in_rows(part))
        outputs = Outputs(None if q is None else q_out + at, None if beta is None else k_out + at, w_out + at, K)
        way, end = gated(part, chunk.numbers[number], last + place.number * K + number * COLUMNS, outputs)
        halves |= tl.where(way == 1, 1, 0) << number
        fars |= tl.where(way == 2, 1, 0) << number
        if bounds is not None and beta is None:
            largest = tl.maximum(largest, tl.max(end, 0))
    of_queries, of_keys = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    if fars == 0:
        of_queries, of_keys = by_halves(chunk, halves, of_queries, of_keys, maker, rows, K)
    else:
        tlx.fence("async_shared")       # rows come again into places that threads have written
        begin(q, k, g, chunk, place, K, ALL & ~fars)
        of_queries, of_keys = by_blocks(chunk, fars, of_queries, of_keys, maker, rows, K)
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    if q is not None:
        put_tile(P_out, tlx.require_layout(tl.where(i >= j, of_queries, 0.0), SUM), place)       # as in inverse.py
    if beta is not None:
        put_inverse(T_out, tl.where(i > j, of_keys, 0.0), weight[0], place, chunk.room)
    if bounds is not None:
        total = tl.sum(largest, 0)
        if beta is not None:
            total += growth(diagonal(of_keys), tlx.local_load(weight[0]))
        tl.store(bounds + place.number, total)
