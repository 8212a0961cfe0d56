"""Programs whose words are AMD's buffer accesses: norms, parts of K behind a lock, experts, pages, windows.

An offset has 32 bits and counts elements from a scalar base; what needs more moves the base, in 64 bits.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx

# ---- layer norm and its gradient ------------------------------------------------------------------------------------------

@mimw.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, rows, n, stride, eps, BLOCK: tl.constexpr, NUM_CUS: tl.constexpr):
    """A program takes every NUM_CUS-th row; the next row is loaded while this one is summed up."""
    cols = tl.arange(0, BLOCK)
    inside = cols < n
    w = tlx.buffer_load(w_ptr, cols, mask=inside, other=1.0, cache=".ca").to(tl.float32)
    b = tlx.buffer_load(b_ptr, cols, mask=inside, other=0.0, cache=".ca").to(tl.float32)
    row = tlx.assume_uniform(tl.program_id(0))
    ahead = tlx.buffer_load(x_ptr + row.to(tl.int64) * stride, cols, inside & (row < rows), 0.0, ".cg", 8)
    while row < rows:
        x = ahead.to(tl.float32)
        following = row + NUM_CUS
        ahead = tlx.buffer_load(x_ptr + following.to(tl.int64) * stride, cols, inside & (following < rows), 0.0, ".cg", 8)
        mean = tl.sum(x, 0) / n
        centred = tl.where(inside, x - mean, 0.0)
        rstd = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
        tlx.buffer_store(centred * rstd * w + b, y_ptr + row.to(tl.int64) * stride, cols, mask=inside, cache=".cs")
        if tlx.thread_id(0) == 0:
            tl.store(mean_ptr + row, mean)
            tl.store(rstd_ptr + row, rstd)
        row = following


@mimw.jit
def layer_norm_gradient(x_ptr, w_ptr, dy_ptr, dx_ptr, dw_ptr, db_ptr, mean_ptr, rstd_ptr, rows, n, stride, BLOCK_ROWS: tl.constexpr,
                        BLOCK: tl.constexpr):
    """The gradient of x by rows; those of weight and bias are summed up in fp32 by atomics, which no order binds."""
    cols = tl.arange(0, BLOCK)
    first = tl.program_id(0) * BLOCK_ROWS
    lines = first + tl.arange(0, BLOCK_ROWS)
    at = lines.to(tl.uint32)[:, None] * stride.to(tl.uint32) + cols.to(tl.uint32)[None, :]
    mask = (lines < rows)[:, None] & (cols < n)[None, :]
    x = tlx.buffer_load(x_ptr, at, mask=mask, other=0).to(tl.float32)
    dy = tlx.buffer_load(dy_ptr, at, mask=mask, other=0).to(tl.float32)
    w = tlx.buffer_load(w_ptr, cols, mask=cols < n, other=0).to(tl.float32)
    mean = tl.load(mean_ptr + lines, mask=lines < rows, other=0.0)[:, None]
    rstd = tl.load(rstd_ptr + lines, mask=lines < rows, other=0.0)[:, None]
    normed = tl.where(mask, (x - mean) * rstd, 0.0)
    scaled = dy * w[None, :]
    along = tl.sum(normed * scaled, 1)[:, None] / n
    level = tl.sum(scaled, 1)[:, None] / n
    tlx.buffer_store((scaled - normed * along - level) * rstd, dx_ptr, at, mask)
    tlx.buffer_atomic_add(dw_ptr, cols, tl.sum(dy * normed, 0), mask=cols < n, sem="relaxed", contiguity=4)
    tlx.buffer_atomic_add(db_ptr, cols, tl.sum(dy, 0), mask=cols < n, sem="relaxed", scope="gpu")


# ---- parts of K behind a lock ---------------------------------------------------------------------------------------------

@mimw.jit
def split_k_in_turns(a_ptr, b_ptr, c_ptr, parts_ptr, locks_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr,
                     BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr):
    """Each program writes its part to a workspace and counts itself in; the last one of a tile adds all parts up in fixed order."""
    tile, part = tl.program_id(0), tl.program_id(1)
    columns = tl.cdiv(N, BLOCK_N)
    offs_m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = part * BLOCK_K + tl.arange(0, BLOCK_K)
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2)
    a_at = offs_m[:, None] * stride_am + offs_k[None, :]
    b_at = offs_n[:, None] * stride_bn + offs_k[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    steps = tl.cdiv(K - part * BLOCK_K, BLOCK_K * SPLIT_K)
    for k in tl.range(0, steps + 1):
        live = (offs_k < K - k * BLOCK_K * SPLIT_K)[None, :] & (k < steps)
        tlx.buffer_load_to_local(smem_a[k % 2], a_ptr, a_at, mask=(offs_m < M)[:, None] & live, cache_modifier=".cg")
        tlx.buffer_load_to_local(smem_b[k % 2], b_ptr, b_at, mask=(offs_n < N)[:, None] & live)
        tlx.async_load_commit_group()
        if k > 0:
            token = tlx.async_load_wait_group(1)
            x = tlx.local_load(smem_a[(k + 1) % 2], token)
            acc = tl.dot(x, tlx.local_load(tlx.local_trans(smem_b[(k + 1) % 2]), token), acc)
        a_at += BLOCK_K * SPLIT_K
        b_at += BLOCK_K * SPLIT_K
    tlx.async_load_wait_group(0)
    SIZE: tl.constexpr = BLOCK_M * BLOCK_N
    own = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    base = parts_ptr + tile * SPLIT_K * SIZE
    tlx.buffer_store(acc, base + part * SIZE, own, cache=".wt")
    one = tl.full((1, ), 1, tl.int32)
    before = tl.sum(tlx.buffer_atomic_add(locks_ptr + tile, one - 1, one, sem="acq_rel"), 0)
    if before == SPLIT_K - 1:
        acc = tlx.buffer_load(base, own, cache=".cv")
        for other in tl.static_range(1, SPLIT_K):
            acc += tlx.buffer_load(base + other * SIZE, own, cache=".cv")
        tlx.buffer_store(acc, c_ptr, offs_m[:, None] * stride_cm + offs_n[None, :], (offs_m < M)[:, None] & (offs_n < N)[None, :])


# ---- experts --------------------------------------------------------------------------------------------------------------

@mimw.jit
def experts(a_ptr, b_ptr, c_ptr, weights_ptr, tokens_ptr, expert_ptr, valid, N, K, stride_be, TOP_K: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ADD: tl.constexpr):
    """A tile of rows of one expert: rows of A are gathered by token, and added to those of C, weighted, two fp16 at a time if ADD.

    Rows past the last one have the token `valid`. Experts lie 64-bit strides apart, rows of one 32-bit offsets."""
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    expert = tlx.assume_uniform(tl.load(expert_ptr + pid_m))
    token = tl.load(tokens_ptr + pid_m * BLOCK_M + tl.arange(0, BLOCK_M))
    live = token < valid
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    b_base = tlx.assume_uniform(b_ptr + expert.to(tl.int64) * stride_be)
    a_at = (token // TOP_K)[:, None] * K + offs_k[None, :]
    b_at = offs_n[:, None] * K + offs_k[None, :]
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 1)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 1)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        tlx.buffer_load_to_local(smem_a[0], a_ptr + k, a_at, mask=live[:, None], other=0.0)
        tlx.buffer_load_to_local(dest=smem_b[0], ptr=b_base + k, offsets=b_at, mask=(offs_n < N)[:, None])
        tlx.async_load_commit_group()
        tlx.async_load_wait_group(0)
        acc = tl.dot(tlx.local_load(smem_a[0]), tlx.local_load(tlx.local_trans(smem_b[0])), acc)
    if ADD:
        acc *= tl.load(weights_ptr + token, mask=live, other=0.0)[:, None]
        tlx.buffer_atomic_add(c_ptr, (token // TOP_K)[:, None] * N + offs_n[None, :], acc, mask=live[:, None], sem="relaxed",
                              contiguity=2)
    else:
        gate = acc * tl.sigmoid(acc)
        tlx.buffer_store(gate, c_ptr, token[:, None] * N + offs_n[None, :], mask=live[:, None] & (offs_n < N)[None, :])


# ---- pages ----------------------------------------------------------------------------------------------------------------

@mimw.jit
def paged_decode(q_ptr, k_ptr, v_ptr, pages_ptr, lengths_ptr, o_ptr, lse_ptr, scale, max_pages, HEADS: tl.constexpr,
                 D: tl.constexpr, PAGE: tl.constexpr, PAGES: tl.constexpr, SPLITS: tl.constexpr):
    """One sequence's queries of HEADS heads against a part of its pages, PAGES at a time; pages are found in a table."""
    seq, split = tl.program_id(0), tl.program_id(1)
    length = tlx.assume_uniform(tl.load(lengths_ptr + seq))
    KEYS: tl.constexpr = PAGE * PAGES
    per_split = tl.cdiv(tl.cdiv(length, SPLITS), KEYS) * KEYS
    first, last = split * per_split, tl.minimum(split * per_split + per_split, length)
    heads, offs_d, keys = tl.arange(0, HEADS), tl.arange(0, D), tl.arange(0, KEYS)
    q = tlx.buffer_load(q_ptr + seq * HEADS * D, heads[:, None] * D + offs_d[None, :])
    m_i, l_i = tl.full((HEADS, ), float("-inf"), tl.float32), tl.zeros((HEADS, ), tl.float32)
    acc = tl.zeros((HEADS, D), tl.float32)
    for start in range(first, last, KEYS):
        at = start + keys
        page = tlx.buffer_load(pages_ptr + seq * max_pages, at // PAGE, mask=at < last, other=0)
        place = (page * PAGE + at % PAGE)[:, None] * D + offs_d[None, :]
        k = tlx.buffer_load(k_ptr, place, mask=(at < last)[:, None], other=0.0, contiguity=8)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((at < last)[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.math.exp2(s - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        v = tlx.buffer_load(v_ptr, place, mask=(at < last)[:, None], other=0.0, contiguity=8)
        acc = tl.dot(p.to(tlx.dtype_of(v_ptr)), v, acc * alpha[:, None])
        l_i, m_i = l_i * alpha + tl.sum(p, 1), m_new
    out = (seq * SPLITS + split) * HEADS
    some = l_i > 0
    tlx.buffer_store(acc / tl.where(some, l_i, 1.0)[:, None], o_ptr + out * D, heads[:, None] * D + offs_d[None, :])
    tlx.buffer_store(tl.where(some, m_i + tl.math.log2(tl.where(some, l_i, 1.0)), float("-inf")), lse_ptr + out, heads)


@mimw.jit
def merged(parts_ptr, lse_ptr, o_ptr, HEADS: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr):
    """The parts of one sequence, weighted by their sums; fp16 out."""
    seq = tl.program_id(0)
    heads, offs_d, splits = tl.arange(0, HEADS), tl.arange(0, D), tl.arange(0, SPLITS)
    lse = tlx.buffer_load(lse_ptr + seq * SPLITS * HEADS, splits[:, None] * HEADS + heads[None, :])
    weights = tl.math.exp2(lse - tl.max(lse, 0)[None, :])
    at = splits[:, None, None] * (HEADS * D) + heads[None, :, None] * D + offs_d[None, None, :]
    parts = tlx.buffer_load(parts_ptr + seq * SPLITS * HEADS * D, at)
    out = tl.sum(parts * weights[:, :, None], 0) / tl.sum(weights, 0)[:, None]
    tlx.buffer_store(out, o_ptr + seq * HEADS * D, heads[:, None] * D + offs_d[None, :])


# ---- windows --------------------------------------------------------------------------------------------------------------

@mimw.jit
def convolved(x_ptr, w_ptr, y_ptr, batch, H, W, OUT: tl.constexpr, C: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
              BLOCK_M: tl.constexpr):
    """A convolution as a product: rows are pixels of NHWC images, K runs over R x S windows of C; what is outside reads zero."""
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    image, line, column = pixel // (H * W), pixel // W % H, pixel % W
    offs_c, offs_o = tl.arange(0, C), tl.arange(0, OUT)
    smem_x = tlx.local_alloc((BLOCK_M, C), tlx.dtype_of(x_ptr), 2)
    smem_w = tlx.local_alloc((OUT, C), tlx.dtype_of(w_ptr), 2)
    acc = tl.zeros((BLOCK_M, OUT), tl.float32)
    for step in tl.static_range(R * S + 1):
        if step < R * S:
            h, w = line + step // S - R // 2, column + step % S - S // 2
            inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (image < batch)
            at = ((image * H + h) * W + w)[:, None] * C + offs_c[None, :]
            tlx.buffer_load_to_local(smem_x[step % 2], x_ptr, at, inside[:, None])
            tlx.buffer_load_to_local(smem_w[step % 2], w_ptr + step * OUT * C, offs_o[:, None] * C + offs_c[None, :])
            tlx.async_load_commit_group()
        if step > 0:
            tlx.async_load_wait_group(1 if step < R * S else 0)
            acc = tl.dot(tlx.local_load(smem_x[(step + 1) % 2]), tlx.local_load(tlx.local_trans(smem_w[(step + 1) % 2])), acc)
    tlx.buffer_store(acc.to(tlx.dtype_of(y_ptr)), y_ptr, pixel[:, None] * OUT + offs_o[None, :], (image < batch)[:, None])
