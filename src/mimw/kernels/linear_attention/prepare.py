"""What each chunk needs of its own keys and gates, in plain Triton: one program a chunk and head.

Input: pointers of k, g and beta, and the table of chunks. Output: b and T of each chunk (see __init__.py):

    prepare[(chunks, HV)](k, g, beta, b, T, table, problem, ...)

Rows behind the end of a sequence have the last b, and zeros in T. Gates are one a head; by_key.py has those of keys' columns.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .inverse import inverse
from .nouns import CHUNK_FIELDS, C

LOG2_E = tl.constexpr(1.4426950408889634)


@tle.struct
class Place:
    """A chunk of a head: which of its rows are there, their numbers among all of v's heads, and of k's; its number among all chunks of
    all heads; and the offsets of its [C, C] tile."""

    there: Any
    line: Any
    of_key: Any
    number: Any
    tile: Any


@mimw.jit
def place_of(table, problem):
    """The chunk and head of this program."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    at = table + chunk * CHUNK_FIELDS
    row = tl.load(at) + tl.arange(0, C)
    line = row.to(tl.int64)
    number = chunk.to(tl.int64) * problem.HV + head
    tile = number * (C * C) + tl.arange(0, C)[:, None] * C + tl.arange(0, C)[None, :]
    return Place(row < tl.load(at + 1), line * problem.HV + head, line * problem.H + head // (problem.HV // problem.H), number, tile)


@mimw.jit
def rows_of(tensor, row, there, WIDTH: tl.constexpr):
    """The rows of these numbers of a tensor, WIDTH columns each; zeros where there are none."""
    return tl.load(tensor + row[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], mask=there[:, None], other=0.0)


@mimw.jit
def between(b):
    """e^(b_i - b_j) for j <= i, else 0."""
    b = b * LOG2_E
    return tl.exp2(tl.where(tl.arange(0, C)[:, None] >= tl.arange(0, C)[None, :], b[:, None] - b[None, :], float("-inf")))


@mimw.jit
def put_inverse(T_out, A, beta, place):
    """T of A without beta's factor."""
    weight = tl.load(beta + place.line, mask=place.there, other=0.0).to(tl.float32)
    below = tl.arange(0, C)[:, None] > tl.arange(0, C)[None, :]
    T = inverse(tl.where(below, A * weight[:, None], 0.0)) * weight[None, :]
    tl.store(T_out + place.tile, T.to(T_out.dtype.element_ty))


@mimw.jit
def prepare(k, g, beta, b_out, T_out, table, problem, K: tl.constexpr):
    """b and T of a chunk and head; T only with beta, b only with g."""
    place = place_of(table, problem)
    if g is not None:
        b = tl.cumsum(tl.load(g + place.line, mask=place.there, other=0.0).to(tl.float32), 0)
        tl.store(b_out + place.number * C + tl.arange(0, C), b)
    if beta is not None:
        keys = rows_of(k, place.of_key, place.there, K)
        products = tl.dot(keys, tl.trans(keys))
        if g is not None:
            products *= between(b)
        put_inverse(T_out, products, beta, place)
