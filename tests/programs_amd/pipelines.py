"""Programs that plan waves, stages and registers together, as published for CDNA: attention, fp8, persistent loops, operands ahead.

Operands are (rows, K) and (columns, K), so C = A B^T; each program is one idea with the words that its authors combine for it.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx

# ---- attention in turns of eight waves -----------------------------------------------------------------------------------

@mimw.jit
def scores_of(q, tile, right: tl.constexpr, acc_layout: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Q K^T of a tile of K in shared memory, in vector registers, since softmax takes it."""
    k = tlx.local_load(tlx.local_trans(tile), layout=right, relaxed=True)
    nothing = tlx.zeros((ROWS, KEYS), tl.float32, layout=acc_layout)
    return tlx.amd_scheduled_mfma(q, k, nothing, "transient", resident_operand=0, initialize=True)


@mimw.jit
def causal_ping_pong(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, rows, stride_h, D: tl.constexpr, BLOCK_M: tl.constexpr,
                     BLOCK_N: tl.constexpr, MFMA: tl.constexpr, K_WIDTH: tl.constexpr, PAD: tl.constexpr):
    """Causal attention: two halves of the waves take turns between products and softmax; Q stays in registers.

    Key tiles wholly below the diagonal run in stages; those that it cuts come after them, with a mask.
    """
    left: tl.constexpr = tlx.dot_operand_layout(0, MFMA, K_WIDTH)
    right: tl.constexpr = tlx.dot_operand_layout(1, MFMA, K_WIDTH)
    padded: tl.constexpr = tlx.padded_shared_layout_encoding.with_identity_for(PAD, [BLOCK_N, D], [1, 0])
    start = tl.program_id(0) * BLOCK_M
    head = tlx.assume_uniform(tl.program_id(1)).to(tl.int64) * stride_h
    q_ptr, k_ptr, v_ptr, o_ptr = q_ptr + head, k_ptr + head, v_ptr + head, o_ptr + head
    offs_m, offs_n, offs_d = start + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, D)
    qo_at = offs_m[:, None] * D + offs_d[None, :]
    kv_at = offs_n[:, None] * D + offs_d[None, :]
    q = tlx.buffer_load(q_ptr, qo_at, mask=offs_m[:, None] < rows, other=0.0, cache=".cg")
    q = tlx.amd_register_resident(tlx.require_layout(q, left), "vgpr", registers_per_group=4)
    smem_k = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(k_ptr), 2, layout=padded)
    smem_v = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(v_ptr), 2, layout=padded)
    tlx.buffer_load_to_local(smem_k[0], k_ptr, kv_at)
    tlx.buffer_load_to_local(smem_v[0], v_ptr, kv_at)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    m_i = tl.full((BLOCK_M, ), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M, ), tl.float32)
    acc = tlx.zeros((BLOCK_M, D), tl.float32, layout=MFMA)
    whole = start // BLOCK_N
    for j in tl.range(0, whole):
        with tlx.warp_pipeline_stage("scores", priority=1):
            s = scores_of(q, smem_k[j % 2], right, MFMA, BLOCK_M, BLOCK_N)
            tlx.buffer_load_to_local(smem_k[(j + 1) % 2], k_ptr + (j + 1) * BLOCK_N * D, kv_at)
            tlx.buffer_load_to_local(smem_v[(j + 1) % 2], v_ptr + (j + 1) * BLOCK_N * D, kv_at)
            tlx.async_load_commit_group()
        with tlx.warp_pipeline_stage("softmax"):
            m_new = tl.maximum(m_i, tl.max(s, 1) * scale)
            p = tl.math.exp2(s * scale - m_new[:, None])
            alpha = tl.math.exp2(m_i - m_new)
            l_i = l_i * alpha + tl.sum(p, 1)
            acc *= alpha[:, None]
            m_i = m_new
            v = tlx.local_load(smem_v[j % 2], layout=right, relaxed=True)
        tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("values", priority=1):
            weights = tlx.amd_register_handoff(tlx.require_layout(p.to(tlx.dtype_of(v_ptr)), left))
            acc = tlx.amd_scheduled_mfma(weights, v, acc, "persistent", 1)
    acc = tlx.amd_mfma_commit(acc)
    for j in tl.static_range(BLOCK_M // BLOCK_N):
        slot = (whole + j) % 2
        if j > 0:
            tlx.buffer_load_to_local(smem_k[slot], k_ptr + (start + j * BLOCK_N) * D, kv_at)
            tlx.buffer_load_to_local(smem_v[slot], v_ptr + (start + j * BLOCK_N) * D, kv_at)
            tlx.async_load_commit_group()
            tlx.async_load_wait_group(0)
        s = scores_of(q, smem_k[slot], right, MFMA, BLOCK_M, BLOCK_N)
        s = tl.where(offs_m[:, None] >= start + j * BLOCK_N + offs_n[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1) * scale)
        p = tl.math.exp2(s * scale - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
        weights = tlx.require_layout(p.to(tlx.dtype_of(v_ptr)), left)
        acc = tlx.amd_scheduled_mfma(weights, tlx.local_load(smem_v[slot], layout=right), acc * alpha[:, None], "persistent")
    out = tlx.release_layout(acc / l_i[:, None])
    tlx.buffer_store(out.to(tlx.dtype_of(o_ptr)), o_ptr, qo_at, mask=offs_m[:, None] < rows)
    tlx.buffer_store(m_i + tl.math.log2(l_i), lse_ptr + tl.program_id(1) * rows, offs_m, mask=offs_m < rows)


# ---- fp8, four waves ------------------------------------------------------------------------------------------------------

@mimw.jit
def fp8_four_waves(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr,
                   BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, MFMA: tl.constexpr, K_WIDTH: tl.constexpr):
    """One wave on each SIMD: B stays in vector registers for two products, the sums of two row halves in accumulation registers.

    The scale of a row of A and of a column of B come with the last step; C is written half by half.
    """
    left: tl.constexpr = tlx.dot_operand_layout(0, MFMA, K_WIDTH)
    right: tl.constexpr = tlx.dot_operand_layout(1, MFMA, K_WIDTH)
    HALF: tl.constexpr = BLOCK_M // 2
    columns = tl.cdiv(N, BLOCK_N)
    pid = tlx.assume_uniform(tl.program_id(0))
    m, n = pid // columns * BLOCK_M, pid % columns * BLOCK_N
    offs_h = tlx.rematerialized_range(0, HALF, "rows of A")
    offs_n = tlx.rematerialized_range(0, BLOCK_N, "rows of B")
    offs_k = tl.arange(0, BLOCK_K)
    a_at = offs_h[:, None] * stride_am + offs_k[None, :]
    b_at = offs_n[:, None] * stride_bn + offs_k[None, :]
    top, low = a_ptr + m * stride_am, a_ptr + (m + HALF) * stride_am
    smem_a = tlx.local_alloc((HALF, BLOCK_K), tlx.dtype_of(a_ptr), 4)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2)
    b_base = b_ptr + n * stride_bn
    tlx.buffer_load_to_local(smem_a[0], top, a_at)
    tlx.buffer_load_to_local(smem_a[1], low, a_at)
    tlx.buffer_load_to_local(smem_b[0], b_base, b_at)
    tlx.async_load_commit_group()
    upper = tlx.zeros((HALF, BLOCK_N), tl.float32, layout=MFMA)
    lower = tlx.zeros((HALF, BLOCK_N), tl.float32, layout=MFMA)
    steps = K // BLOCK_K
    for k in tl.range(0, steps, num_stages=1):
        ahead, slot = min(k + 1, steps - 1) * BLOCK_K, k % 2
        landed = tlx.async_load_wait_group(0)
        w = tlx.local_load(tlx.local_trans(smem_b[slot]), landed, layout=right, relaxed=True)
        x = tlx.local_load(smem_a[2 * slot], landed, layout=left, relaxed=True)
        w, x = tlx.amd_mfma_commit((w, x))
        tlx.buffer_load_to_local(smem_b[slot ^ 1], b_base + ahead, b_at)
        tlx.buffer_load_to_local(smem_a[2 * (slot ^ 1)], top + ahead, a_at)
        upper = tlx.amd_scheduled_mfma(x, w, upper, accumulator_role="persistent", resident_operand=1,
                                       accumulator_register_class="agpr")
        tlx.amd_sched_barrier(0)
        x = tlx.local_load(smem_a[2 * slot + 1], landed, layout=left, relaxed=True)
        tlx.buffer_load_to_local(smem_a[2 * (slot ^ 1) + 1], low + ahead, a_at)
        tlx.async_load_commit_group()
        lower = tlx.amd_scheduled_mfma(x, w, lower, accumulator_role="persistent", resident_operand=1,
                                       accumulator_register_class="agpr")
    tlx.async_load_wait_group(0)
    upper, lower = tlx.amd_mfma_commit((upper, lower))
    b_scale = tl.load(b_scale_ptr + n + offs_n)[None, :]
    for half in tl.static_range(2):
        acc = tlx.amd_register_handoff(upper if half == 0 else lower, "vgpr")
        rows = m + half * HALF + tl.arange(0, HALF)
        c = tlx.release_layout(acc * tl.load(a_scale_ptr + rows)[:, None] * b_scale)
        tlx.buffer_store(c.to(tlx.dtype_of(c_ptr)), c_ptr, rows[:, None] * stride_cm + (n + offs_n)[None, :],
                         mask=(rows < M)[:, None])


# ---- a persistent loop around stages --------------------------------------------------------------------------------------

@mimw.jit
def start_copies(a_ptr, b_ptr, smem_a, smem_b, slot, k, a_at, b_at):
    """Both operands of one step, as one group."""
    tlx.buffer_load_to_local(smem_a[slot], a_ptr + k, a_at)
    tlx.buffer_load_to_local(smem_b[slot], b_ptr + k, b_at)
    return tlx.async_load_commit_group()


@mimw.jit
def persistent_stages(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr,
                      BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_CUS: tl.constexpr, NUM_XCDS: tl.constexpr,
                      LAYOUT: tl.constexpr, ACTIVATION: tl.constexpr):
    """Each of NUM_CUS programs takes every NUM_CUS-th tile; eight waves run the steps of a tile in stages; bias and activation."""
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2, layout=LAYOUT)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2, layout=LAYOUT)
    columns, steps = tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    pid = tl.program_id(0)
    pid = pid % NUM_XCDS * (NUM_CUS // NUM_XCDS) + pid // NUM_XCDS
    a_at = tl.arange(0, BLOCK_M)[:, None] * stride_am + tl.arange(0, BLOCK_K)[None, :]
    b_at = tl.arange(0, BLOCK_N)[:, None] * stride_bn + tl.arange(0, BLOCK_K)[None, :]
    for tile in tl.range(pid, tl.cdiv(M, BLOCK_M) * columns, NUM_CUS):
        m, n = tile // columns * BLOCK_M, tile % columns * BLOCK_N
        a_base, b_base = a_ptr + m * stride_am, b_ptr + n * stride_bn
        start_copies(a_base, b_base, smem_a, smem_b, 0, 0, a_at, b_at)
        tlx.async_load_wait_group(0)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in tl.range(0, steps - 1):
            with tlx.warp_pipeline_stage("memory", priority=0):
                x = tlx.local_load(smem_a[k % 2], relaxed=True)
                y = tlx.local_load(tlx.local_trans(smem_b[k % 2]), relaxed=True)
                start_copies(a_base, b_base, smem_a, smem_b, (k + 1) % 2, (k + 1) * BLOCK_K, a_at, b_at)
            tlx.async_load_wait_group(0)
            with tlx.warp_pipeline_stage("compute", priority=2):
                acc = tl.dot(x, y, acc)
        last = (steps - 1) % 2
        acc = tl.dot(tlx.local_load(smem_a[last]), tlx.local_load(tlx.local_trans(smem_b[last])), acc)
        offs_m, offs_n = m + tl.arange(0, BLOCK_M), n + tl.arange(0, BLOCK_N)
        acc += tlx.buffer_load(bias_ptr, offs_n, mask=offs_n < N, other=0.0, contiguity=4).to(tl.float32)[None, :]
        if ACTIVATION == "gelu":
            acc = acc * tl.sigmoid(1.702 * acc)
        elif ACTIVATION == "relu":
            acc = tl.maximum(acc, 0.0)
        tlx.buffer_store(acc.to(tlx.dtype_of(c_ptr)), c_ptr, offs_m[:, None] * stride_cm + offs_n[None, :],
                         mask=(offs_m < M)[:, None] & (offs_n < N)[None, :], cache=".cs")


# ---- operands of the next part ahead --------------------------------------------------------------------------------------

@mimw.jit
def part_of(tile, part, axis: tl.constexpr, ROWS: tl.constexpr, SLICE: tl.constexpr, layout: tl.constexpr):
    """Part number `part` of a tile (rows, K) along K, as operand A, or turned as operand B."""
    view = tlx.local_slice(tile, [0, part * SLICE], [ROWS, SLICE])
    if axis == 1:
        return tlx.local_load(tlx.local_trans(view), layout=layout)
    return tlx.local_load(view, layout=layout)


@mimw.jit
def registers_ahead(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                    BLOCK_K: tl.constexpr, SLICE: tl.constexpr, MFMA: tl.constexpr, K_WIDTH: tl.constexpr):
    """While one part of K is multiplied the next is read from shared memory: parts go through a pair of register tiles."""
    left: tl.constexpr = tlx.dot_operand_layout(0, MFMA, K_WIDTH)
    right: tl.constexpr = tlx.dot_operand_layout(1, MFMA, K_WIDTH)
    PARTS: tl.constexpr = BLOCK_K // SLICE
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (m + tl.arange(0, BLOCK_M))[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + (n + tl.arange(0, BLOCK_N))[:, None] * stride_bn + offs_k[None, :]
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2)
    tlx.async_load(a_ptrs, smem_a[0], mask=offs_k[None, :] < K)
    tlx.async_load(b_ptrs, smem_b[0], mask=offs_k[None, :] < K)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    x = part_of(smem_a[0], 0, 0, BLOCK_M, SLICE, left)
    y = part_of(smem_b[0], 0, 1, BLOCK_N, SLICE, right)
    acc = tlx.zeros((BLOCK_M, BLOCK_N), tl.float32, layout=MFMA)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
        left_over = K - (k + 1) * BLOCK_K
        tlx.async_load(a_ptrs, smem_a[(k + 1) % 2], mask=offs_k[None, :] < left_over)
        tlx.async_load(b_ptrs, smem_b[(k + 1) % 2], mask=offs_k[None, :] < left_over)
        tlx.async_load_commit_group()
        for part in tl.static_range(PARTS):
            if part + 1 < PARTS:
                next_x = part_of(smem_a[k % 2], part + 1, 0, BLOCK_M, SLICE, left)
                next_y = part_of(smem_b[k % 2], part + 1, 1, BLOCK_N, SLICE, right)
            else:
                tlx.async_load_wait_group(0)
                next_x = part_of(smem_a[(k + 1) % 2], 0, 0, BLOCK_M, SLICE, left)
                next_y = part_of(smem_b[(k + 1) % 2], 0, 1, BLOCK_N, SLICE, right)
            acc = tl.dot(x, y, acc)
            x, y = next_x, next_y
    acc = tlx.release_layout(acc)
    offs_m, offs_n = m + tl.arange(0, BLOCK_M), n + tl.arange(0, BLOCK_N)
    tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :], acc.to(tlx.dtype_of(c_ptr)),
             mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])
