"""Attention forward as authors write it for gfx942 and gfx950: O = softmax(scale Q K^T) V, Q (rows, D), K and V (keys, D).

A program takes BLOCK_M rows of one head; grid (rows / BLOCK_M, heads); the number of keys is a multiple of BLOCK_N.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def softened(s, m_i, l_i, acc, scale):
    """One step of the online softmax: (powers, maxima, sums, rescaled acc), by powers of two."""
    m_new = tl.maximum(m_i, tl.max(s, 1) * scale)
    p = tl.math.exp2(s * scale - m_new[:, None])
    alpha = tl.math.exp2(m_i - m_new)
    return p, m_new, l_i * alpha + tl.sum(p, 1), acc * alpha[:, None]


@mimw.jit
def staged(q_ptr, k_ptr, v_ptr, o_ptr, scale, rows, keys, stride_h, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Four stages that eight waves take in turns: scores, copies of V, softmax with the product of the step before, copies of K."""
    head = tlx.assume_uniform(tl.program_id(1)).to(tl.int64) * stride_h
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    kv_at = tl.arange(0, BLOCK_N)[:, None] * D + offs_d[None, :]
    qo_at = offs_m[:, None] * D + offs_d[None, :]
    q = tlx.buffer_load(q_ptr + head, qo_at, mask=offs_m[:, None] < rows, other=0.0)
    smem_k = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(k_ptr), 2)
    smem_v = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(v_ptr), 2)
    tlx.buffer_load_to_local(smem_k[0], k_ptr + head, kv_at)
    tlx.buffer_load_to_local(smem_v[0], v_ptr + head, kv_at)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    m_i = tl.full((BLOCK_M, ), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M, ), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    steps = keys // BLOCK_N
    for j in tl.range(0, steps):
        with tlx.warp_pipeline_stage("scores", priority=1):
            k = tlx.local_load(tlx.local_trans(smem_k[j % 2]))
            ahead = min(j + 1, steps - 1)
            tlx.buffer_load_to_local(smem_k[(j + 1) % 2], k_ptr + head + ahead * BLOCK_N * D, kv_at)
            tlx.buffer_load_to_local(smem_v[(j + 1) % 2], v_ptr + head + ahead * BLOCK_N * D, kv_at)
            tlx.async_load_commit_group()
            s = tl.dot(q, k)
        with tlx.warp_pipeline_stage("softmax", priority=0):
            p, m_i, l_i, acc = softened(s, m_i, l_i, acc, scale)
            v = tlx.local_load(smem_v[j % 2])
        tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("values", priority=1):
            acc = tl.dot(p.to(tlx.dtype_of(v_ptr)), v, acc)
    tlx.buffer_store((acc / l_i[:, None]).to(tlx.dtype_of(o_ptr)), o_ptr + head, qo_at, mask=offs_m[:, None] < rows)


@mimw.jit
def sliced(q_ptr, k_ptr, v_ptr, o_ptr, scale, rows, keys, stride_h, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
           MFMA: tl.constexpr, K_WIDTH: tl.constexpr, SLICE: tl.constexpr):
    """Layouts of the author's: the scores' powers go slice by slice to the product with V, so that few are alive as fp16."""
    left: tl.constexpr = tlx.dot_operand_layout(0, MFMA, K_WIDTH)
    right: tl.constexpr = tlx.dot_operand_layout(1, MFMA, K_WIDTH)
    head = tl.program_id(1) * stride_h
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    qo_at = offs_m[:, None] * D + offs_d[None, :]
    kv_at = tl.arange(0, BLOCK_N)[:, None] * D + offs_d[None, :]
    smem_k = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(k_ptr), 2)
    smem_v = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(v_ptr), 2)
    q = tlx.require_layout(tl.load(q_ptr + head + qo_at), left)
    token_k = tlx.async_load(k_ptr + head + kv_at, smem_k[0])
    token_v = tlx.async_load(v_ptr + head + kv_at, smem_v[0])
    tlx.async_load_commit_group([token_k, token_v])
    m_i = tl.full((BLOCK_M, ), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M, ), tl.float32)
    acc = tlx.zeros((BLOCK_M, D), tl.float32, layout=MFMA)
    steps = keys // BLOCK_N
    for j in range(steps):
        ahead = min(j + 1, steps - 1) * BLOCK_N * D
        tlx.async_load(k_ptr + head + ahead + kv_at, smem_k[(j + 1) % 2])
        tlx.async_load(v_ptr + head + ahead + kv_at, smem_v[(j + 1) % 2])
        tlx.async_load_commit_group()
        token = tlx.async_load_wait_group(1)
        k = tlx.local_load(tlx.local_trans(smem_k[j % 2]), token, layout=right)
        s = tl.dot(q, k, tlx.zeros((BLOCK_M, BLOCK_N), tl.float32, layout=MFMA))
        p, m_i, l_i, acc = softened(s, m_i, l_i, acc, scale)
        for part in tl.static_range(BLOCK_N // SLICE):
            weights = tlx.extract_slice(p, [BLOCK_M, SLICE], [0, part * SLICE]).to(tlx.dtype_of(v_ptr))
            v = tlx.local_load(tlx.local_slice(smem_v[j % 2], [part * SLICE, 0], [SLICE, D]), token, layout=right)
            acc = tl.dot(tlx.require_layout(weights, left), v, acc)
    tlx.async_load_wait_group(0)
    out = tlx.release_layout(acc / l_i[:, None])
    tl.store(o_ptr + head + qo_at, out.to(tlx.dtype_of(o_ptr)))
