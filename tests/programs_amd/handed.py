"""Programs of CDNA whose waves have different tasks: attention with two consumers, a product whose result leaves through LDS.

Producers copy straight to LDS by scalar bases and arrive when their copies are there; consumers give buffers back.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def fetched(base, at, tile, full, empty, phase):
    """One tile from `base` on, when its last readers have given it back."""
    tlx.barrier_wait(empty, phase ^ 1)
    tlx.buffer_load_to_local(tile, base, at)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tlx.barrier_arrive(full)


@mimw.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, scale, keys, stride_h, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              NUM_BUFFERS: tl.constexpr, LAYOUT: tl.constexpr):
    """A producer of K and V; two consumers, each of BLOCK_M rows, which begin their products in turns by named barriers."""
    smem_k = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(k_ptr), NUM_BUFFERS, layout=LAYOUT)
    smem_v = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(v_ptr), NUM_BUFFERS, layout=LAYOUT)
    full_k, full_v = tlx.alloc_barriers(NUM_BUFFERS), tlx.alloc_barriers(NUM_BUFFERS)
    empty_k, empty_v = tlx.alloc_barriers(NUM_BUFFERS, arrive_count=2), tlx.alloc_barriers(NUM_BUFFERS, arrive_count=2)
    head = tl.program_id(1) * stride_h
    steps = keys // BLOCK_N
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, BLOCK_N)[:, None] * D + tl.arange(0, D)[None, :]
            for j in range(steps):
                slot, phase = j % NUM_BUFFERS, j // NUM_BUFFERS & 1
                fetched(k_ptr + head + j * BLOCK_N * D, at, smem_k[slot], full_k[slot], empty_k[slot], phase)
                fetched(v_ptr + head + j * BLOCK_N * D, at, smem_v[slot], full_v[slot], empty_v[slot], phase)
        with tlx.async_task(num_warps=4, registers=232, replicate=2):
            me: tl.constexpr = tlx.async_task_replica_id()
            rows = (tl.program_id(0) * 2 + me) * BLOCK_M + tl.arange(0, BLOCK_M)
            at = rows[:, None] * D + tl.arange(0, D)[None, :]
            q = tlx.buffer_load(q_ptr + head, at)
            m_i, l_i = tl.full((BLOCK_M, ), float("-inf"), tl.float32), tl.zeros((BLOCK_M, ), tl.float32)
            acc = tl.zeros((BLOCK_M, D), tl.float32)
            if me == 1:
                tlx.named_barrier_arrive(9, 2 * 4 * 32)
            for j in range(steps):
                slot, phase = j % NUM_BUFFERS, j // NUM_BUFFERS & 1
                tlx.barrier_wait(full_k[slot], phase)
                tlx.named_barrier_wait(9 + me, 2 * 4 * 32)
                s = tl.dot(q, tlx.local_load(tlx.local_trans(smem_k[slot])))
                tlx.barrier_arrive(empty_k[slot], 1)
                if me == 0 or j + 1 < steps:
                    tlx.named_barrier_arrive(10 - me, 2 * 4 * 32)
                m_new = tl.maximum(m_i, tl.max(s, 1) * scale)
                p = tl.math.exp2(s * scale - m_new[:, None])
                alpha = tl.math.exp2(m_i - m_new)
                l_i, m_i = l_i * alpha + tl.sum(p, 1), m_new
                tlx.barrier_wait(full_v[slot], phase)
                acc = tl.dot(p.to(tlx.dtype_of(v_ptr)), tlx.local_load(smem_v[slot]), acc * alpha[:, None])
                tlx.barrier_arrive(empty_v[slot])
            tlx.buffer_store(acc / l_i[:, None], o_ptr + head, at)


@mimw.jit
def through_shared_memory(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr,
                          BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_BUFFERS: tl.constexpr, NUM_CUS: tl.constexpr):
    """A persistent product; the result is written to LDS where the operands' ring was, and leaves in whole lines from there."""
    spec = tlx.storage_alias_spec(storage=tlx.storage_kind.smem)
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), NUM_BUFFERS, reuse=spec)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), NUM_BUFFERS)
    smem_c = tlx.local_alloc((BLOCK_M // 2, BLOCK_N), tlx.dtype_of(c_ptr), 2, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(smem_a, smem_c, group_type=tlx.reuse_group_type.shared))
    columns = tl.cdiv(N, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * columns, NUM_CUS):
        offs_m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
        a_ptrs = a_ptr + (offs_m % M)[:, None] * stride_am + offs_k[None, :]
        b_ptrs = b_ptr + (offs_n % N)[:, None] * stride_bn + offs_k[None, :]
        for i in tl.static_range(NUM_BUFFERS - 1):
            tlx.async_load(a_ptrs + i * BLOCK_K, smem_a[i], mask=(offs_k < K - i * BLOCK_K)[None, :], other=0.0)
            tlx.async_load(b_ptrs + i * BLOCK_K, smem_b[i], mask=(offs_k < K - i * BLOCK_K)[None, :], other=0.0)
            tlx.async_load_commit_group()
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            token = tlx.async_load_wait_group(NUM_BUFFERS - 2)
            x = tlx.local_load(smem_a[k % NUM_BUFFERS], token)
            y = tlx.local_load(tlx.local_trans(smem_b[k % NUM_BUFFERS]), token)
            ahead = k + NUM_BUFFERS - 1
            live = (offs_k < K - ahead * BLOCK_K)[None, :]
            tlx.async_load(a_ptrs + ahead * BLOCK_K, smem_a[ahead % NUM_BUFFERS], mask=live, other=0.0)
            tlx.async_load(b_ptrs + ahead * BLOCK_K, smem_b[ahead % NUM_BUFFERS], mask=live, other=0.0)
            tlx.async_load_commit_group()
            acc = tl.dot(x, y, acc)
        tlx.async_load_wait_group(0)
        for half in tl.static_range(2):
            part = tlx.extract_slice(acc, [BLOCK_M // 2, BLOCK_N], [half * (BLOCK_M // 2), 0])
            tlx.local_store(smem_c[half], part.to(tlx.dtype_of(c_ptr)))
        for half in tl.static_range(2):
            lines = tile // columns * BLOCK_M + half * (BLOCK_M // 2) + tl.arange(0, BLOCK_M // 2)
            tlx.buffer_store(tlx.local_load(smem_c[half]), c_ptr, lines[:, None] * stride_cm + offs_n[None, :],
                             mask=(lines < M)[:, None] & (offs_n < N)[None, :])


@mimw.jit
def summed_in_two_tasks(x_ptr, y_ptr, rows, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Two regions in a loop: one task transposes a tile into LDS while the other sums it up; results meet behind the region."""
    tile = tlx.local_alloc((BLOCK_M, BLOCK_N), tlx.dtype_of(x_ptr), 1)
    turned = tlx.local_alloc((BLOCK_N, BLOCK_M), tlx.dtype_of(x_ptr), 1)
    totals = tlx.local_alloc((BLOCK_M, ), tl.float32, 1)
    for first in range(tl.program_id(0) * BLOCK_M, rows, tl.num_programs(0) * BLOCK_M):
        with tlx.async_tasks():
            with tlx.async_task("default"):
                lines, cols = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
                x = tlx.buffer_load(x_ptr, lines[:, None] * n + cols[None, :], (lines < rows)[:, None] & (cols < n)[None, :], 0.0)
                tlx.local_store(tile[0], x)
            with tlx.async_task(num_warps=2):
                tlx.local_store(totals[0], tl.zeros((BLOCK_M, ), tl.float32))
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tlx.local_store(turned[0], tlx.local_load(tlx.local_trans(tile[0])))
            with tlx.async_task(num_warps=2):
                sums = tl.sum(tlx.local_load(tile[0]).to(tl.float32), 1)
                tlx.local_store(totals[0], tlx.local_load(totals[0]) + sums)
        lines, cols = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
        out = tlx.local_load(turned[0]).to(tl.float32) / tlx.local_load(totals[0])[None, :]
        tlx.buffer_store(out, y_ptr, cols[:, None] * rows + lines[None, :], (lines < rows)[None, :] & (cols < n)[:, None])
