"""Kernels of one source for chips of several vendors: what a chip lacks, another op stands for (docs/AMD.md).

Shapes: see each kernel; a program makes one tile of its output. WGMMA is false on chips with tensor memory, where `async_dot`
adds up in that memory: there a product is one of tiles. Each kernel is right.
"""

from __future__ import annotations

import triton.language as tl

import mimw
from mimw import tle, tlx


@mimw.jit
def softmax(x, y, rows, N: tl.constexpr):
    """The README's kernel: `rows` rows of N a program, by descriptors of one row."""
    pipe = tle.pipe(capacity=3, row=tle.gpu.alloc([3, 1, N], tl.float32))
    with tlx.async_tasks():
        with tlx.async_task(num_warps=1):            # load
            for i in range(rows):
                tle.gpu.copy(x, pipe.writer().acquire(i).row, [1, N], [tl.program_id(0) * rows + i, 0])
                pipe.writer().commit(i)
        with tlx.async_task("default"):              # compute
            for i in range(rows):
                row = tlx.local_load(pipe.reader().wait(i).slot.row)
                y.store([tl.program_id(0) * rows + i, 0], tl.softmax(row, 1))
                pipe.reader().release(i)


@mimw.jit
def pipelined_gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """C = A B^T of fp16, A (M, K) and B (N, K); copies by pointers run STAGES - 1 steps ahead, in groups, without tasks."""
    tiles_a = tlx.local_alloc((BM, BK), tl.float16, STAGES)
    tiles_b = tlx.local_alloc((BN, BK), tl.float16, STAGES)
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    steps = tl.cdiv(K, BK)
    for i in tl.static_range(STAGES - 1):
        start(a, b, tiles_a, tiles_b, i, steps, m, n, k, M, N, K, BK, STAGES)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(steps):
        tlx.async_load_wait_group(STAGES - 2)
        acc = tl.dot(tlx.local_load(tiles_a[i % STAGES]), tl.trans(tlx.local_load(tiles_b[i % STAGES])), acc)
        start(a, b, tiles_a, tiles_b, i + STAGES - 1, steps, m, n, k, M, N, K, BK, STAGES)
    tlx.async_load_wait_group(0)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


@mimw.jit
def start(a, b, tiles_a, tiles_b, i, steps, m, n, k, M, N, K, BK: tl.constexpr, STAGES: tl.constexpr):
    """Begin the copies of step i, a group of their own; an empty group behind the last step."""
    column = i * BK + k
    live = (column < K) & (i < steps)
    tlx.async_load(a + m[:, None] * K + column[None, :], tiles_a[i % STAGES], mask=(m < M)[:, None] & live[None, :])
    tlx.async_load(b + n[:, None] * K + column[None, :], tiles_b[i % STAGES], mask=(n < N)[:, None] & live[None, :])
    tlx.async_load_commit_group()


@mimw.jit
def product(a, b, acc, WGMMA: tl.constexpr):
    """acc + a b^T of two buffers, done when the call is over."""
    if WGMMA:
        return tlx.async_dot_wait(0, tlx.async_dot(a, tlx.local_trans(b), acc))
    else:
        return tl.dot(tlx.local_load(a), tl.trans(tlx.local_load(b)), acc)


