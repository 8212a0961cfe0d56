"""Programs for gfx1250 whose tiles the tensor data mover brings: attention, microscaling products, a persistent loop, a long sum.

Operands are (rows, K) and (columns, K), so C = A B^T; tensors may end inside of a block.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, scale, keys, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              PAD: tl.constexpr):
    """K and V of a step by one fused copy, half of the warps each; what lies behind the last key reads zero and is masked."""
    padded: tl.constexpr = tlx.padded_shared_layout_encoding.with_identity_for([[D, PAD]], [BLOCK_N, D], [1, 0])
    smem_q = tlx.local_alloc((BLOCK_M, D), tlx.dtype_of(q_desc), 1)
    smem_k = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(k_desc), 2, layout=padded)
    smem_v = tlx.local_alloc((BLOCK_N, D), tlx.dtype_of(v_desc), 2, layout=padded)
    row = tl.program_id(0) * BLOCK_M
    tlx.async_amd_descriptor_load(q_desc, smem_q[0], [row, 0])
    k_here, v_here = tlx.update_tensor_descriptor(k_desc, [0, 0]), tlx.update_tensor_descriptor(v_desc, [0, 0])
    tlx.async_amd_descriptor_load_fused([(k_here, smem_k[0], 0b0011), (v_here, smem_v[0], 0b1100)])
    m_i = tl.full((BLOCK_M, ), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M, ), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    tlx.async_amd_descriptor_wait(1)
    q = tlx.local_load(smem_q[0])
    for j in tl.range(0, tl.cdiv(keys, BLOCK_N)):
        k_here = tlx.update_tensor_descriptor(k_here, add_offsets=[BLOCK_N, 0], clamp_bounds=True)
        v_here = tlx.update_tensor_descriptor(v_here, add_offsets=[BLOCK_N, 0], clamp_bounds=True)
        tlx.async_amd_descriptor_load_fused(((k_here, smem_k[(j + 1) % 2], 0b0011), (v_here, smem_v[(j + 1) % 2], 0b1100)), ".cg")
        token = tlx.async_amd_descriptor_wait(pendings=1)
        s = tl.dot(q, tlx.local_load(tlx.local_trans(smem_k[j % 2]), token)) * scale
        s = tl.where((j * BLOCK_N + tl.arange(0, BLOCK_N) < keys)[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.math.exp2(s - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
        v = tlx.local_load(smem_v[j % 2], token=token)
        acc = tl.dot(p.to(tlx.dtype_of(v_desc)), v, acc * alpha[:, None])
    tlx.local_store(smem_q[0], (acc / l_i[:, None]).to(tlx.dtype_of(o_desc)))
    tlx.async_amd_descriptor_store(o_desc, smem_q[0], offsets=[row, 0])
    tlx.async_amd_descriptor_wait()


@mimw.jit
def scaled_product(a_desc, b_desc, sa_desc, sb_desc, c_ptr, M, N, K, FORMAT: tl.constexpr, BLOCK_M: tl.constexpr,
                   BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_BUFFERS: tl.constexpr):
    """Operands and block scales by the mover, NUM_BUFFERS - 1 steps ahead, in four rings; e8m0 scales for each 32 along K."""
    DIV: tl.constexpr = 2 if FORMAT == "e2m1" else 1
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K // DIV), tlx.dtype_of(a_desc), NUM_BUFFERS)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K // DIV), tlx.dtype_of(b_desc), NUM_BUFFERS)
    scales_a = tlx.local_alloc((BLOCK_M, BLOCK_K // 32), tlx.dtype_of(sa_desc), NUM_BUFFERS)
    scales_b = tlx.local_alloc((BLOCK_N, BLOCK_K // 32), tlx.dtype_of(sb_desc), NUM_BUFFERS)
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    steps = tl.cdiv(K, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in tl.range(0, steps + NUM_BUFFERS - 1):
        slot, on = i % NUM_BUFFERS, i < steps
        tlx.async_amd_descriptor_load(a_desc, smem_a[slot], [m, i * (BLOCK_K // DIV)], pred=on)
        tlx.async_amd_descriptor_load(b_desc, smem_b[slot], [n, i * (BLOCK_K // DIV)], pred=on)
        tlx.async_amd_descriptor_load(sa_desc, scales_a[slot], [m, i * (BLOCK_K // 32)], pred=on)
        tlx.async_amd_descriptor_load(sb_desc, scales_b[slot], [n, i * (BLOCK_K // 32)], pred=on)
        if i >= NUM_BUFFERS - 1:
            tlx.async_amd_descriptor_wait(4 * (NUM_BUFFERS - 1))
            old = (i + 1) % NUM_BUFFERS
            x, sx = tlx.local_load(smem_a[old]), tlx.local_load(scales_a[old])
            w, sw = tlx.local_load(tlx.local_trans(smem_b[old])), tlx.local_load(scales_b[old])
            acc = tl.dot_scaled(x, sx, FORMAT, w, sw, FORMAT, acc)
    tlx.async_amd_descriptor_wait(0)
    offs_m, offs_n = m + tl.arange(0, BLOCK_M), n + tl.arange(0, BLOCK_N)
    tlx.buffer_store(acc.to(tlx.dtype_of(c_ptr)), c_ptr, offs_m[:, None] * N + offs_n[None, :],
                     mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])


@mimw.jit
def next_tile(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """The first row and column of a tile; GROUP rows of tiles are gone through together."""
    across = tl.cdiv(N, BLOCK_N)
    first = tile // (GROUP * across) * GROUP
    size = min(tl.cdiv(M, BLOCK_M) - first, GROUP)
    return (first + tile % (GROUP * across) % size) * BLOCK_M, tile % (GROUP * across) // size * BLOCK_N


@mimw.jit
def persistent(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
               NUM_CUS: tl.constexpr, WARP_BASES: tl.constexpr, REG_BASES: tl.constexpr):
    """A tile's result goes out while the next tile's operands come in; A and C share memory with nothing, B is read as a view."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    smem_a = tlx.local_alloc((BLOCK_M, BLOCK_K), tlx.dtype_of(a_ptr), 2)
    smem_b = tlx.local_alloc((BLOCK_N, BLOCK_K), tlx.dtype_of(b_ptr), 2)
    smem_c = tlx.local_alloc((BLOCK_M, BLOCK_N), tlx.dtype_of(c_ptr), 2)
    tiles, steps = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    done = 0
    for tile in range(tl.program_id(0), tiles, NUM_CUS):
        m, n = next_tile(tile, M, N, BLOCK_M, BLOCK_N, 2)
        tlx.async_amd_descriptor_load(a_desc, smem_a[0], [m, 0])
        tlx.async_amd_descriptor_load(b_desc, smem_b[0], [n, 0])
        if tile + NUM_CUS < tiles:
            ahead_m, ahead_n = next_tile(tile + NUM_CUS, M, N, BLOCK_M, BLOCK_N, 2)
            tlx.amd_descriptor_prefetch_tensor(a_desc, [ahead_m, 0], speculative=True)
            tlx.amd_descriptor_prefetch_tensor(b_desc, [ahead_n, 0], pred=ahead_n < N)
        acc = tlx.require_amd_wmma_layout(tl.zeros((BLOCK_M, BLOCK_N), tl.float32), warp_bases=WARP_BASES, reg_bases=REG_BASES,
                                          instr_shape=(16, 16, 32))
        for k in range(0, steps):
            tlx.async_amd_descriptor_load(a_desc, smem_a[(k + 1) % 2], [m, (k + 1) * BLOCK_K], pred=k + 1 < steps)
            tlx.async_amd_descriptor_load(b_desc, smem_b[(k + 1) % 2], [n, (k + 1) * BLOCK_K], pred=k + 1 < steps)
            tlx.async_amd_descriptor_wait(2)
            acc = tl.dot(tlx.local_load(smem_a[k % 2]), tlx.local_load(tlx.local_trans(smem_b[k % 2])), acc)
        tlx.local_store(smem_c[done % 2], tlx.release_layout(acc).to(tlx.dtype_of(c_ptr)))
        tlx.async_amd_descriptor_store(c_desc, smem_c[done % 2], [m, n])
        done += 1
    tlx.async_amd_descriptor_wait(0)


