"""What each chunk needs of its own keys, queries and gates, in plain Triton: one program a chunk and head.

Input: pointers of q, k, g and beta, and the table of chunks. Output: b, T and P of each chunk (see __init__.py):

    prepare[(chunks, HV)](q, k, g, beta, b, T, P, table, problem, ...)

Rows behind the end of a sequence have the last b, and zeros in T and P. Gates are one a head; by_key.py has those of keys' columns.
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
    row = tl.load(at + 1) + tl.arange(0, C)
    line = tl.load(at).to(tl.int64) * problem.T + row
    number = chunk.to(tl.int64) * problem.HV + head
    tile = number * (C * C) + tl.arange(0, C)[:, None] * C + tl.arange(0, C)[None, :]
    return Place(row < tl.load(at + 2), line * problem.HV + head, line * problem.H + head // (problem.HV // problem.H), number, tile)


@mimw.jit
def rows_of(tensor, row, there, WIDTH: tl.constexpr):
    """The rows of these numbers of a tensor, WIDTH columns each; zeros where there are none."""
    return tl.load(tensor + row[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], mask=there[:, None], other=0.0)


@mimw.jit
def put_inverse(T_out, A, beta, place):
    """T of A without beta's factor."""
    weight = tl.load(beta + place.line, mask=place.there, other=0.0).to(tl.float32)
    below = tl.arange(0, C)[:, None] > tl.arange(0, C)[None, :]
    T = inverse(tl.where(below, A * weight[:, None], 0.0)) * weight[None, :]
    tl.store(T_out + place.tile, T.to(T_out.dtype.element_ty))


@mimw.jit
def prepare(q, k, g, beta, b_out, T_out, P_out, table, problem, K: tl.constexpr):
    """b, T and P of a chunk and head; T only with beta, b only with g, P only with q."""
    place = place_of(table, problem)
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    between = tl.where(i >= j, 1.0, 0.0)
    if g is not None:
        b = tl.cumsum(tl.load(g + place.line, mask=place.there, other=0.0).to(tl.float32), 0)
        tl.store(b_out + place.number * C + tl.arange(0, C), b)
        b *= LOG2_E
        between = tl.exp2(tl.where(i >= j, b[:, None] - b[None, :], float("-inf")))
    keys = rows_of(k, place.of_key, place.there, K)
    if q is not None:
        scores = tl.dot(rows_of(q, place.of_key, place.there, K), tl.trans(keys)) * between
        tl.store(P_out + place.tile, scores.to(P_out.dtype.element_ty))
    if beta is not None:
        put_inverse(T_out, tl.dot(keys, tl.trans(keys)) * between, beta, place)