@mimw.jit
def producer_consumer_gemm(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
                           WGMMA: tl.constexpr):
    """C = A B^T of fp16 by descriptors: one task copies, two multiply, each its half of the rows of a tile."""
    a = tlx.local_alloc((BM // 2, BK), tl.float16, 2 * STAGES)
    b = tlx.local_alloc((BN, BK), tl.float16, STAGES)
    out = tlx.local_alloc((BM // 2, BN), tl.float16, 2)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES, arrive_count=2)
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    steps = tl.cdiv(K, BK)
    with tlx.async_tasks():
        with tlx.async_task("default"):                                 # load
            for i in range(steps):
                slot = i % STAGES
                tlx.barrier_wait(free[slot], (i // STAGES & 1) ^ 1)
                tlx.barrier_expect_bytes(full[slot], (BM + BN) * BK * 2)
                tlx.async_descriptor_load(a_desc, a[2 * slot], [m, i * BK], full[slot])
                tlx.async_descriptor_load(a_desc, a[2 * slot + 1], [m + BM // 2, i * BK], full[slot])
                tlx.async_descriptor_load(b_desc, b[slot], [n, i * BK], full[slot])
        with tlx.async_task(num_warps=4, num_regs=168, replicate=2):    # multiply
            half = tlx.async_task_replica_id()
            acc = tl.zeros((BM // 2, BN), tl.float32)
            for i in range(steps):
                slot = i % STAGES
                tlx.barrier_wait(full[slot], i // STAGES & 1)
                acc = product(a[2 * slot + half], b[slot], acc, WGMMA)
                tlx.barrier_arrive(free[slot])
            tlx.local_store(out[half], acc.to(tl.float16))
            tlx.fence("async_shared")
            tlx.async_descriptor_store(c_desc, out[half], [m + half * (BM // 2), n])
            tlx.async_descriptor_store_wait(0)


@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, keys, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
              WGMMA: tl.constexpr):
    """O = softmax(scale Q K^T) V of one head in fp16, by descriptors; the number of keys is a multiple of BN."""
    q = tlx.local_alloc((BM, D), tl.float16, 1)
    k, v = tlx.local_alloc((BN, D), tl.float16, 2), tlx.local_alloc((BN, D), tl.float16, 2)
    q_full, k_full, v_full = tlx.alloc_barriers(1), tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    k_free, v_free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    row = tl.program_id(0) * BM
    with tlx.async_tasks():
        with tlx.async_task("default"):                     # load
            tlx.barrier_expect_bytes(q_full[0], BM * D * 2)
            tlx.async_descriptor_load(q_desc, q[0], [row, 0], q_full[0])
            for i in range(keys // BN):
                slot, phase = i % 2, (i // 2 & 1) ^ 1
                tlx.barrier_wait(k_free[slot], phase)
                tlx.barrier_expect_bytes(k_full[slot], BN * D * 2)
                tlx.async_descriptor_load(k_desc, k[slot], [i * BN, 0], k_full[slot])
                tlx.barrier_wait(v_free[slot], phase)
                tlx.barrier_expect_bytes(v_full[slot], BN * D * 2)
                tlx.async_descriptor_load(v_desc, v[slot], [i * BN, 0], v_full[slot])
        with tlx.async_task(num_warps=4, num_regs=232):     # softmax
            most = tl.full((BM, ), float("-inf"), tl.float32)
            total = tl.zeros((BM, ), tl.float32)
            acc = tl.zeros((BM, D), tl.float32)
            tlx.barrier_wait(q_full[0], 0)
            for i in range(keys // BN):
                slot, phase = i % 2, i // 2 & 1
                tlx.barrier_wait(k_full[slot], phase)
                scores = product(q[0], k[slot], tl.zeros((BM, BN), tl.float32), WGMMA) * scale
                tlx.barrier_arrive(k_free[slot])
                higher = tl.maximum(most, tl.max(scores, 1))
                p = tl.exp(scores - higher[:, None])
                before = tl.exp(most - higher)
                total, most = total * before + tl.sum(p, 1), higher
                tlx.barrier_wait(v_full[slot], phase)
                acc = weighted(p.to(tl.float16), v[slot], acc * before[:, None], WGMMA)
                tlx.barrier_arrive(v_free[slot])
            o_desc.store([row, 0], (acc / total[:, None]).to(tl.float16))


@mimw.jit
def weighted(p, v, acc, WGMMA: tl.constexpr):
    """acc + p v of a tile and a buffer, done when the call is over."""
    if WGMMA:
        return tlx.async_dot_wait(0, tlx.async_dot(p, v, acc))
    else:
        return tl.dot(p, tlx.local_load(v), acc)


@mimw.jit
def two_readers(x_desc, y, z, steps, N: tl.constexpr):
    """y = x + 1 and z = 2 x: a pipe whose chunks of (N, N) come by descriptor, and which two tasks read."""
    pipe = tle.pipe(capacity=2, name="rows", readers=("plus", "twice"), x=tle.gpu.alloc([2, N, N], tl.float32))
    with tlx.async_tasks():
        with tlx.async_task("default"):         # load
            for i in range(steps):
                tle.gpu.copy(x_desc, pipe.writer().acquire(i).x, [N, N], [i * N, 0])
                pipe.writer().commit(i)
        with tlx.async_task(num_warps=4):       # plus
            for i in range(steps):
                tile = tlx.local_load(pipe.reader("plus").wait(i).slot.x)
                pipe.reader("plus").release(i)
                tl.store(y + i * N * N + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], tile + 1)
        with tlx.async_task(num_warps=4):       # twice
            for i in range(steps):
                tile = tlx.local_load(pipe.reader("twice").wait(i).slot.x)
                pipe.reader("twice").release(i)
                tl.store(z + i * N * N + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], tile * 2)


@mimw.jit
def compaction(x, y, count, threshold, N: tl.constexpr):
    """y = the numbers of x above the threshold, in their order, by way of shared memory; count[0] says how many."""
    at = tl.arange(0, N)
    numbers = tl.load(x + at)
    keep = numbers > threshold
    before, total = tle.cumsum(keep)
    kept = tle.gpu.alloc([N], tl.float32)
    tl.store(tle.gpu.local_ptr(kept, (before, )), numbers, mask=keep)
    tl.store(y + at, tl.load(tle.gpu.local_ptr(kept, (at, ))), mask=at < total)
    tl.store(count, total)
