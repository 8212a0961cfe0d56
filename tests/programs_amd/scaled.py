"""Products in microscaling formats for gfx950, fp4 and fp8, C = A B^T with e8m0 scales for each 32 elements along K.

Shapes: A (M, K), B (N, K), fp4 packed in pairs along K; scales (M, K / 32) and (N, K / 32). M, N are whole tiles.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def from_pointers(a_ptr, b_ptr, c_ptr, a_scales_ptr, b_scales_ptr, M, N, K, stride_am, stride_bn, stride_cm, stride_asm,
                  stride_bsn, FORMAT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Stock words only, with the stages that a loop asks Triton for."""
    DIV: tl.constexpr = 2 if FORMAT == "e2m1" else 1
    columns = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    offs_m = pid // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K // DIV)
    offs_s = tl.arange(0, BLOCK_K // 32)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] + offs_n[None, :] * stride_bn
    a_scale_ptrs = a_scales_ptr + offs_m[:, None] * stride_asm + offs_s[None, :]
    b_scale_ptrs = b_scales_ptr + offs_n[:, None] * stride_bsn + offs_s[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in tl.range(0, tl.cdiv(K, BLOCK_K), num_stages=2):
        a_scale = tl.load(a_scale_ptrs)
        b_scale = tl.load(b_scale_ptrs)
        acc = tl.dot_scaled(tl.load(a_ptrs), a_scale, FORMAT, tl.load(b_ptrs, cache_modifier=".cg"), b_scale, FORMAT, acc)
        a_ptrs += BLOCK_K // DIV
        b_ptrs += BLOCK_K // DIV
        a_scale_ptrs += BLOCK_K // 32
        b_scale_ptrs += BLOCK_K // 32
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty))


@mimw.jit
def in_flight(a_ptr, b_ptr, c_ptr, a_scales_ptr, b_scales_ptr, M, N, K, stride_am, stride_bn, stride_cm, stride_asm, stride_bsn,
              FORMAT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TILES: tl.constexpr):
    """Operands straight to LDS, one step ahead; scales by buffer loads into registers, one step ahead as well."""
    DIV: tl.constexpr = 2 if FORMAT == "e2m1" else 1
    PACKED: tl.constexpr = BLOCK_K // DIV
    columns = tl.cdiv(N, BLOCK_N)
    pid = tlx.assume_uniform(tl.program_id(0))
    offs_m = pid // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, PACKED)
    offs_s = tl.arange(0, BLOCK_K // 32)
    a_at = offs_m[:, None] * stride_am + offs_k[None, :]
    b_at = offs_n[:, None] * stride_bn + offs_k[None, :]
    a_scale_at = offs_m[:, None] * stride_asm + offs_s[None, :]
    b_scale_at = offs_n[:, None] * stride_bsn + offs_s[None, :]
    smem_a = tlx.local_alloc((BLOCK_M, PACKED), tlx.dtype_of(a_ptr), 2)
    smem_b = tlx.local_alloc((BLOCK_N, PACKED), tlx.dtype_of(b_ptr), 2)
    tlx.buffer_load_to_local(smem_a[0], a_ptr, a_at)
    tlx.buffer_load_to_local(smem_b[0], b_ptr, b_at)
    tlx.async_load_commit_group()
    a_scale = tlx.buffer_load(a_scales_ptr, a_scale_at)
    b_scale = tlx.buffer_load(b_scales_ptr, b_scale_at)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    steps = K // BLOCK_K
    for k in tl.range(0, steps):
        ahead = min(k + 1, steps - 1)
        tlx.async_load_wait_group(0)
        x = tlx.local_load(smem_a[k % 2])
        w = tlx.local_load(tlx.local_trans(smem_b[k % 2]))
        tlx.buffer_load_to_local(smem_a[(k + 1) % 2], a_ptr + ahead * PACKED, a_at)
        tlx.buffer_load_to_local(smem_b[(k + 1) % 2], b_ptr + ahead * PACKED, b_at)
        tlx.async_load_commit_group()
        next_a = tlx.buffer_load(a_scales_ptr + ahead * (BLOCK_K // 32), a_scale_at)
        next_b = tlx.buffer_load(b_scales_ptr + ahead * (BLOCK_K // 32), b_scale_at)
        acc = tlx.dot_scaled(x, a_scale, FORMAT, w, b_scale, FORMAT, acc, tiles_per_warp=TILES)
        a_scale, b_scale = next_a, next_b
    tlx.async_load_wait_group(0)
    tlx.buffer_store(acc.to(tlx.dtype_of(c_ptr)), c_ptr, offs_m[:, None] * stride_cm + offs_n[None, :])


@mimw.jit
def preshuffled(a_ptr, b_ptr, c_ptr, a_scales_ptr, b_scales_ptr, K, stride_am, stride_bn, stride_cm, stride_as, stride_bs,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SHARED_SCALES: tl.constexpr):
    """mxfp4; scales lie as the instruction takes them: (rows / 32, 32 K / 32), put in order by reshape and permute."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K // 2)
    offs_as = tl.program_id(0) * (BLOCK_M // 32) + tl.arange(0, BLOCK_M // 32)
    offs_bs = tl.program_id(1) * (BLOCK_N // 32) + tl.arange(0, BLOCK_N // 32)
    offs_s = tl.arange(0, BLOCK_K)
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K // 2), tl.uint8, 2)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K // 2), tl.uint8, 2)
    smem_as = tlx.local_alloc((BLOCK_M // 32, BLOCK_K), tl.uint8, 2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, K // BLOCK_K):
        tlx.async_load(a_ptr + offs_m[:, None] * stride_am + (k * (BLOCK_K // 2) + offs_k)[None, :], smem_a[k % 2])
        tlx.async_load(b_ptr + offs_n[:, None] * stride_bn + (k * (BLOCK_K // 2) + offs_k)[None, :], smem_b[k % 2])
        if SHARED_SCALES:
            tlx.async_load(a_scales_ptr + offs_as[:, None] * stride_as + (k * BLOCK_K + offs_s)[None, :], smem_as[k % 2])
        tlx.async_load_commit_group()
        tok = tlx.async_load_wait_group(0)
        if SHARED_SCALES:
            sa = tlx.local_load(smem_as[k % 2], tok)
        else:
            sa = tl.load(a_scales_ptr + offs_as[:, None] * stride_as + (k * BLOCK_K + offs_s)[None, :])
        sb = tl.load(b_scales_ptr + offs_bs[:, None] * stride_bs + (k * BLOCK_K + offs_s)[None, :])
        sa = sa.reshape(BLOCK_M // 32, BLOCK_K // 256, 4, 16, 2, 2, 1).permute(0, 5, 3, 1, 4, 2, 6).reshape(BLOCK_M, BLOCK_K // 32)
        sb = sb.reshape(BLOCK_N // 32, BLOCK_K // 256, 4, 16, 2, 2, 1).permute(0, 5, 3, 1, 4, 2, 6).reshape(BLOCK_N, BLOCK_K // 32)
        x = tlx.local_load(smem_a[k % 2], tok)
        w = tlx.local_load(tlx.local_trans(smem_b[k % 2]), tok)
        acc = tl.dot_scaled(x, sa, "e2m1", w, sb, "e2m1", acc)
    c = acc.to(c_ptr.dtype.element_ty, fp_downcast_rounding="rtne")
    tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :], c, cache_modifier=".wt")
