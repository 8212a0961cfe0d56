"""What each chunk needs of its own keys and gates, in plain Triton: one program a chunk and head.

Input: pointers of k, g and beta, and the table of chunks. Output: b and T of each chunk (see __init__.py):

    prepare[(chunks, HV)](k, g, beta, b, T, table, problem, ...)

Rows behind the end of a sequence have the last b, and zeros in T. Gates are one a head; by_key.py has those of keys' columns.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .forgotten import growth
from .inverse import inverse
from .nouns import CHUNK_FIELDS, C

LOG2_E = tl.constexpr(1.4426950408889634)


@tle.struct
class Place:
    """A chunk of a head: which of its rows are there; the first one's number among all rows of v's heads, and of k's, and the step
    from there to the next row; the number among all chunks of all heads."""

    there: Any
    of_value: Any
    of_key: Any
    HV: Any
    H: Any
    number: Any


@mimw.jit
def place_of(table, problem):
    """The chunk and head of this program."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    at = table + chunk * CHUNK_FIELDS
    first = tl.load(at)
    there = first + tl.arange(0, C) < tl.load(at + 1)
    of_key = first.to(tl.int64) * problem.H + head // (problem.HV // problem.H)
    of_value, number = first.to(tl.int64) * problem.HV + head, chunk.to(tl.int64) * problem.HV + head
    return Place(there, of_value, of_key, problem.HV, problem.H, number)


@mimw.jit
def numbers_of(tensor, place):
    """A number of each row, of v's heads, in fp32; zeros where there is no row."""
    return tl.load(tensor + place.of_value + tl.arange(0, C) * place.HV, mask=place.there, other=0.0).to(tl.float32)


@mimw.jit
def keys_of(tensor, place, column, K: tl.constexpr, COLUMNS: tl.constexpr):
    """COLUMNS columns from `column` on of a chunk's rows of q or k; zeros where there are none."""
    at = tl.arange(0, C)[:, None] * (place.H * K) + tl.arange(0, COLUMNS)[None, :]
    return tl.load(tensor + (place.of_key * K + column) + at, mask=place.there[:, None], other=0.0)


@mimw.jit
def put_tile(tensor, tile, place):
    """A [C, C] tile of the chunk and head."""
    at = tl.arange(0, C)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(tensor + place.number * (C * C) + at, tile.to(tensor.dtype.element_ty))


@mimw.jit
def between(b, DIAGONAL: tl.constexpr):
    """e^(b_i - b_j) for j < i, 1 on the DIAGONAL, if that is wanted, else 0."""
    b = b * LOG2_E
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return tl.exp2(tl.where(i >= j if DIAGONAL else i > j, b[:, None] - b[None, :], float("-inf")))


@mimw.jit
def put_inverse(T_out, A, weight, place):
    """T of A, strictly lower triangular, but without the factor `weight`, beta."""
    put_tile(T_out, inverse(A * weight[:, None]) * weight[None, :], place)


@mimw.jit
def diagonal(tile):
    """Of a [C, C] tile."""
    return tl.sum(tl.where(tl.arange(0, C)[:, None] == tl.arange(0, C)[None, :], tile, 0.0), 1)


@mimw.jit
def prepare(k, g, beta, b_out, T_out, bounds, table, problem, K: tl.constexpr):
    """b and T of a chunk and head, and the bound of its transition (forgotten.py); T only with beta, b and the bound only with
    g."""
    place = place_of(table, problem)
    if g is not None:
        b = tl.cumsum(numbers_of(g, place), 0)
        tl.store(b_out + place.number * C + tl.arange(0, C), b)
        bound = tl.sum(numbers_of(g, place), 0)
    if beta is not None:
        keys = keys_of(k, place, 0, K, K)
        products, weight = tl.dot(keys, tl.trans(keys)), numbers_of(beta, place)
        if bounds is not None:
            bound += growth(diagonal(products), weight)
        if g is not None:
            products *= between(b, False)
        else:
            products = tl.where(tl.arange(0, C)[:, None] > tl.arange(0, C)[None, :], products, 0.0)
        put_inverse(T_out, products, weight, place)
    if bounds is not None:
        tl.store(bounds + place.number, bound)
