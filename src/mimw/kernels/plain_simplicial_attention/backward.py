"""Gradients of 2-simplicial attention for every stride, head dim, group of heads and GPU: plain Triton.

Input: q, k, v, k2, v2 and do, and of each row of queries the logarithm lse of its denominator and delta = sum(o do) - dlse. Output:
dq by `of_queries`; dk and dv by `of_keys`, with dk2 and dv2, which it adds up by atomics. For example:

    for kernel, grid, args, meta in gradient_arguments(q, k, v, k2, v2, do, lse, delta, dq, dk, dv, dk2, dv2):
        kernel[grid](*args, **meta)

With p the probabilities of pairs (j, k) and ds = p (sum_d do_d v_jd v2_kd - delta), a second key k fixed, and all in matrices:

    x = ds K                dq += x k2_k
    u = p^T do              dv += u v2_k        dv2_k = sum over keys of v u
    w = ds^T q              dk += w k2_k        dk2_k = sum over keys of k w

So what a second key scales is scaled once for all keys of a window (`of_queries`), or for all queries that see it (`of_keys`). The
kernels make three and four products for each pair; the two of the logits and of the probabilities' gradients are made twice.
"""

import triton.language as tl

import mimw

from .kernel import LOG2_E, row_of, rows_of


@mimw.jit
def row_tile(row, past, steps, columns, seq_q, first_head, q, do, lse, delta, GROUP: tl.constexpr, D: tl.constexpr):
    """(queries, their do, lse times log2(e), delta, positions, which rows there are) of rows of a KV head's queries."""
    q_h, q_s, q_d, do_h, do_s, do_d = steps
    query, head, inside = row // GROUP, (first_head + row % GROUP).to(tl.int64), row < seq_q * GROUP
    mask = inside[:, None] & (columns < D)[None, :]
    place, column = query.to(tl.int64)[:, None], columns.to(tl.int64)[None, :]
    queries = tl.load(q + head[:, None] * q_h + place * q_s + column * q_d, mask=mask, other=0.0)
    gradient = tl.load(do + head[:, None] * do_h + place * do_s + column * do_d, mask=mask, other=0.0)
    line = head * seq_q + query
    logarithm = tl.load(lse + line, mask=inside, other=float("inf")) * LOG2_E
    return queries, gradient, logarithm, tl.load(delta + line, mask=inside, other=0.0), query + past, inside


