"""The gradients of attention for every stride, head dim and GPU, of batches or packed sequences: plain Triton, two kernels.

Input: pointers of q, k, v and of the gradient `do` of o, with four strides each; `lse` and `delta`, for each query the logarithm of
its denominator and the sum of o do. Output: the gradients. For example:

    queries, keys = launches(q, k, v, do, lse, delta, dq, dk, dv)
    for kernel, grid, args, meta in (queries, keys):
        kernel[grid](*args, **meta)

With P = softmax(scale Q K^T): dV = P^T dO, dS = P (dO V^T - delta), dQ = scale dS K, dK = scale dS^T Q, and with a soft cap dS
times 1 - tanh^2. A program of `query_gradients` owns queries of a head and walks over keys; one of `key_gradients` owns keys and
walks over the queries of all heads that read them. Nothing is added by several programs: the bits are the same in every run.
"""

import triton.language as tl

import mimw

from ..plain_attention.kernel import packed, tile

LOG2_E = tl.constexpr(1.4426950408889634)


@mimw.jit
def probabilities(scores, lse, rows, keys, seq_q, seq_k, scale, slope, changes, CAUSAL: tl.constexpr):
    """(P, tanh of a capped score, else the score) for products of queries and keys; `changes` are left, right, softcap."""
    left, right, softcap = changes
    scores = scores * scale
    tanh = scores
    if softcap is not None:
        tanh = 1 - 2 / (1 + tl.exp2(scores * (2 * LOG2_E / softcap)))
        scores = softcap * tanh
    position = rows + (seq_k - seq_q)
    if slope is not None:
        scores -= slope * tl.abs((position[:, None] - keys[None, :]).to(tl.float32))
    seen = (rows < seq_q)[:, None] & (keys < seq_k)[None, :]
    if left is not None:
        seen = seen & (keys[None, :] >= position[:, None] - left)
    if right is not None:
        seen = seen & (keys[None, :] <= position[:, None] + right)
    if CAUSAL:
        seen = seen & (keys[None, :] <= position[:, None])
    return tl.where(seen, tl.exp2((scores - lse[:, None]) * LOG2_E), 0.0), tanh


@mimw.jit
def of_scores(p, tanh, products, delta, softcap):
    """dS, of P and dO V^T."""
    found = p * (products - delta[:, None])
    if softcap is not None:
        found *= 1 - tanh * tanh
    return found


@mimw.jit
def place(batch, seq_q, seq_k, cu_q, cu_k):
    """(first query, first key, queries, keys) of a batch, or of a packed sequence."""
    if cu_q is None:
        return 0, 0, seq_q, seq_k
    else:
        start, seq_q = packed(cu_q, batch)
        key_start, seq_k = packed(cu_k, batch)
        return start, key_start, seq_q, seq_k