@mimw.jit
def row_sums(x_ptr, y_ptr, rows, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, NUM_BUFFERS: tl.constexpr):
    """A producer wave moves a descriptor along the rows and hands blocks over by barriers; four waves sum them up."""
    tiles = tlx.local_alloc((BLOCK_M, BLOCK_N), tlx.dtype_of(x_ptr), NUM_BUFFERS)
    full, empty = tlx.alloc_barriers(NUM_BUFFERS), tlx.alloc_barriers(num_barriers=NUM_BUFFERS, arrive_count=1)
    first = tl.program_id(0) * BLOCK_M
    x_desc = tl.make_tensor_descriptor(x_ptr, [rows, n], [n, 1], [BLOCK_M, BLOCK_N])
    steps = tl.cdiv(n, BLOCK_N)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            total = tl.zeros((BLOCK_M, ), tl.float32)
            largest = tl.full((BLOCK_M, ), float("-inf"), tl.float32)
            for i in range(steps):
                slot = i % NUM_BUFFERS
                tlx.barrier_wait(bar=full[slot], phase=(i // NUM_BUFFERS) & 1)
                x = tlx.local_load(tiles[slot]).to(tl.float32)
                tlx.barrier_arrive(empty[slot])
                total += tl.sum(x, 1)
                largest = tl.maximum(largest, tl.max(x, 1))
            lines = first + tl.arange(0, BLOCK_M)
            tlx.buffer_store(total, y_ptr, lines * 2, mask=lines < rows)
            tlx.buffer_store(largest, y_ptr, lines * 2 + 1, mask=lines < rows)
        with tlx.async_task(num_warps=1, num_regs=48):
            here = tlx.update_tensor_descriptor(x_desc, add_offsets=[first, 0], clamp_bounds=True)
            for i in range(steps):
                slot = i % NUM_BUFFERS
                tlx.barrier_wait(empty[slot], ((i // NUM_BUFFERS) & 1) ^ 1)
                token = tlx.async_amd_descriptor_load(here, tiles[slot])
                here = tlx.update_tensor_descriptor(here, add_offsets=[0, BLOCK_N], clamp_bounds=True)
                tlx.async_amd_descriptor_wait(tokens=[token])
                tlx.barrier_arrive(full[slot], 1)
