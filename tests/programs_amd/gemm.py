"""Matrix products as authors write them for gfx942 and gfx950: C = A B, A (M, K), B (K, N), of strides that the host hands over.

    run(pipelined, "gfx950", options, LAYOUT_A=None, ...)

Each is one idea: copies in flight by pointers, by a scalar base and offsets, through registers; eight waves that take turns;
parts of K added up by atomics; a persistent loop.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def tile_of(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """The tile of a program: GROUP_M rows of tiles are gone through column by column, so that B is found in the L2."""
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP_M * columns
    first = pid // in_group * GROUP_M
    size = min(rows - first, GROUP_M)
    return first + pid % in_group % size, pid % in_group // size


@mimw.jit
def pipelined(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, NUM_BUFFERS: tl.constexpr,
              LAYOUT_A: tl.constexpr, LAYOUT_B: tl.constexpr, EVEN_K: tl.constexpr):
    """Copies by pointers run NUM_BUFFERS - 1 steps ahead; a read names the wait that it needs."""
    tl.assume(stride_am > 0)
    tl.assume(stride_bk > 0)
    tl.assume(K > 0)
    pid_m, pid_n = tile_of(tl.program_id(axis=0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_m = tl.max_contiguous(tl.multiple_of(offs_m, BLOCK_M), BLOCK_M)
    offs_n = tl.max_contiguous(tl.multiple_of(offs_n, BLOCK_N), BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn)
    buffers_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), NUM_BUFFERS, layout=LAYOUT_A)
    buffers_b = tlx.local_alloc((BLOCK_K, BLOCK_N), tlx.dtype_of(b_ptr), NUM_BUFFERS, layout=LAYOUT_B)
    for i in tl.range(0, NUM_BUFFERS - 1, loop_unroll_factor=NUM_BUFFERS - 1):
        a = tlx.local_view(buffers_a, i)
        b = tlx.local_view(buffers_b, i)
        if EVEN_K:
            token_a = tlx.async_load(a_ptrs, a)
            token_b = tlx.async_load(b_ptrs, b)
        else:
            token_a = tlx.async_load(a_ptrs, a, mask=offs_k[None, :] < K - i * BLOCK_K)
            token_b = tlx.async_load(b_ptrs, b, mask=offs_k[:, None] < K - i * BLOCK_K)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
        tlx.async_load_commit_group([token_a, token_b])
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), num_stages=0):
        buf = k % NUM_BUFFERS
        token = tlx.async_load_wait_group(NUM_BUFFERS - 2)
        a_tile = tlx.local_load(tlx.local_view(buffers_a, buf), token=token)
        b_tile = tlx.local_load(tlx.local_view(buffers_b, buf), token=token)
        acc = tl.dot(a_tile, b_tile, acc)
        ahead = k + NUM_BUFFERS - 1
        a_next = tlx.local_view(buffers_a, ahead % NUM_BUFFERS)
        b_next = tlx.local_view(buffers_b, ahead % NUM_BUFFERS)
        token_a = tlx.async_load(a_ptrs, a_next, mask=offs_k[None, :] < K - ahead * BLOCK_K)
        token_b = tlx.async_load(b_ptrs, b_next, mask=offs_k[:, None] < K - ahead * BLOCK_K)
        tlx.async_load_commit_group([token_a, token_b])
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    tlx.async_load_wait_group(0)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


@mimw.jit
def through_registers(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                      LAYOUT_A: tl.constexpr, LAYOUT_B: tl.constexpr):
    """Global loads of the next step go to registers above the product, and to one of two buffers below it."""
    pid_m, pid_n = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_at = offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_at = offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    buffers_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2, layout=LAYOUT_A)
    buffers_b = tlx.local_alloc((BLOCK_K, BLOCK_N), tlx.dtype_of(b_ptr), 2, layout=LAYOUT_B)
    in_m, in_n = offs_m[:, None] < M, offs_n[None, :] < N
    tlx.local_store(buffers_a[0], tlx.buffer_load(a_ptr, a_at, mask=in_m & (offs_k[None, :] < K), cache=".cg"))
    tlx.local_store(buffers_b[0], tlx.buffer_load(b_ptr, b_at, mask=in_n & (offs_k[:, None] < K), cache=".cg"))
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    steps = tl.cdiv(K, BLOCK_K)
    for k in tl.range(0, steps - 1, num_stages=1):
        left = K - (k + 1) * BLOCK_K
        a_next = tlx.buffer_load(a_ptr + (k + 1) * BLOCK_K * stride_ak, a_at, mask=in_m & (offs_k[None, :] < left))
        b_next = tlx.buffer_load(b_ptr + (k + 1) * BLOCK_K * stride_bk, b_at, mask=in_n & (offs_k[:, None] < left))
        acc = tl.dot(tlx.local_load(buffers_a[k % 2]), tlx.local_load(buffers_b[k % 2]), acc)
        tlx.amd_sched_barrier(0)
        tlx.local_store(buffers_a[(k + 1) % 2], a_next)
        tlx.local_store(buffers_b[(k + 1) % 2], b_next)
    acc += tl.dot(tlx.local_load(buffers_a[(steps - 1) % 2]), tlx.local_load(buffers_b[(steps - 1) % 2]))
    tlx.buffer_store(acc.to(tlx.dtype_of(c_ptr)), c_ptr, offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn,
                     mask=in_m & in_n)


@mimw.jit
def buffered(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_BUFFERS: tl.constexpr,
             LAYOUT_A: tl.constexpr, LAYOUT_B: tl.constexpr, MFMA: tl.constexpr, K_WIDTH: tl.constexpr):
    """Straight to LDS by a scalar base that moves, and products in a layout of the author's; M, N, K are whole tiles."""
    left: tl.constexpr = tlx.dot_operand_layout(0, MFMA, K_WIDTH)
    right: tl.constexpr = tlx.dot_operand_layout(1, MFMA, K_WIDTH)
    columns = tl.cdiv(N, BLOCK_N)
    pid = tlx.assume_uniform(tl.program_id(0))
    offs_m = pid // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_at = offs_m[:, None] * stride_am + offs_k[None, :]
    b_at = offs_n[:, None] * stride_bn + offs_k[None, :]
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), NUM_BUFFERS, layout=LAYOUT_A)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), NUM_BUFFERS, layout=LAYOUT_B)
    steps = K // BLOCK_K
    for i in tl.static_range(NUM_BUFFERS - 1):
        tlx.buffer_load_to_local(smem_a[i], a_ptr + i * BLOCK_K, a_at)
        tlx.buffer_load_to_local(smem_b[i], b_ptr + i * BLOCK_K, b_at)
        tlx.async_load_commit_group()
    acc = tlx.zeros((BLOCK_M, BLOCK_N), tl.float32, layout=MFMA)
    for k in range(0, steps):
        tok = tlx.async_load_wait_group(NUM_BUFFERS - 2)
        x = tlx.local_load(smem_a[k % NUM_BUFFERS], token=tok, layout=left, relaxed=True)
        y = tlx.local_load(tlx.local_trans(smem_b[k % NUM_BUFFERS]), token=tok, layout=right, relaxed=True)
        ahead = min(k + NUM_BUFFERS - 1, steps - 1)
        tlx.buffer_load_to_local(smem_a[(k + NUM_BUFFERS - 1) % NUM_BUFFERS], a_ptr + ahead * BLOCK_K, a_at)
        tlx.buffer_load_to_local(smem_b[(k + NUM_BUFFERS - 1) % NUM_BUFFERS], b_ptr + ahead * BLOCK_K, b_at)
        tlx.async_load_commit_group()
        acc = tlx.amd_scheduled_mfma(x, y, acc, "persistent")
    acc = tlx.amd_mfma_commit(acc)
    tlx.async_load_wait_group(0)
    c = tlx.release_layout(acc).to(tlx.dtype_of(c_ptr))
    tlx.buffer_store(c, c_ptr, offs_m[:, None] * stride_cm + offs_n[None, :])


