"""What each chunk needs of its own keys and gates: one program of 4 warps a chunk and head.

Input: a map of k that ends with each sequence (attention_varlen/maps.py), K / 2 columns at a time; pointers of g and beta, and the
table of chunks. Output: b, T and factors of each chunk (see __init__.py):

    prepare[(chunks * HV, )](k, g, beta, parameters, b, factors, T, bounds, table, problem, ...)

Rows behind the end of a sequence have the last b, and zeros in T. Gates are one a head; by_key.py has those of keys' columns.
Gates and betas may be raw (gates.py). With factors keys are to be divided by their norms. All that is made of them is linear in
each, and their squares are the diagonal of the products that A needs anyway: so keys stay as they are, and products and gates get
the norms, as powers of 2 like gates.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_varlen.maps import FAR as END
from .forgotten import growth
from .gates import LOG2_E, betas_of, gates_of, maker_of
from .inverse import OF_COLUMNS, OF_ROWS, inverse, of_room, room_of
from .nouns import CHUNK_FIELDS, C

EPSILON = tl.constexpr(1e-6)    # of the L2 norm, as fla has it
FACTORS = tl.constexpr(4)       # of a row of keys: see `put_factors`
LEAST = tl.constexpr(-128.0)    # e^-128 is 0 in fp32, as it is of less, whose sums would have no digits for other gates


@tle.struct
class Place:
    """A chunk of a head of v: its first row, and the end of its sequence; the head, and that of k; which of its rows are there; the
    first one's number among all rows of v's heads, and the step to the next one; the number among all chunks of all heads."""

    first: Any
    end: Any
    head: Any
    of_key: Any
    there: Any
    of_value: Any
    HV: Any
    number: Any


@mimw.jit
def place_of(table, problem):
    """The chunk and head of this program. Heads of a chunk come one behind the other, as they lie in memory."""
    number = tl.program_id(0)
    chunk, head = number // problem.HV, number % problem.HV
    first, end = tl.load(table + chunk * CHUNK_FIELDS), tl.load(table + chunk * CHUNK_FIELDS + 1)
    of_value, of_key = first.to(tl.int64) * problem.HV + head, head // (problem.HV // problem.H)
    return Place(first, end, head, of_key, first + tl.arange(0, C) < end, of_value, problem.HV, number.to(tl.int64))


@mimw.jit
def numbers_of(tensor, place):
    """A number of each row, of v's heads, in fp32; zeros where there is no row."""
    return tl.load(tensor + place.of_value + tl.arange(0, C) * place.HV, mask=place.there, other=0.0).to(tl.float32)


@mimw.jit
def gates_of_head(g, place, maker):
    """The gates of all rows, by a maker if they are raw; 0 where there is no row."""
    if maker is None:
        return numbers_of(g, place)
    else:
        bias = None
        if maker.bias is not None:
            bias = tl.load(maker.bias).to(tl.float32)
        return tl.where(place.there, gates_of(numbers_of(g, place), bias, maker), 0.0)


@mimw.jit
def bring(desc, buffer, place, head, column: tl.constexpr, filled):
    """Columns from `column` on, as many as `buffer` has, of a chunk's rows of a head, on their way; zeros where there is no row."""
    at = [END, place.end, head, END - (place.end - place.first), column]
    tlx.async_descriptor_load(desc, tlx.local_reshape(buffer, [1, 1, 1, C, buffer.shape[1]]), at, filled)


@mimw.jit
def put_tile(tensor, tile, place):
    """A [C, C] tile of the chunk and head."""
    at = tl.arange(0, C)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(tensor + place.number * (C * C) + at, tile.to(tensor.dtype.element_ty))


@mimw.jit
def between(b, DIAGONAL: tl.constexpr):
    """e^(b_i - b_j) for j < i, 1 on the DIAGONAL, if that is wanted, else 0."""
    b = b * LOG2_E
    return differences(b, b, DIAGONAL)


