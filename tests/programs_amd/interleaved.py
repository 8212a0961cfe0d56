"""Products that plan registers and instructions themselves, as published for gfx950: quarters, classes of registers, options."""

from __future__ import annotations

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def quarters(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
             BLOCK_K: tl.constexpr, MFMA: tl.constexpr, K_WIDTH: tl.constexpr, LAYOUT: tl.constexpr):
    """Four sums of a tile's quarters; reads of the next operand stand between the products of the ones before."""
    HALF_M: tl.constexpr = BLOCK_M // 2
    HALF_N: tl.constexpr = BLOCK_N // 2
    left: tl.constexpr = tlx.dot_operand_layout(0, MFMA, K_WIDTH)
    right: tl.constexpr = tlx.dot_operand_layout(1, MFMA, K_WIDTH)
    pid_m, pid_n = tlx.assume_uniform(tl.program_id(0)), tlx.assume_uniform(tl.program_id(1))
    a_ptr = tlx.assume_uniform(a_ptr + pid_m * BLOCK_M * stride_am)
    b_ptr = tlx.assume_uniform(b_ptr + pid_n * BLOCK_N * stride_bn)
    rows = tlx.rematerialized_range(0, HALF_M, "rows of a")
    columns = tlx.rematerialized_range(0, HALF_N, "rows of b")
    depth = tl.arange(0, BLOCK_K)
    a_at = rows[:, None] * stride_am + depth[None, :]
    b_at = columns[:, None] * stride_bn + depth[None, :]
    smem_a = tlx.local_alloc((HALF_M, BLOCK_K), tlx.dtype_of(a_ptr), 4, layout=LAYOUT)
    smem_b = tlx.local_alloc((HALF_N, BLOCK_K), tlx.dtype_of(b_ptr), 4, layout=LAYOUT)
    for half in tl.static_range(2):
        tlx.buffer_load_to_local(smem_a[half], a_ptr + half * HALF_M * stride_am, a_at, cache_modifier=".cg")
        tlx.buffer_load_to_local(smem_b[half], b_ptr + half * HALF_N * stride_bn, b_at, cache_modifier=".cg")
        tlx.async_load_commit_group()
    acc00 = tlx.zeros((HALF_M, HALF_N), tl.float32, layout=MFMA)
    acc01 = tlx.zeros((HALF_M, HALF_N), tl.float32, layout=MFMA)
    acc10 = tlx.zeros((HALF_M, HALF_N), tl.float32, layout=MFMA)
    acc11 = tlx.zeros((HALF_M, HALF_N), tl.float32, layout=MFMA)
    steps = K // BLOCK_K
    for k in tl.range(0, steps):
        now, then = (k % 2) * 2, ((k + 1) % 2) * 2
        ahead = min(k + 1, steps - 1) * BLOCK_K
        tok = tlx.async_load_wait_group(1)
        a0 = tlx.local_load(smem_a[now], token=tok, layout=left, relaxed=True)
        b0 = tlx.local_load(tlx.local_trans(smem_b[now]), token=tok, layout=right, relaxed=True)
        tlx.buffer_load_to_local(smem_a[then], a_ptr + ahead, a_at)
        tlx.buffer_load_to_local(smem_b[then], b_ptr + ahead, b_at)
        tlx.async_load_commit_group()
        tlx.amd_sched_barrier()
        acc00 = tlx.amd_scheduled_mfma(a0, b0, acc00, "persistent", resident_operand=0, accumulator_register_class="agpr")
        tok = tlx.async_load_wait_group(1)
        a1 = tlx.local_load(smem_a[now + 1], token=tok, layout=left, relaxed=True)
        b1 = tlx.local_load(tlx.local_trans(smem_b[now + 1]), token=tok, layout=right, relaxed=True)
        acc01 = tlx.amd_scheduled_mfma(a0, b1, acc01, "persistent", resident_operand=1)
        tlx.buffer_load_to_local(smem_a[then + 1], a_ptr + HALF_M * stride_am + ahead, a_at)
        tlx.buffer_load_to_local(smem_b[then + 1], b_ptr + HALF_N * stride_bn + ahead, b_at)
        tlx.async_load_commit_group()
        acc10 = tlx.amd_scheduled_mfma(a1, b0, acc10, "persistent")
        acc11 = tlx.amd_scheduled_mfma(a1, b1, acc11, "persistent")
        tlx.amd_sched_barrier(0x8 | 0x80)
    tlx.async_load_wait_group(0)
    acc00, acc01 = tlx.amd_mfma_commit(acc00, preserve=acc01)
    acc10 = tlx.amd_register_handoff(acc10, "vgpr")
    acc11 = tlx.amd_register_resident(acc11, register_class="agpr", registers_per_group=4)
    stored(c_ptr, acc00, pid_m * BLOCK_M, pid_n * BLOCK_N, stride_cm)
    stored(c_ptr, acc01, pid_m * BLOCK_M, pid_n * BLOCK_N + HALF_N, stride_cm)
    stored(c_ptr, acc10, pid_m * BLOCK_M + HALF_M, pid_n * BLOCK_N, stride_cm)
    stored(c_ptr, acc11, pid_m * BLOCK_M + HALF_M, pid_n * BLOCK_N + HALF_N, stride_cm)


@mimw.jit
def stored(c_ptr, acc, m, n, stride_cm):
    value = tlx.release_layout(acc).to(tlx.dtype_of(c_ptr))
    rows = m + tl.arange(0, acc.shape[0])
    columns = n + tl.arange(0, acc.shape[1])
    tlx.buffer_store(value, c_ptr, rows[:, None] * stride_cm + columns[None, :])


