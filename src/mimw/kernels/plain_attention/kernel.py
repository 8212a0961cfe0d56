"""Attention forward for every stride, head dim and GPU: plain Triton, an online softmax, masks at the edges, and what
changes scores.

Input: pointers of q, k, v, o with four strides each, and of lse. Output: o and lse are written. For example:

    grid, args, meta = arguments(q, k, v, o, lse)
    plain_attention[grid](*args, **meta)

Program (i, j) computes BM queries of one head of one batch, or of one of the packed sequences whose beginnings cu_q and cu_k hold.
Rows that see no key become 0, and their lse -inf, or the head's sink.
With EXACT fp32 products are fp32's own. Windows, soft caps, sinks and slopes are what `mimw.kernels.attention` says of them; each
is None for a launch without it.
"""

import triton.language as tl

import mimw

LOG2_E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@mimw.jit
def tile(base, rows, row_stride, most, columns, column_stride, WIDTH: tl.constexpr):
    """Rows and columns of a matrix at `base`; what is outside of `most` rows or WIDTH columns is 0."""
    inside = (rows < most)[:, None] & (columns < WIDTH)[None, :]
    at = base + rows.to(tl.int64)[:, None] * row_stride + columns.to(tl.int64)[None, :] * column_stride
    return tl.load(at, mask=inside, other=0.0)


@mimw.jit
def packed(cu, number):
    """(first row, length) of a packed sequence."""
    start = tl.load(cu + number)
    return start.to(tl.int64), tl.load(cu + number + 1) - start


@mimw.jit(do_not_specialize=["total_q"])
def plain_attention(q, k, v, o, lse, left, right, softcap, sinks, slopes, slopes_step, scale, heads, group, seq_q, seq_k, q_b, q_h,
                    q_s, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d, o_b, o_h, o_s, o_d, cu_q, cu_k, total_q,
                    D: tl.constexpr, DV: tl.constexpr, D_TILE: tl.constexpr, DV_TILE: tl.constexpr, BM: tl.constexpr,
                    BN: tl.constexpr, CAUSAL: tl.constexpr, EXACT: tl.constexpr):
    """o = softmax(scale q k^T) v for queries from program_id(0) * BM on, of head program_id(1) of all batches' heads. With cu_q the
    batches are packed sequences of heads of `total_q` rows, and seq_q and seq_k say nothing."""
    PRECISION: tl.constexpr = "ieee" if EXACT else "tf32"
    first = tl.program_id(0) * BM
    batch, head = (tl.program_id(1) // heads).to(tl.int64), (tl.program_id(1) % heads).to(tl.int64)
    shared = head // group
    if cu_q is not None:
        start, seq_q = packed(cu_q, batch)
        key_start, seq_k = packed(cu_k, batch)
        q += start * q_s
        o += start * o_s
        k += key_start * k_s
        v += key_start * v_s
        lse += head * total_q + start
    else:
        lse += tl.program_id(1).to(tl.int64) * seq_q
    rows, columns, values = first + tl.arange(0, BM), tl.arange(0, D_TILE), tl.arange(0, DV_TILE)
    queries = tile(q + batch * q_b + head * q_h, rows, q_s, seq_q, columns, q_d, D)
    highest, total = tl.full((BM, ), float("-inf"), tl.float32), tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, DV_TILE), tl.float32)
    begin, end = 0, seq_k
    if CAUSAL:
        end = min(seq_k, first + BM + seq_k - seq_q)
    if right is not None:
        end = min(seq_k, first + BM + seq_k - seq_q + right)
    if left is not None:
        begin = max(0, first + seq_k - seq_q - left) // BN * BN
    if cu_q is not None:
        end = tl.where(first < seq_q, end, 0)
    if slopes is not None:
        slope = tl.load(slopes + batch * slopes_step + head) * LOG2_E
    for start in range(begin, end, BN):
        keys = start + tl.arange(0, BN)
        block = tile(k + batch * k_b + shared * k_h, keys, k_s, seq_k, columns, k_d, D)
        scores = tl.dot(queries, tl.trans(block), input_precision=PRECISION) * (scale * LOG2_E)
        position = rows + (seq_k - seq_q)
        if softcap is not None:     # tanh(x) as 1 - 2 / (1 + exp(2 x)), which any GPU has: wrong by an fp32 rounding of the cap
            scores = softcap * LOG2_E * (1 - 2 / (1 + tl.exp2(scores * (2 / softcap))))
        if slopes is not None:
            scores -= slope * tl.abs((position[:, None] - keys[None, :]).to(tl.float32))
        seen = (keys < seq_k)[None, :]
        if left is not None:
            seen = seen & (keys[None, :] >= position[:, None] - left)
        if right is not None:
            seen = seen & (keys[None, :] <= position[:, None] + right)
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + (seq_k - seq_q))
        scores = tl.where(seen, scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores - base[:, None]), tl.exp2(before - base)
        total = total * shrink + tl.sum(p, 1)
        block = tile(v + batch * v_b + shared * v_h, keys, v_s, seq_k, values, v_d, DV)
        acc = tl.dot(p.to(block.dtype), block, acc * shrink[:, None], input_precision=PRECISION)
    if sinks is not None:
        sink = tl.load(sinks + head).to(tl.float32) * LOG2_E
        before, highest = highest, tl.maximum(highest, sink)
        shrink = tl.where(before == float("-inf"), 0.0, tl.exp2(before - highest))
        total = total * shrink + tl.where(sink == float("-inf"), 0.0, tl.exp2(sink - highest))
        acc = acc * shrink[:, None]
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    at = o + batch * o_b + head * o_h + rows.to(tl.int64)[:, None] * o_s + values.to(tl.int64)[None, :] * o_d
    tl.store(at, acc.to(o.dtype.element_ty), mask=(rows < seq_q)[:, None] & (values < DV)[None, :])
    tl.store(lse + rows, (highest + tl.log2(total)) * LN2, mask=rows < seq_q)