@mimw.jit(do_not_specialize=["row_b", "row_h"])      # lengths: one binary for all
def query_gradients(q, k, v, do, dq, lse, delta, left, right, softcap, slopes, slopes_step, cu_q, cu_k, row_b, row_h, scale, heads,
                    group, seq_q, seq_k, q_b, q_h, q_s, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d, do_b, do_h, do_s, do_d, dq_b,
                    dq_h, dq_s, dq_d, D: tl.constexpr, DV: tl.constexpr, D_TILE: tl.constexpr, DV_TILE: tl.constexpr,
                    BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, EXACT: tl.constexpr):
    """dQ of queries from program_id(0) * BM on, of head program_id(1) of all batches' heads."""
    PRECISION: tl.constexpr = "ieee" if EXACT else "tf32"
    batch, head = (tl.program_id(1) // heads).to(tl.int64), (tl.program_id(1) % heads).to(tl.int64)
    start, key_start, seq_q, seq_k = place(batch, seq_q, seq_k, cu_q, cu_k)
    first = tl.program_id(0) * BM
    rows, columns, of_values = first + tl.arange(0, BM), tl.arange(0, D_TILE), tl.arange(0, DV_TILE)
    queries = tile(q + batch * q_b + head * q_h + start * q_s, rows, q_s, seq_q, columns, q_d, D)
    gradient = tile(do + batch * do_b + head * do_h + start * do_s, rows, do_s, seq_q, of_values, do_d, DV)
    at = batch * row_b + head * row_h + start + rows
    logarithm = tl.load(lse + at, mask=rows < seq_q, other=0.0)
    sums = tl.load(delta + at, mask=rows < seq_q, other=0.0)
    slope = None
    if slopes is not None:
        slope = tl.load(slopes + batch * slopes_step + head)
    begin, end = 0, seq_k
    reach = first + BM + seq_k - seq_q
    if CAUSAL:
        end = min(seq_k, reach)
    if right is not None:
        end = min(seq_k, reach + right)
    if left is not None:
        begin = max(0, first + seq_k - seq_q - left) // BN * BN
    end = tl.where(first < seq_q, end, 0)
    acc = tl.zeros((BM, D_TILE), tl.float32)
    for key in range(begin, end, BN):
        keys = key + tl.arange(0, BN)
        block = tile(k + batch * k_b + head // group * k_h + key_start * k_s, keys, k_s, seq_k, columns, k_d, D)
        values = tile(v + batch * v_b + head // group * v_h + key_start * v_s, keys, v_s, seq_k, of_values, v_d, DV)
        scores = tl.dot(queries, tl.trans(block), input_precision=PRECISION)
        p, tanh = probabilities(scores, logarithm, rows, keys, seq_q, seq_k, scale, slope, (left, right, softcap), CAUSAL)
        ds = of_scores(p, tanh, tl.dot(gradient, tl.trans(values), input_precision=PRECISION), sums, softcap)
        acc = tl.dot(ds.to(block.dtype), block, acc, input_precision=PRECISION)
    at = dq + batch * dq_b + head * dq_h + (start + rows).to(tl.int64)[:, None] * dq_s + columns.to(tl.int64)[None, :] * dq_d
    tl.store(at, (acc * scale).to(dq.dtype.element_ty), mask=(rows < seq_q)[:, None] & (columns < D)[None, :])


@mimw.jit(do_not_specialize=["row_b", "row_h"])      # lengths: one binary for all
def key_gradients(q, k, v, do, dk, dv, lse, delta, left, right, softcap, slopes, slopes_step, cu_q, cu_k, row_b, row_h, scale,
                  heads, group, seq_q, seq_k, q_b, q_h, q_s, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d, do_b, do_h, do_s, do_d,
                  dk_b, dk_h, dk_s, dk_d, dv_b, dv_h, dv_s, dv_d, D: tl.constexpr, DV: tl.constexpr, D_TILE: tl.constexpr,
                  DV_TILE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, EXACT: tl.constexpr):
    """dK and dV of keys from program_id(0) * BN on, of kv head program_id(1) of all batches' heads."""
    PRECISION: tl.constexpr = "ieee" if EXACT else "tf32"
    kv_heads = heads // group
    batch, shared = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    start, key_start, seq_q, seq_k = place(batch, seq_q, seq_k, cu_q, cu_k)
    key = tl.program_id(0) * BN
    keys, columns, of_values = key + tl.arange(0, BN), tl.arange(0, D_TILE), tl.arange(0, DV_TILE)
    block = tile(k + batch * k_b + shared * k_h + key_start * k_s, keys, k_s, seq_k, columns, k_d, D)
    values = tile(v + batch * v_b + shared * v_h + key_start * v_s, keys, v_s, seq_k, of_values, v_d, DV)
    begin, end = 0, seq_q
    before = key - (seq_k - seq_q)      # the first query whose position is that of the first key
    if CAUSAL:
        begin = max(0, before) // BM * BM
    if right is not None:
        begin = max(0, before - right) // BM * BM
    if left is not None:
        end = min(seq_q, before + BN + left)
    end = tl.where(key < seq_k, end, 0)
    of_keys, of_the_values = tl.zeros((BN, D_TILE), tl.float32), tl.zeros((BN, DV_TILE), tl.float32)
    for head in range(shared * group, shared * group + group):
        slope = None
        if slopes is not None:
            slope = tl.load(slopes + batch * slopes_step + head)
        for first in range(begin, end, BM):
            rows = first + tl.arange(0, BM)
            queries = tile(q + batch * q_b + head * q_h + start * q_s, rows, q_s, seq_q, columns, q_d, D)
            gradient = tile(do + batch * do_b + head * do_h + start * do_s, rows, do_s, seq_q, of_values, do_d, DV)
            at = batch * row_b + head * row_h + start + rows
            logarithm = tl.load(lse + at, mask=rows < seq_q, other=0.0)
            sums = tl.load(delta + at, mask=rows < seq_q, other=0.0)
            scores = tl.dot(queries, tl.trans(block), input_precision=PRECISION)
            p, tanh = probabilities(scores, logarithm, rows, keys, seq_q, seq_k, scale, slope, (left, right, softcap), CAUSAL)
            of_the_values = tl.dot(tl.trans(p.to(gradient.dtype)), gradient, of_the_values, input_precision=PRECISION)
            ds = of_scores(p, tanh, tl.dot(gradient, tl.trans(values), input_precision=PRECISION), sums, softcap)
            of_keys = tl.dot(tl.trans(ds.to(queries.dtype)), queries, of_keys, input_precision=PRECISION)
    inside, places = (keys < seq_k)[:, None], (key_start + keys).to(tl.int64)[:, None]
    at = dk + batch * dk_b + shared * dk_h + places * dk_s + columns.to(tl.int64)[None, :] * dk_d
    tl.store(at, (of_keys * scale).to(dk.dtype.element_ty), mask=inside & (columns < D)[None, :])
    at = dv + batch * dv_b + shared * dv_h + places * dv_s + of_values.to(tl.int64)[None, :] * dv_d
    tl.store(at, of_the_values.to(dv.dtype.element_ty), mask=inside & (of_values < DV)[None, :])
