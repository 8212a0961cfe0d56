"""2-simplicial attention for every stride, head dim, group of heads and GPU: plain Triton, an online softmax.

Input: pointers of q, k, v, k2, v2 and o with four strides each, and of lse. Output: o and lse are written. For example:

    grid, args, meta = arguments(q, k, v, k2, v2, o, lse)
    plain_simplicial_attention[grid](*args, **meta)

Program (i, j) computes BM rows of the queries of one KV head: row r is head r % GROUP of query r // GROUP. With a second key fixed,
the queries times that key attend to the keys; the result times the second value is a part of o. With EXACT fp32 products are fp32's
own.
"""

import triton.language as tl

import mimw

LOG2_E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@mimw.jit
def rows_of(base, rows, row_stride, inside, columns, column_stride, D: tl.constexpr):
    """The rows of a matrix that are `inside`, 0 for the others and behind D columns."""
    at = base + rows.to(tl.int64)[:, None] * row_stride + columns.to(tl.int64)[None, :] * column_stride
    return tl.load(at, mask=inside[:, None] & (columns < D)[None, :], other=0.0)


@mimw.jit
def row_of(base, row, row_stride, columns, column_stride, D: tl.constexpr):
    """One row of a matrix, 0 behind D columns."""
    return tl.load(base + row.to(tl.int64) * row_stride + columns.to(tl.int64) * column_stride, mask=columns < D, other=0.0)


@mimw.jit
def plain_simplicial_attention(q, k, v, k2, v2, o, lse, scale, kv_heads, seq_q, seq_k, window, window2, q_b, q_h, q_s, q_d, k_b,
                               k_h, k_s, k_d, v_b, v_h, v_s, v_d, k2_b, k2_h, k2_s, k2_d, v2_b, v2_h, v2_s, v2_d, o_b, o_h,
                               o_s, o_d, GROUP: tl.constexpr, D: tl.constexpr, D_TILE: tl.constexpr, BM: tl.constexpr,
                               BN: tl.constexpr, EXACT: tl.constexpr):
    """o, and the natural logarithms of the softmax's denominators; `scale` is that of the logits times log2(e)."""
    PRECISION: tl.constexpr = "ieee" if EXACT else "tf32"
    batch, shared = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    query, head, inside = row // GROUP, shared * GROUP + row % GROUP, row < seq_q * GROUP
    past = seq_k - seq_q
    position = query + past
    columns = tl.arange(0, D_TILE)
    heads = q + batch * q_b + head[:, None] * q_h
    at = query.to(tl.int64)[:, None] * q_s + columns.to(tl.int64)[None, :] * q_d
    queries = tl.load(heads + at, mask=inside[:, None] & (columns < D)[None, :], other=0.0)
    first, last = past + tl.program_id(0) * BM // GROUP, min(past + (tl.program_id(0) * BM + BM - 1) // GROUP, seq_k - 1)
    k, v, k2, v2 = (k + batch * k_b + shared * k_h, v + batch * v_b + shared * v_h, k2 + batch * k2_b + shared * k2_h,
                    v2 + batch * v2_b + shared * v2_h)

    highest, total = tl.full((BM, ), float("-inf"), tl.float32), tl.zeros((BM, ), tl.float32)
    out = tl.zeros((BM, D_TILE), tl.float32)
    for second in range(max(0, first + 1 - window2), last + 1):
        scaled = (queries * row_of(k2, second, k2_s, columns, k2_d, D)[None, :]).to(queries.dtype)
        seen_second = (second <= position) & (second > position - window2)
        acc, part, shrunk = tl.zeros((BM, D_TILE), tl.float32), tl.zeros((BM, ), tl.float32), tl.full((BM, ), 1.0, tl.float32)
        for start in range(max(0, first + 1 - window), last + 1, BN):
            keys = start + tl.arange(0, BN)
            block = rows_of(k, keys, k_s, keys < seq_k, columns, k_d, D)
            logits = tl.dot(scaled, tl.trans(block), input_precision=PRECISION) * scale
            seen = (keys[None, :] <= position[:, None]) & (keys[None, :] > position[:, None] - window) & seen_second[:, None]
            logits = tl.where(seen, logits, float("-inf"))
            before, highest = highest, tl.maximum(highest, tl.max(logits, 1))
            base = tl.where(highest == float("-inf"), 0.0, highest)
            p, shrink = tl.exp2(logits - base[:, None]), tl.exp2(before - base)
            part, shrunk = part * shrink + tl.sum(p, 1), shrunk * shrink
            block = rows_of(v, keys, v_s, keys < seq_k, columns, v_d, D)
            acc = tl.dot(p.to(block.dtype), block, acc * shrink[:, None], input_precision=PRECISION)
        value = row_of(v2, second, v2_s, columns, v2_d, D).to(tl.float32)
        out, total = out * shrunk[:, None] + acc * value[None, :], total * shrunk + part
    out = out / tl.where(total == 0.0, 1.0, total)[:, None]
    at = query.to(tl.int64)[:, None] * o_s + columns.to(tl.int64)[None, :] * o_d
    tl.store(o + batch * o_b + head[:, None] * o_h + at, out.to(o.dtype.element_ty), mask=inside[:, None] & (columns < D)[None, :])
    line = (batch * kv_heads * GROUP + head) * seq_q + query
    tl.store(lse + line, (highest + tl.log2(total)) * LN2, mask=inside)