@mimw.jit
def eight_waves(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, LAYOUT_A: tl.constexpr,
                LAYOUT_B: tl.constexpr):
    """Two halves of eight waves take turns: one reads and copies, straight to LDS, while the other multiplies."""
    columns = tl.cdiv(N, BLOCK_N)
    pid_m = tlx.assume_uniform(tl.program_id(0) // columns)
    pid_n = tlx.assume_uniform(tl.program_id(0) % columns)
    a_at = tl.arange(0, BLOCK_M)[:, None] * stride_am + tl.arange(0, BLOCK_K)[None, :]
    b_at = tl.arange(0, BLOCK_N)[:, None] * stride_bn + tl.arange(0, BLOCK_K)[None, :]
    a_base = a_ptr + pid_m * BLOCK_M * stride_am
    b_base = b_ptr + pid_n * BLOCK_N * stride_bn
    a, b = (tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2, layout=LAYOUT_A),
            tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2, layout=LAYOUT_B))
    tlx.buffer_load_to_local(a[0], a_base, a_at)
    tlx.buffer_load_to_local(b[0], b_base, b_at)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    last = K // BLOCK_K - 1
    for k in tl.range(0, last):
        with tlx.warp_pipeline_stage("memory", priority=0):
            x = tlx.local_load(a[k % 2], relaxed=True)
            y = tlx.local_load(tlx.local_trans(b[k % 2]), relaxed=True)
            tlx.buffer_load_to_local(a[(k + 1) % 2], a_base + (k + 1) * BLOCK_K, a_at)
            tlx.buffer_load_to_local(b[(k + 1) % 2], b_base + (k + 1) * BLOCK_K, b_at)
            tlx.async_load_commit_group()
        tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("compute", priority=1):
            acc = tl.dot(x, y, acc)
    acc = tl.dot(tlx.local_load(a[last % 2]), tlx.local_load(tlx.local_trans(b[last % 2])), acc)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    tlx.buffer_store(acc.to(tlx.dtype_of(c_ptr)), c_ptr, offs_m[:, None] * stride_cm + offs_n[None, :],
                     mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


@mimw.jit
def split_k(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr):
    """SPLIT_K programs add up their parts of one tile in C, which begins as zeros."""
    pid, pid_k = tl.program_id(0), tl.program_id(1)
    columns = tl.cdiv(N, BLOCK_N)
    offs_m = pid // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    a_at = offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_at = offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K * SPLIT_K), num_stages=2):
        live = offs_k < K - k * BLOCK_K * SPLIT_K
        a = tlx.buffer_load(a_ptr, a_at, mask=(offs_m[:, None] < M) & live[None, :], other=0.0)
        b = tlx.buffer_load(b_ptr, b_at, mask=live[:, None] & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BLOCK_K * SPLIT_K * stride_ak
        b_at += BLOCK_K * SPLIT_K * stride_bk
    c_at = offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    tlx.buffer_atomic_add(c_ptr, c_at, acc.to(c_ptr.dtype.element_ty), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N),
                          sem="relaxed", scope="gpu", contiguity=2 if c_ptr.dtype.element_ty.primitive_bitwidth == 16 else 1)


@mimw.jit
def persistent(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
               BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_SMS: tl.constexpr, NUM_XCDS: tl.constexpr):
    """A program takes each NUM_SMS-th piece of the work: pieces are steps of K, and who does not have a whole tile adds up.

    A stream of all steps of all tiles is cut into NUM_SMS equal parts."""
    pid = tl.program_id(0)
    if NUM_XCDS != 1:
        pid = pid % NUM_XCDS * (NUM_SMS // NUM_XCDS) + pid // NUM_XCDS
    columns, steps = tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    total = tl.cdiv(M, BLOCK_M) * columns * steps
    at = pid * total // NUM_SMS
    end = (pid + 1) * total // NUM_SMS
    tiles_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2)
    tiles_b = tlx.local_alloc((BLOCK_K, BLOCK_N), tlx.dtype_of(b_ptr), 2)
    while at < end:
        tile = at // steps
        first = at % steps
        until = min(steps, first + end - at)
        offs_m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
        offs_k = tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + (first * BLOCK_K + offs_k[None, :]) * stride_ak
        b_ptrs = b_ptr + (first * BLOCK_K + offs_k[:, None]) * stride_bk + offs_n[None, :] * stride_bn
        tlx.async_load(a_ptrs, tiles_a[0], mask=offs_m[:, None] < M)
        tlx.async_load(b_ptrs, tiles_b[0], mask=offs_n[None, :] < N)
        tlx.async_load_commit_group()
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(first, until):
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
            slot = (k - first) % 2
            tlx.async_load(a_ptrs, tiles_a[slot ^ 1], mask=(offs_m[:, None] < M) & (k + 1 < until))
            tlx.async_load(b_ptrs, tiles_b[slot ^ 1], mask=(offs_n[None, :] < N) & (k + 1 < until))
            tlx.async_load_commit_group()
            token = tlx.async_load_wait_group(1)
            acc = tl.dot(tlx.local_load(tiles_a[slot], token), tlx.local_load(tiles_b[slot], token), acc)
        c_at = offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
        mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        if until - first == steps:
            tl.store(c_ptr + c_at, acc, mask=mask)
        else:
            tl.atomic_add(c_ptr + c_at, acc, mask=mask, sem="relaxed")
        at += until - first
        tlx.async_load_wait_group(0)
