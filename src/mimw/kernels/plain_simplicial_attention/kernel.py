"""2-simplicial attention for every stride, head dim, group of heads and GPU: plain Triton, an online softmax.

Input: pointers of q, k, v, k2, v2, o and lse, and nouns of a launch (nouns.py). Output: o and lse are written. For example:

    grid, args, meta = arguments(q, k, v, k2, v2, o, lse)
    plain_simplicial_attention[grid](*args, **meta)

Program (i, j) computes BM rows of the queries of one KV head: row r is head r % GROUP of query r // GROUP. With a second key fixed,
the queries times that key attend to the keys; the result times the second value is a part of o. With EXACT fp32 products are fp32's
own.
"""

import triton.language as tl

import mimw

from ..plain_attention.nouns import matrix_of
from ..plain_attention.scores import LN2, exponents
from .nouns import positions, row_of, rows_of, seen_of


@mimw.jit
def plain_simplicial_attention(q, k, v, k2, v2, o, lse, problem, steps, FORM: tl.constexpr):
    """o, and the natural logarithms of the softmax's denominators."""
    TF32: tl.constexpr = not FORM.EXACT
    D: tl.constexpr = FORM.D
    kv_heads, seq_q, seq_k = problem.kv_heads, problem.seq_q, problem.seq_k
    batch, shared = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    row = tl.program_id(0) * FORM.BM + tl.arange(0, FORM.BM)
    query, head, inside = row // FORM.GROUP, shared * FORM.GROUP + row % FORM.GROUP, row < seq_q * FORM.GROUP
    past = seq_k - seq_q
    position = query + past
    columns = tl.arange(0, FORM.D_TILE)
    heads = q + batch * steps.q.batch + head[:, None] * steps.q.head
    at = query.to(tl.int64)[:, None] * steps.q.row + columns.to(tl.int64)[None, :] * steps.q.column
    queries = tl.load(heads + at, mask=inside[:, None] & (columns < D)[None, :], other=0.0)
    first, last = positions(past, problem, FORM)
    keys_in, values_in = matrix_of(k, steps.k, batch, shared, seq_k, D), matrix_of(v, steps.v, batch, shared, seq_k, D)
    seconds, second_values = matrix_of(k2, steps.k2, batch, shared, seq_k, D), matrix_of(v2, steps.v2, batch, shared, seq_k, D)

    highest, total = tl.full((FORM.BM, ), float("-inf"), tl.float32), tl.zeros((FORM.BM, ), tl.float32)
    out = tl.zeros((FORM.BM, FORM.D_TILE), tl.float32)
    for second in range(max(0, first + 1 - problem.window2), last + 1):
        scaled = (queries * row_of(seconds, second, columns)[None, :]).to(queries.dtype)
        seen_second = (second <= position) & (second > position - problem.window2)
        acc, part = tl.zeros((FORM.BM, FORM.D_TILE), tl.float32), tl.zeros((FORM.BM, ), tl.float32)
        shrunk = tl.full((FORM.BM, ), 1.0, tl.float32)
        for start in range(max(0, first + 1 - problem.window), last + 1, FORM.BN):
            keys = start + tl.arange(0, FORM.BN)
            block = rows_of(keys_in, keys, columns)
            logits = tl.dot(scaled, tl.trans(block), allow_tf32=TF32) * problem.scale
            seen = seen_of(keys, position, problem.window) & seen_second[:, None]
            p, highest, shrink = exponents(tl.where(seen, logits, float("-inf")), highest)
            part, shrunk = part * shrink + tl.sum(p, 1), shrunk * shrink
            block = rows_of(values_in, keys, columns)
            acc = tl.dot(p.to(block.dtype), block, acc * shrink[:, None], allow_tf32=TF32)
        value = row_of(second_values, second, columns).to(tl.float32)
        out, total = out * shrunk[:, None] + acc * value[None, :], total * shrunk + part
    out = out / tl.where(total == 0.0, 1.0, total)[:, None]
    at = query.to(tl.int64)[:, None] * steps.o.row + columns.to(tl.int64)[None, :] * steps.o.column
    tl.store(o + batch * steps.o.batch + head[:, None] * steps.o.head + at, out.to(o.dtype.element_ty),
             mask=inside[:, None] & (columns < D)[None, :])
    line = (batch * kv_heads * FORM.GROUP + head) * seq_q + query
    tl.store(lse + line, (highest + tl.log2(total)) * LN2, mask=inside)