@mimw.jit
def differences(of_rows, of_columns, DIAGONAL: tl.constexpr):
    """The same, of b in powers of 2, in registers for rows and for columns."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return tl.exp2(tl.where(i >= j if DIAGONAL else i > j, of_rows[:, None] - of_columns[None, :], float("-inf")))


@mimw.jit
def decayed(products, of_rows, of_columns, DIAGONAL: tl.constexpr):
    """Products times these. What is decayed to 0 is 0, also where it is not finite: rows whose squares overflow count as 0."""
    decay = differences(of_rows, of_columns, DIAGONAL)
    return tl.where(decay == 0.0, 0.0, products * decay)


@mimw.jit
def put_inverse(T_out, A, weight, place, room):
    """T of A, strictly lower triangular, but without the factor `weight`, beta, a buffer."""
    T = inverse(A * tlx.local_load(weight, layout=OF_ROWS)[:, None], room)
    put_tile(T_out, T * tlx.local_load(weight, layout=OF_COLUMNS)[None, :], place)


@mimw.jit
def diagonal(tile):
    """Of a [C, C] tile."""
    return tl.sum(tl.where(tl.arange(0, C)[:, None] == tl.arange(0, C)[None, :], tile, 0.0), 1)


@mimw.jit
def shrink_of(squares):
    """The power of 2 by which a row is divided by its norm."""
    return -0.5 * tl.log2(squares + EPSILON)


@mimw.jit
def put_factors(factors, b, last, shrink, place):
    """Of rows of keys, by b, that of the last row, and the norm's factor, as powers of 2: what they are multiplied by where the
    state is read, and where it is written; the power of 2 that P takes off its columns; and b."""
    at = factors + place.number * (FACTORS * C) + tl.arange(0, C)
    tl.store(at, tl.exp2(b + shrink))
    tl.store(at + C, tl.exp2(last - b + shrink))
    tl.store(at + 2 * C, b - shrink)
    tl.store(at + 3 * C, b + tl.zeros((C, ), tl.float32))


@mimw.jit
def divided(products, shrink, b):
    """Products of keys, below the diagonal, as of keys divided by their norms; and with decays by b, unless that is None. Both are
    buffers."""
    of_rows, of_columns = tlx.local_load(shrink, layout=OF_ROWS), -tlx.local_load(shrink, layout=OF_COLUMNS)
    if b is not None:
        of_rows += tlx.local_load(b, layout=OF_ROWS)
        of_columns += tlx.local_load(b, layout=OF_COLUMNS)
    return decayed(products, of_rows, of_columns, False)


@mimw.jit
def prepare(k, g, beta, parameters, b_out, factors, T_out, bounds, table, problem, K: tl.constexpr, MAKING: tl.constexpr):
    """b and T of a chunk and head, and the bound of its transition (forgotten.py); T only with beta, b and the bound only with
    g, factors only where keys are to be divided by their norms."""
    place = place_of(table, problem)
    if k is not None:
        both, filled = tlx.storage_alias_spec(), tlx.alloc_barriers(1)
        keys, room = tlx.local_alloc((C, K // 2), tlx.dtype_of(k), 2, reuse=both), room_of(both)
        both.set_buffer_overlap(tlx.reuse_group(keys, of_room(room)))       # which are read when the inverse begins
        tlx.barrier_expect_bytes(filled[0], C * K * tlx.size_of(tlx.dtype_of(k)))
        bring(k, keys[0], place, place.of_key, 0, filled[0])
        bring(k, keys[1], place, place.of_key, K // 2, filled[0])
        numbers = tlx.local_alloc((C, ), tl.float32, 2 if factors is None else 3)   # b, beta, and powers of 2 of norms
        if beta is not None:
            tlx.local_store(numbers[1], betas_of(numbers_of(beta, place), place.there, MAKING))
    if g is not None:
        gates = gates_of_head(g, place, maker_of(parameters, place.head, 1, MAKING))
        gates = tl.where(gates < LEAST, LEAST, gates)
        b = tl.cumsum(gates, 0)
        tl.store(b_out + place.number * C + tl.arange(0, C), b)
        total = tl.sum(gates, 0)
    if k is not None:
        sums, last = 0.0, 0.0
        if g is not None:
            sums = b * LOG2_E
            tlx.local_store(numbers[0], sums)
        tlx.barrier_wait(filled[0], 0)
        products = tl.dot(tlx.local_load(keys[0]), tl.trans(tlx.local_load(keys[0])))
        products = tl.dot(tlx.local_load(keys[1]), tl.trans(tlx.local_load(keys[1])), products)
        squares = diagonal(products)
        if factors is not None:
            shrink = shrink_of(squares)
            tlx.local_store(numbers[2], shrink)
            if g is not None:
                last = tlx.local_load(tlx.local_slice(numbers[0], [C - 1], [1]))
            put_factors(factors, sums, last, tlx.local_load(numbers[2]), place)
            squares *= tl.exp2(2.0 * shrink)
        if beta is not None:
            if bounds is not None:
                total += growth(squares, tlx.local_load(numbers[1]))
            if factors is not None:
                products = divided(products, numbers[2], numbers[0] if g is not None else None)
            elif g is not None:
                of_rows, of_columns = tlx.local_load(numbers[0], layout=OF_ROWS), tlx.local_load(numbers[0], layout=OF_COLUMNS)
                products *= differences(of_rows, of_columns, False)
            else:
                products = tl.where(tl.arange(0, C)[:, None] > tl.arange(0, C)[None, :], products, 0.0)
            put_inverse(T_out, products, numbers[1], place, room)
    if bounds is not None:
        tl.store(bounds + place.number, total)