@mimw.jit
def of_queries(q, k, v, k2, v2, do, lse, delta, dq, scale, kv_heads, seq_q, seq_k, window, window2, q_b, q_h, q_s, q_d, k_b, k_h,
               k_s, k_d, v_b, v_h, v_s, v_d, k2_b, k2_h, k2_s, k2_d, v2_b, v2_h, v2_s, v2_d, do_b, do_h, do_s, do_d,
               GROUP: tl.constexpr, D: tl.constexpr, D_TILE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, EXACT: tl.constexpr):
    """dq, (batch, heads, seq_q, D) contiguous, of BM rows of a KV head's queries."""
    PRECISION: tl.constexpr = "ieee" if EXACT else "tf32"
    batch, shared = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    columns, past = tl.arange(0, D_TILE), seq_k - seq_q
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    steps, lines = (q_h, q_s, q_d, do_h, do_s, do_d), batch * kv_heads * GROUP * seq_q
    queries, gradient, logarithm, less, position, inside = row_tile(
        row, past, steps, columns, seq_q, shared * GROUP, q + batch * q_b, do + batch * do_b, lse + lines, delta + lines, GROUP, D)
    first, last = past + tl.program_id(0) * BM // GROUP, min(past + (tl.program_id(0) * BM + BM - 1) // GROUP, seq_k - 1)
    k, v, k2, v2 = (k + batch * k_b + shared * k_h, v + batch * v_b + shared * v_h, k2 + batch * k2_b + shared * k2_h,
                    v2 + batch * v2_b + shared * v2_h)
    sums = tl.zeros((BM, D_TILE), tl.float32)
    for second in range(max(0, first + 1 - window2), last + 1):
        key2 = row_of(k2, second, k2_s, columns, k2_d, D)
        scaled = (queries * key2[None, :]).to(queries.dtype)
        weighed = (gradient * row_of(v2, second, v2_s, columns, v2_d, D)[None, :]).to(gradient.dtype)
        seen_second = inside & (second <= position) & (second > position - window2)
        x = tl.zeros((BM, D_TILE), tl.float32)
        for start in range(max(0, first + 1 - window), last + 1, BN):
            keys = start + tl.arange(0, BN)
            block = rows_of(k, keys, k_s, keys < seq_k, columns, k_d, D)
            values = rows_of(v, keys, v_s, keys < seq_k, columns, v_d, D)
            logits = tl.dot(scaled, tl.trans(block), input_precision=PRECISION) * (scale * LOG2_E)
            seen = (keys[None, :] <= position[:, None]) & (keys[None, :] > position[:, None] - window) & seen_second[:, None]
            p = tl.where(seen, tl.exp2(logits - logarithm[:, None]), 0.0)
            ds = p * (tl.dot(weighed, tl.trans(values), input_precision=PRECISION) - less[:, None])
            x = tl.dot(ds.to(block.dtype), block, x, input_precision=PRECISION)
        sums += x * key2.to(tl.float32)[None, :]
    head = (batch * kv_heads + shared) * GROUP + row % GROUP
    to = dq + ((head * seq_q + row // GROUP) * D)[:, None] + columns[None, :]
    tl.store(to, (sums * scale).to(dq.dtype.element_ty), mask=inside[:, None] & (columns < D)[None, :])


@mimw.jit
def of_keys(q, k, v, k2, v2, do, lse, delta, dk, dv, dk2, dv2, scale, kv_heads, seq_q, seq_k, window, window2, q_b, q_h, q_s, q_d,
            k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d, k2_b, k2_h, k2_s, k2_d, v2_b, v2_h, v2_s, v2_d, do_b, do_h, do_s, do_d,
            GROUP: tl.constexpr, D: tl.constexpr, D_TILE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, EXACT: tl.constexpr):
    """dk and dv, (batch, kv_heads, seq_k, D) contiguous, of BN keys; their shares of dk2 and dv2, fp32, are added."""
    PRECISION: tl.constexpr = "ieee" if EXACT else "tf32"
    batch, shared = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    columns, past = tl.arange(0, D_TILE), seq_k - seq_q
    low = tl.program_id(0) * BN
    keys = low + tl.arange(0, BN)
    block = rows_of(k + batch * k_b + shared * k_h, keys, k_s, keys < seq_k, columns, k_d, D)
    values = rows_of(v + batch * v_b + shared * v_h, keys, v_s, keys < seq_k, columns, v_d, D)
    k2, v2 = k2 + batch * k2_b + shared * k2_h, v2 + batch * v2_b + shared * v2_h
    q, do = q + batch * q_b, do + batch * do_b
    steps, lines = (q_h, q_s, q_d, do_h, do_s, do_d), batch * kv_heads * GROUP * seq_q
    sums_k, sums_v = tl.zeros((BN, D_TILE), tl.float32), tl.zeros((BN, D_TILE), tl.float32)
    final = min(seq_k, low + BN - 1 + window)       # behind the last position that sees one of the keys
    for second in range(max(0, max(low, past) + 1 - window2), final):
        key2, value2 = row_of(k2, second, k2_s, columns, k2_d, D), row_of(v2, second, v2_s, columns, v2_d, D)
        scaled, weighed = (block * key2[None, :]).to(block.dtype), (values * value2[None, :]).to(values.dtype)
        u, w = tl.zeros((BN, D_TILE), tl.float32), tl.zeros((BN, D_TILE), tl.float32)
        begin = (max(second, max(low, past)) - past) * GROUP
        for start in range(begin, (min(second + window2, final) - past) * GROUP, BM):
            row = start + tl.arange(0, BM)
            queries, gradient, logarithm, less, position, inside = row_tile(
                row, past, steps, columns, seq_q, shared * GROUP, q, do, lse + lines, delta + lines, GROUP, D)
            logits = tl.dot(scaled, tl.trans(queries), input_precision=PRECISION) * (scale * LOG2_E)
            seen = inside & (second <= position) & (second > position - window2)
            seen = (keys[:, None] <= position[None, :]) & (keys[:, None] > position[None, :] - window) & seen[None, :]
            p = tl.where(seen, tl.exp2(logits - logarithm[None, :]), 0.0)
            ds = p * (tl.dot(weighed, tl.trans(gradient), input_precision=PRECISION) - less[None, :])
            u = tl.dot(p.to(gradient.dtype), gradient, u, input_precision=PRECISION)
            w = tl.dot(ds.to(queries.dtype), queries, w, input_precision=PRECISION)
        sums_v += u * value2.to(tl.float32)[None, :]
        sums_k += w * key2.to(tl.float32)[None, :]
        to = ((batch * kv_heads + shared) * seq_k + second) * D + columns
        tl.atomic_add(dk2 + to, scale * tl.sum(block.to(tl.float32) * w, 0), mask=columns < D, sem="relaxed")
        tl.atomic_add(dv2 + to, tl.sum(values.to(tl.float32) * u, 0), mask=columns < D, sem="relaxed")
    to = ((batch * kv_heads + shared) * seq_k + keys)[:, None] * D + columns[None, :]
    mask = (keys < seq_k)[:, None] & (columns < D)[None, :]
    tl.store(dk + to, (sums_k * scale).to(dk.dtype.element_ty), mask=mask)
    tl.store(dv + to, sums_v.to(dv.dtype.element_ty), mask=mask)
