"""Products by warp groups of their own on chips of AMD: who copies, and who multiplies. C = A B^T, A (M, K), B (N, K)."""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def by_pointers(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                BLOCK_K: tl.constexpr, NUM_BUFFERS: tl.constexpr, BUFFER: tl.constexpr):
    """The default task copies straight to LDS, by pointers or (BUFFER) by a scalar base and offsets; another one multiplies."""
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), NUM_BUFFERS)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), NUM_BUFFERS)
    full = tlx.alloc_barriers(NUM_BUFFERS, arrive_count=1)
    empty = tlx.alloc_barriers(NUM_BUFFERS, arrive_count=1)
    columns = tl.cdiv(N, BLOCK_N)
    pid_m = tl.program_id(0) // columns
    pid_n = tl.program_id(0) % columns
    with tlx.async_tasks():
        with tlx.async_task("default"):
            a_at = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None] * stride_am + tl.arange(0, BLOCK_K)[None, :]
            b_at = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N))[:, None] * stride_bn + tl.arange(0, BLOCK_K)[None, :]
            for k in range(K // BLOCK_K):
                slot = k % NUM_BUFFERS
                tlx.barrier_wait(empty[slot], ((k // NUM_BUFFERS) & 1) ^ 1)
                if BUFFER:
                    tlx.buffer_load_to_local(smem_a[slot], a_ptr + k * BLOCK_K, a_at)
                    tlx.buffer_load_to_local(smem_b[slot], b_ptr + k * BLOCK_K, b_at)
                else:
                    tlx.async_load(a_ptr + a_at + k * BLOCK_K, smem_a[slot])
                    tlx.async_load(b_ptr + b_at + k * BLOCK_K, smem_b[slot])
                tlx.async_load_commit_group()
                tlx.async_load_wait_group(0)
                tlx.barrier_arrive(full[slot])
        with tlx.async_task(num_warps=4, registers=256):
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for k in range(K // BLOCK_K):
                slot = k % NUM_BUFFERS
                tlx.barrier_wait(full[slot], (k // NUM_BUFFERS) & 1)
                acc = tl.dot(tlx.local_load(smem_a[slot]), tlx.local_load(tlx.local_trans(smem_b[slot])), acc)
                tlx.barrier_arrive(empty[slot])
            offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
            c_at = offs_m[:, None] * stride_cm + offs_n[None, :]
            if BUFFER:
                tlx.buffer_store(acc.to(tlx.dtype_of(c_ptr)), c_ptr, c_at)
            else:
                tl.store(c_ptr + c_at, acc.to(tlx.dtype_of(c_ptr)))


@mimw.jit
def by_mover(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
             BLOCK_K: tl.constexpr, NUM_BUFFERS: tl.constexpr):
    """gfx1250: one wave starts the data mover's copies, NUM_BUFFERS - 1 steps ahead of the arrival; four multiply."""
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), NUM_BUFFERS)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), NUM_BUFFERS)
    full, empty = tlx.alloc_barriers(NUM_BUFFERS), tlx.alloc_barriers(NUM_BUFFERS)
    columns = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // columns * BLOCK_M
    n = tl.program_id(0) % columns * BLOCK_N
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [stride_am, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [stride_bn, 1], [BLOCK_N, BLOCK_K])
    with tlx.async_tasks():
        with tlx.async_task("default"):
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for k in range(tl.cdiv(K, BLOCK_K)):
                slot = k % NUM_BUFFERS
                tlx.barrier_wait(full[slot], (k // NUM_BUFFERS) & 1)
                acc = tl.dot(tlx.local_load(smem_a[slot]), tlx.local_load(tlx.local_trans(smem_b[slot])), acc)
                tlx.barrier_arrive(empty[slot])
            offs_m = m + tl.arange(0, BLOCK_M)
            offs_n = n + tl.arange(0, BLOCK_N)
            tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :], acc.to(tlx.dtype_of(c_ptr)),
                     mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
        with tlx.async_task(num_warps=1):
            steps = tl.cdiv(K, BLOCK_K)
            for k in range(steps + 1):
                if k < steps:
                    slot = k % NUM_BUFFERS
                    tlx.barrier_wait(empty[slot], ((k // NUM_BUFFERS) & 1) ^ 1)
                    tlx.async_amd_descriptor_load(a_desc, smem_a[slot], [m, k * BLOCK_K])
                    tlx.async_amd_descriptor_load(b_desc, smem_b[slot], [n, k * BLOCK_K])
                    tlx.async_amd_descriptor_wait(2)
                else:
                    tlx.async_amd_descriptor_wait(0)
                if k > 0:
                    tlx.barrier_arrive(full[(k - 1) % NUM_BUFFERS])


@mimw.jit
def grouped(a_ptr, b_ptr, c_ptr, sizes, groups, K, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            NUM_SMS: tl.constexpr):
    """Groups of rows of A by their own B (groups, N, K): a program takes each NUM_SMS-th tile of all; two tasks."""
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2)
    full, empty = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            step, first, before, tile = 0, 0, 0, tl.program_id(0)
            for g in range(groups):
                m = tl.load(sizes + g)
                tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(N, BLOCK_N)
                while tile < before + tiles:
                    local = tile - before
                    offs_m = local // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
                    offs_n = local % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
                    offs_k = tl.arange(0, BLOCK_K)
                    for k in range(0, tl.cdiv(K, BLOCK_K)):
                        slot = step % 2
                        tlx.barrier_wait(empty[slot], (step // 2 & 1) ^ 1)
                        tlx.async_load(a_ptr + (first + offs_m)[:, None] * K + (k * BLOCK_K + offs_k)[None, :], smem_a[slot],
                                       mask=(offs_m < m)[:, None])
                        tlx.async_load(b_ptr + g * N * K + offs_n[:, None] * K + (k * BLOCK_K + offs_k)[None, :], smem_b[slot])
                        tlx.async_load_commit_group()
                        tlx.async_load_wait_group(0)
                        tlx.barrier_arrive(full[slot])
                        step += 1
                    tile += NUM_SMS
                before += tiles
                first += m
        with tlx.async_task(num_warps=8, num_regs=232):
            step, first, before, tile = 0, 0, 0, tl.program_id(0)
            for g in range(groups):
                m = tl.load(sizes + g)
                tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(N, BLOCK_N)
                while tile < before + tiles:
                    local = tile - before
                    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
                    for k in range(0, tl.cdiv(K, BLOCK_K)):
                        slot = step % 2
                        tlx.barrier_wait(full[slot], step // 2 & 1)
                        acc = tl.dot(tlx.local_load(smem_a[slot]), tlx.local_load(tlx.local_trans(smem_b[slot])), acc)
                        tlx.barrier_arrive(empty[slot])
                        step += 1
                    offs_m = local // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
                    offs_n = local % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
                    tlx.buffer_store(acc.to(tl.float16), c_ptr, (first + offs_m)[:, None] * N + offs_n[None, :],
                                     mask=(offs_m < m)[:, None])
                    tile += NUM_SMS
                before += tiles
                first += m
