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

from ..plain_attention.nouns import matrix_of
from ..plain_attention.scores import LOG2_E
from .nouns import Group, Rows, positions, row_of, rows_of, seen_of


@mimw.jit
def row_tile(row, group, steps, columns, seq_q, form):
    """Rows of a KV head's queries from memory."""
    query, head = row // form.GROUP, (group.head + row % form.GROUP).to(tl.int64)
    inside = row < seq_q * form.GROUP
    mask = inside[:, None] & (columns < form.D)[None, :]
    place, column = query.to(tl.int64)[:, None], columns.to(tl.int64)[None, :]
    at = group.q + head[:, None] * steps.q.head + place * steps.q.row + column * steps.q.column
    queries = tl.load(at, mask=mask, other=0.0)
    at = group.do + head[:, None] * steps.do.head + place * steps.do.row + column * steps.do.column
    gradient = tl.load(at, mask=mask, other=0.0)
    line = head * seq_q + query
    logarithm = tl.load(group.lse + line, mask=inside, other=float("inf")) * LOG2_E
    return Rows(queries, gradient, logarithm, tl.load(group.delta + line, mask=inside, other=0.0), query + group.past, inside)


@mimw.jit
def of_queries(inputs, lse, delta, dq, problem, steps, FORM: tl.constexpr):
    """dq, (batch, heads, seq_q, D) contiguous, of BM rows of a KV head's queries."""
    TF32: tl.constexpr = not FORM.EXACT
    D: tl.constexpr = FORM.D
    kv_heads, seq_q, seq_k = problem.kv_heads, problem.seq_q, problem.seq_k
    batch, shared = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    columns, past = tl.arange(0, FORM.D_TILE), seq_k - seq_q
    row = tl.program_id(0) * FORM.BM + tl.arange(0, FORM.BM)
    lines = batch * kv_heads * FORM.GROUP * seq_q
    group = Group(shared * FORM.GROUP, past, inputs.q + batch * steps.q.batch, inputs.do + batch * steps.do.batch, lse + lines,
                  delta + lines)
    rows = row_tile(row, group, steps, columns, seq_q, FORM)
    first, last = positions(past, problem, FORM)
    keys_in = matrix_of(inputs.k, steps.k, batch, shared, seq_k, D)
    values_in = matrix_of(inputs.v, steps.v, batch, shared, seq_k, D)
    seconds = matrix_of(inputs.k2, steps.k2, batch, shared, seq_k, D)
    second_values = matrix_of(inputs.v2, steps.v2, batch, shared, seq_k, D)
    sums = tl.zeros((FORM.BM, FORM.D_TILE), tl.float32)
    for second in range(max(0, first + 1 - problem.window2), last + 1):
        key2 = row_of(seconds, second, columns)
        scaled = (rows.queries * key2[None, :]).to(rows.queries.dtype)
        weighed = (rows.gradient * row_of(second_values, second, columns)[None, :]).to(rows.gradient.dtype)
        seen_second = rows.inside & (second <= rows.position) & (second > rows.position - problem.window2)
        x = tl.zeros((FORM.BM, FORM.D_TILE), tl.float32)
        for start in range(max(0, first + 1 - problem.window), last + 1, FORM.BN):
            keys = start + tl.arange(0, FORM.BN)
            block = rows_of(keys_in, keys, columns)
            values = rows_of(values_in, keys, columns)
            logits = tl.dot(scaled, tl.trans(block), allow_tf32=TF32) * (problem.scale * LOG2_E)
            seen = seen_of(keys, rows.position, problem.window) & seen_second[:, None]
            p = tl.where(seen, tl.exp2(logits - rows.logarithm[:, None]), 0.0)
            ds = p * (tl.dot(weighed, tl.trans(values), allow_tf32=TF32) - rows.delta[:, None])
            x = tl.dot(ds.to(block.dtype), block, x, allow_tf32=TF32)
        sums += x * key2.to(tl.float32)[None, :]
    head = (batch * kv_heads + shared) * FORM.GROUP + row % FORM.GROUP
    to = dq + ((head * seq_q + row // FORM.GROUP) * D)[:, None] + columns[None, :]
    tl.store(to, (sums * problem.scale).to(dq.dtype.element_ty), mask=rows.inside[:, None] & (columns < D)[None, :])


@mimw.jit
def of_keys(inputs, lse, delta, dk, dv, dk2, dv2, problem, steps, FORM: tl.constexpr):
    """dk and dv, (batch, kv_heads, seq_k, D) contiguous, of BN keys; their shares of dk2 and dv2, fp32, are added."""
    TF32: tl.constexpr = not FORM.EXACT
    D: tl.constexpr = FORM.D
    kv_heads, seq_q, seq_k, scale = problem.kv_heads, problem.seq_q, problem.seq_k, problem.scale
    batch, shared = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    columns, past = tl.arange(0, FORM.D_TILE), seq_k - seq_q
    low = tl.program_id(0) * FORM.BN
    keys = low + tl.arange(0, FORM.BN)
    block = rows_of(matrix_of(inputs.k, steps.k, batch, shared, seq_k, D), keys, columns)
    values = rows_of(matrix_of(inputs.v, steps.v, batch, shared, seq_k, D), keys, columns)
    seconds = matrix_of(inputs.k2, steps.k2, batch, shared, seq_k, D)
    second_values = matrix_of(inputs.v2, steps.v2, batch, shared, seq_k, D)
    q, do = inputs.q + batch * steps.q.batch, inputs.do + batch * steps.do.batch
    lines = batch * kv_heads * FORM.GROUP * seq_q
    sums_k, sums_v = tl.zeros((FORM.BN, FORM.D_TILE), tl.float32), tl.zeros((FORM.BN, FORM.D_TILE), tl.float32)
    final = min(seq_k, low + FORM.BN - 1 + problem.window)      # behind the last position that sees one of the keys
    for second in range(max(0, max(low, past) + 1 - problem.window2), final):
        key2, value2 = row_of(seconds, second, columns), row_of(second_values, second, columns)
        scaled, weighed = (block * key2[None, :]).to(block.dtype), (values * value2[None, :]).to(values.dtype)
        u, w = tl.zeros((FORM.BN, FORM.D_TILE), tl.float32), tl.zeros((FORM.BN, FORM.D_TILE), tl.float32)
        begin = (max(second, max(low, past)) - past) * FORM.GROUP
        for start in range(begin, (min(second + problem.window2, final) - past) * FORM.GROUP, FORM.BM):
            row = start + tl.arange(0, FORM.BM)
            group = Group(shared * FORM.GROUP, past, q, do, lse + lines, delta + lines)
            rows = row_tile(row, group, steps, columns, seq_q, FORM)
            logits = tl.dot(scaled, tl.trans(rows.queries), allow_tf32=TF32) * (scale * LOG2_E)
            seen = rows.inside & (second <= rows.position) & (second > rows.position - problem.window2)
            near = (keys[:, None] <= rows.position[None, :]) & (keys[:, None] > rows.position[None, :] - problem.window)
            seen = near & seen[None, :]
            p = tl.where(seen, tl.exp2(logits - rows.logarithm[None, :]), 0.0)
            ds = p * (tl.dot(weighed, tl.trans(rows.gradient), allow_tf32=TF32) - rows.delta[None, :])
            u = tl.dot(p.to(rows.gradient.dtype), rows.gradient, u, allow_tf32=TF32)
            w = tl.dot(ds.to(rows.queries.dtype), rows.queries, w, allow_tf32=TF32)
        sums_v += u * value2.to(tl.float32)[None, :]
        sums_k += w * key2.to(tl.float32)[None, :]
        to = ((batch * kv_heads + shared) * seq_k + second) * D + columns
        tl.atomic_add(dk2 + to, scale * tl.sum(block.to(tl.float32) * w, 0), mask=columns < D, sem="relaxed")
        tl.atomic_add(dv2 + to, tl.sum(values.to(tl.float32) * u, 0), mask=columns < D, sem="relaxed")
    to = ((batch * kv_heads + shared) * seq_k + keys)[:, None] * D + columns[None, :]
    mask = (keys < seq_k)[:, None] & (columns < D)[None, :]
    tl.store(dk + to, (sums_k * scale).to(dk.dtype.element_ty), mask=mask)
    tl.store(dv + to, sums_v.to(dv.dtype.element_ty), mask=mask)
