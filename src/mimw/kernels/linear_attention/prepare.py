"""What each chunk needs of its own keys, queries and gates, in plain Triton: one program a chunk and head.

Input: pointers of q, k, g and beta, and the table of chunks. Output: b, T and P of each chunk (see __init__.py):

    prepare[(chunks, HV)](q, k, g, beta, b, T, P, table, problem, ...)

Rows behind the end of a sequence have the last b, and zeros in T and P.
"""

import triton.language as tl

import mimw

from .inverse import inverse
from .nouns import CHUNK_FIELDS, C

LOG2_E = tl.constexpr(1.4426950408889634)


@mimw.jit
def rows_of(tensor, row, there, WIDTH: tl.constexpr):
    """The rows at these offsets of a tensor, WIDTH columns each; zeros where there are none."""
    return tl.load(tensor + row[:, None] + tl.arange(0, WIDTH)[None, :], mask=there[:, None], other=0.0)


@mimw.jit
def prepare(q, k, g, beta, b_out, T_out, P_out, table, problem, K: tl.constexpr, PRECISION: tl.constexpr):
    """b, T and P of a chunk and head; T only with beta, b only with g."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    at = table + chunk * CHUNK_FIELDS
    batch, first, end = tl.load(at), tl.load(at + 1), tl.load(at + 2)
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    row = first + tl.arange(0, C)
    there = row < end
    line = batch.to(tl.int64) * problem.T + row
    place = chunk.to(tl.int64) * problem.HV + head
    tile = place * (C * C) + i * C + j
    of_key = (line * problem.H + head // (problem.HV // problem.H)) * K

    between = tl.where(i >= j, 1.0, 0.0)
    if g is not None:
        b = tl.cumsum(tl.load(g + line * problem.HV + head, mask=there, other=0.0).to(tl.float32), 0)
        tl.store(b_out + place * C + tl.arange(0, C), b)
        between = tl.exp2(tl.where(i >= j, (b[:, None] - b[None, :]) * LOG2_E, float("-inf")))
    keys = rows_of(k, of_key, there, K)
    if P_out is not None:
        scores = tl.dot(rows_of(q, of_key, there, K), tl.trans(keys)) * between
        tl.store(P_out + tile, scores.to(P_out.dtype.element_ty))
    if beta is not None:
        weight = tl.load(beta + line * problem.HV + head, mask=there, other=0.0).to(tl.float32)
        A = tl.where(i > j, tl.dot(keys, tl.trans(keys)) * between, 0.0) * weight[:, None]
        tl.store(T_out + tile, (inverse(A, PRECISION) * weight[None, :]).to(T_out.dtype.element_ty))
