"""Products by the tensor data mover of gfx1250: C = A B^T, A (M, K), B (N, K); blocks may reach over the edges."""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def ring(a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
         NUM_BUFFERS: tl.constexpr, LAYOUT_A: tl.constexpr, LAYOUT_B: tl.constexpr, PREFETCH: tl.constexpr):
    """Descriptors of the launch; NUM_BUFFERS - 1 steps in flight; the result goes out by the mover as well."""
    columns = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // columns * BLOCK_M
    n = tl.program_id(0) % columns * BLOCK_N
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_desc), NUM_BUFFERS, layout=LAYOUT_A)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_desc), NUM_BUFFERS, layout=LAYOUT_B)
    smem_c = tlx.local_alloc((BLOCK_M, BLOCK_N), tlx.dtype_of(c_desc), 1)
    for i in tl.static_range(NUM_BUFFERS - 1):
        tlx.async_amd_descriptor_load(a_desc, smem_a[i], [m, i * BLOCK_K])
        tlx.async_amd_descriptor_load(b_desc, smem_b[i], [n, i * BLOCK_K])
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), num_stages=0):
        ahead = k + NUM_BUFFERS - 1
        slot = ahead % NUM_BUFFERS
        tlx.async_amd_descriptor_load(a_desc, smem_a[slot], [m, ahead * BLOCK_K], pred=ahead * BLOCK_K < K)
        tlx.async_amd_descriptor_load(b_desc, smem_b[slot], [n, ahead * BLOCK_K], pred=ahead * BLOCK_K < K)
        if PREFETCH:
            tlx.amd_descriptor_prefetch_tensor(a_desc, [m, (ahead + 1) * BLOCK_K])
            tlx.amd_descriptor_prefetch_tensor(b_desc, [n, (ahead + 1) * BLOCK_K], pred=(ahead + 1) * BLOCK_K < K)
        tok = tlx.async_amd_descriptor_wait((NUM_BUFFERS - 1) * 2)
        x = tlx.local_load(smem_a[k % NUM_BUFFERS], token=tok)
        y = tlx.local_load(tlx.local_trans(smem_b[k % NUM_BUFFERS]), token=tok)
        acc = tl.dot(x, y, acc)
    tlx.async_amd_descriptor_wait(0)
    tlx.local_store(smem_c[0], acc.to(tlx.dtype_of(c_desc)))
    tlx.async_amd_descriptor_store(c_desc, smem_c[0], [m, n])
    tlx.async_amd_descriptor_wait(0)


@mimw.jit
def placed(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FUSED: tl.constexpr):
    """Descriptors that the kernel makes and moves along K; both operands by one instruction if FUSED."""
    columns = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // columns * BLOCK_M
    n = tl.program_id(0) % columns * BLOCK_N
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    a_desc = tlx.update_tensor_descriptor(a_desc, add_offsets=[m, 0], clamp_bounds=True)
    b_desc = tlx.update_tensor_descriptor(b_desc, add_offsets=[n, 0], clamp_bounds=True)
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2)
    if FUSED:
        tlx.async_amd_descriptor_load_fused([(a_desc, smem_a[0], 0b0011), (b_desc, smem_b[0], 0b1100)])
    else:
        tlx.async_amd_descriptor_load(a_desc, smem_a[0])
        tlx.async_amd_descriptor_load(b_desc, smem_b[0])
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a_desc = tlx.update_tensor_descriptor(a_desc, add_offsets=[0, BLOCK_K], clamp_bounds=True)
        b_desc = tlx.update_tensor_descriptor(b_desc, add_offsets=[0, BLOCK_K], clamp_bounds=True)
        if FUSED:
            tlx.async_amd_descriptor_load_fused([(a_desc, smem_a[(k + 1) % 2], 0b0011), (b_desc, smem_b[(k + 1) % 2], 0b1100)])
            tlx.async_amd_descriptor_wait(1)
        else:
            tlx.async_amd_descriptor_load(a_desc, smem_a[(k + 1) % 2])
            tlx.async_amd_descriptor_load(b_desc, smem_b[(k + 1) % 2])
            tlx.async_amd_descriptor_wait(2)
        acc = tl.dot(tlx.local_load(smem_a[k % 2]), tlx.local_load(tlx.local_trans(smem_b[k % 2])), acc)
    tlx.async_amd_descriptor_wait(0)
    offs_m = m + tl.arange(0, BLOCK_M)
    offs_n = n + tl.arange(0, BLOCK_N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