@mimw.jit
def staged_large(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                 BLOCK_K: tl.constexpr, MFMA: tl.constexpr, K_WIDTH: tl.constexpr, LAYOUT_A: tl.constexpr, LAYOUT_B: tl.constexpr):
    """Eight waves, four stages: each half of K is read, then multiplied; layouts of the author's everywhere."""
    left: tl.constexpr = tlx.dot_operand_layout(0, MFMA, K_WIDTH)
    right: tl.constexpr = tlx.dot_operand_layout(1, MFMA, K_WIDTH)
    HALF: tl.constexpr = BLOCK_K // 2
    pid_m, pid_n = tlx.assume_uniform(tl.program_id(0)), tlx.assume_uniform(tl.program_id(1))
    a_at = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None] * stride_am + tl.arange(0, BLOCK_K)[None, :]
    b_at = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N))[:, None] * stride_bn + tl.arange(0, BLOCK_K)[None, :]
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2, layout=LAYOUT_A)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2, layout=LAYOUT_B)
    tlx.async_load(a_ptr + a_at, smem_a[0])
    tlx.async_load(b_ptr + b_at, smem_b[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    acc = tlx.zeros((BLOCK_M, BLOCK_N), tl.float32, layout=MFMA)
    steps = K // BLOCK_K
    for k in tl.range(0, steps):
        ahead = min(k + 1, steps - 1) * BLOCK_K
        with tlx.warp_pipeline_stage("read low", priority=0):
            x = tlx.local_load(tlx.local_slice(smem_a[k % 2], [0, 0], [BLOCK_M, HALF]), layout=left)
            y = tlx.local_load(tlx.local_trans(tlx.local_slice(smem_b[k % 2], [0, 0], [BLOCK_N, HALF])), layout=right)
            tlx.async_load(a_ptr + a_at + ahead, smem_a[(k + 1) % 2])
        with tlx.warp_pipeline_stage("low", priority=1):
            acc = tl.dot(x, y, acc)
        with tlx.warp_pipeline_stage("read high", priority=0):
            x = tlx.local_load(tlx.local_slice(smem_a[k % 2], [0, HALF], [BLOCK_M, HALF]), layout=left)
            y = tlx.local_load(tlx.local_trans(tlx.local_slice(smem_b[k % 2], [0, HALF], [BLOCK_N, HALF])), layout=right)
            tlx.async_load(b_ptr + b_at + ahead, smem_b[(k + 1) % 2])
            tlx.async_load_commit_group()
        tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("high", priority=1):
            acc = tl.dot(x, y, acc)
    stored(c_ptr, acc, pid_m * BLOCK_M, pid_n * BLOCK_N, stride_cm)


@mimw.jit
def fp8_rows(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr,
             BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_BUFFERS: tl.constexpr):
    """A and B of 8 bits with a scale for each row of A and of B: the tokens of copies are carried by the loop."""
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_n[:, None] * stride_bn + offs_k[None, :]
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), NUM_BUFFERS)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), NUM_BUFFERS)
    token = tlx.async_load_commit_group([tlx.async_load(a_ptrs, smem_a[0]), tlx.async_load(b_ptrs, smem_b[0])])
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32 if tlx.dtype_of(a_ptr) == tl.int8 else tl.float32)
    steps = K // BLOCK_K
    for k in range(steps):
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
        landed = tlx.async_load_wait_group(0, [token])
        x = tlx.local_load(tlx.local_view(smem_a, k % NUM_BUFFERS), landed)
        y = tlx.local_load(tlx.local_trans(tlx.local_view(smem_b, k % NUM_BUFFERS)), landed)
        if k + 1 < steps:
            token_a = tlx.async_load(a_ptrs, smem_a[(k + 1) % NUM_BUFFERS], cache_modifier=".cg")
            token_b = tlx.async_load(b_ptrs, smem_b[(k + 1) % NUM_BUFFERS], cache_modifier=".cg")
            token = tlx.async_load_commit_group([token_a, token_b])
        acc = tl.dot(x, y, acc, out_dtype=acc.dtype)
    scale = tl.load(a_scale_ptr + offs_m)[:, None] * tl.load(b_scale_ptr + offs_n)[None, :]
    c_at = offs_m[:, None] * stride_cm + offs_n[None, :]
    tlx.buffer_store((acc.to(tl.float32) * scale).to(tlx.dtype_of(c_ptr)), c_ptr, c_at)


def configs():
    common = {"BLOCK_M": 64, "BLOCK_N": 64, "matrix_instr_nonkdim": 16, "kpack": 1}
    return [triton.Config(common | {"BLOCK_K": depth, "waves_per_eu": waves}, num_warps=4, num_stages=2)
            for depth, waves in ((32, 2), (64, 0))]


@triton.autotune(configs=configs(), key=["M", "N", "K"])
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@mimw.jit
def tuned(a_ptr, b_ptr, c_ptr, M, N, K, stride_am: tl.constexpr, stride_bk, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
          BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr):
    """Configurations with AMD's launch options; copies are masked where K is no multiple of a step."""
    columns = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    offs_m = pid // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), tl.constexpr(2))
    smem_b = tlx.local_alloc((BLOCK_K, BLOCK_N), tlx.dtype_of(b_ptr), tl.constexpr(2))
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), num_stages=1):
        if EVEN_K:
            tlx.async_load(a_ptrs, smem_a[k % 2])
            tlx.async_load(b_ptrs, smem_b[k % 2])
        else:
            tlx.async_load(a_ptrs, smem_a[k % 2], mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
            tlx.async_load(b_ptrs, smem_b[k % 2], mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        tlx.async_load_commit_group()
        tok = tlx.async_load_wait_group(0)
        acc = tl.dot(tlx.local_load(smem_a[k % 2], tok), tlx.local_load(smem_b[k % 2], tok), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :], acc.to(tl.float16))
