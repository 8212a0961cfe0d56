"""What each chunk needs of its own keys, queries and gates, where every column of the keys has gates of its own.

Input: pointers of q, k, g and beta, and the table of chunks. Output: T and P of each chunk, its last b, and its rows of q and k
with their gates (see __init__.py):

    prepare_by_key[(chunks, HV)](q, k, g, beta, last, T, P, decayed, table, problem, ...)

e^(b_i - b_j) is a product e^(b_i - m) e^(m - b_j) with a row's b for m, so that a tensor core sums over columns. Where, in COLUMNS
columns, no b of a chunk is farther than FAR from that of its middle row, m is that row's, for the whole chunk. Elsewhere each
block of 16 rows has its own m, and gates count as FLOOR at least, since e^(m - b_j) overflows otherwise: by that, and by what
underflows, an element of P, or of A, is wrong by at most 8e-5 of the lengths of q_i and k_j, a fiftieth of what bf16 rounds.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .forgotten import growth
from .nouns import C
from .prepare import LOG2_E, diagonal, keys_of, numbers_of, place_of, put_inverse, put_tile

BLOCK = tl.constexpr(16)
COLUMNS = tl.constexpr(64)      # of keys at a time, for want of registers
FAR = tl.constexpr(80.0 * 1.4426950408889634)       # in powers of 2: e^80 and its sums are finite in bf16 and fp32
FLOOR = tl.constexpr(-9.5 * 1.4426950408889634)


@tle.struct
class Decayed:
    """Pointers [NT, HV, C, K]: q e^b, k e^b and k e^(b_C - b), None for what a call does without."""

    q: Any
    k: Any
    w: Any


@mimw.jit
def row_at(tile, number):
    """Row `number` of a tile, as a tile of one row."""
    return tl.sum(tl.where(tl.arange(0, tile.shape[0])[:, None] == number, tile, 0.0), 0)[None, :]


@mimw.jit
def products(queries, keys, rise, fall, TYPE: tl.constexpr):
    """(q k^T, k k^T) of rows times e^(b - m) and of rows times e^(m - b); None for q without one."""
    right = tl.trans((keys * fall).to(TYPE))
    of_keys = tl.dot((keys * rise).to(TYPE), right)
    if queries is None:
        return of_keys, of_keys
    else:
        return tl.dot((queries * rise).to(TYPE), right), of_keys


@mimw.jit
def weighed(queries, keys, g, b, TYPE: tl.constexpr):
    """(q_i . e^(b_i - b_j) k_j, the same of k_i) for j <= i; anything elsewhere."""
    middle = row_at(b, C // 2)
    if tl.max(tl.abs(b - middle)) <= FAR:
        of_queries, of_keys = products(queries, keys, tl.exp2(b - middle), tl.exp2(middle - b), TYPE)
    else:
        row, b = tl.arange(0, C)[:, None], tl.cumsum(tl.maximum(g, FLOOR), 0)
        of_queries, of_keys = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
        for block in range(C // BLOCK):
            middle = row_at(b, block * BLOCK + BLOCK // 2)
            mine = row // BLOCK == block
            rise = tl.exp2(tl.where(mine, b - middle, float("-inf")))
            fall = tl.exp2(tl.where(row < (block + 1) * BLOCK, middle - b, float("-inf")))
            more, of_more = products(queries, keys, rise, fall, TYPE)
            of_queries, of_keys = of_queries + more, of_keys + of_more
    return of_queries, of_keys


@mimw.jit
def gates_of(g, place, column, K: tl.constexpr):
    """The logarithms to base 2 of COLUMNS columns of a chunk's gates; zeros where there is no row."""
    at = tl.arange(0, C)[:, None] * (place.HV * K) + tl.arange(0, COLUMNS)[None, :]
    gates = tl.load(g + (place.of_value * K + column) + at, mask=place.there[:, None], other=0.0)
    return gates.to(tl.float32) * LOG2_E


@mimw.jit
def put_columns(tensor, tile, place, column, K: tl.constexpr):
    """Stores COLUMNS columns of a chunk's rows with gates."""
    at = tl.arange(0, C)[:, None] * K + tl.arange(0, COLUMNS)[None, :]
    tl.store(tensor + (place.number * (C * K) + column) + at, tile.to(tensor.dtype.element_ty))


@mimw.jit
def prepare_by_key(q, k, g, beta, last, T_out, P_out, q_out, k_out, w_out, bounds, table, problem, K: tl.constexpr):
    """T, P, the last b, rows with gates and the bound of a chunk and head (forgotten.py); T and k_out only with beta, P and q_out
    only with q."""
    place = place_of(table, problem)
    TYPE: tl.constexpr = tl.bfloat16 if k.dtype.element_ty == tl.bfloat16 else tl.float32     # fp16 does not hold e^FAR
    of_queries, of_keys = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    largest = tl.full((C if beta is not None else 1, ), float("-inf"), tl.float32)     # of gates in each row, or of b at the end
    for column in tl.range(0, K, COLUMNS, num_stages=1):
        gates = gates_of(g, place, column, K)
        b = tl.cumsum(gates, 0)
        keys, queries = keys_of(k, place, column, K, COLUMNS).to(tl.float32), None
        if q is not None:
            queries = keys_of(q, place, column, K, COLUMNS).to(tl.float32)
        end = row_at(b, C - 1)
        largest = tl.maximum(largest, tl.max(gates if beta is not None else end, 1))
        tl.store(last + place.number * K + column + tl.arange(0, COLUMNS)[None, :], end * (1 / LOG2_E))
        put_columns(w_out, keys * tl.exp2(end - b), place, column, K)
        if beta is not None:
            put_columns(k_out, keys * tl.exp2(b), place, column, K)
        if q is not None:
            put_columns(q_out, queries * tl.exp2(b), place, column, K)
        more, of_more = weighed(queries, keys, gates, b, TYPE)
        of_queries, of_keys = of_queries + more, of_keys + of_more
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    if q is not None:
        put_tile(P_out, tl.where(i >= j, of_queries, 0.0), place)
    bound = tl.sum(largest, 0) * (1 / LOG2_E)
    if beta is not None:
        weight = numbers_of(beta, place)
        bound += growth(diagonal(of_keys), weight)
        put_inverse(T_out, tl.where(i > j, of_keys, 0.0), weight, place)
    if bounds is not None:
        tl.store(bounds + place.number, bound)
