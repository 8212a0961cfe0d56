"""Kernels whose effects stand in an order that passes of Triton's would like to change.

Shapes: a (64, K), b (K, 64) and c (64, 64) in fp16 and fp32, one program, K a multiple of BK, unless a kernel says otherwise. Each
kernel is right; a pass that moved an effect would make it wrong.
"""

import triton.language as tl

import mimw
from mimw import tle, tlx


@mimw.jit
def filled_under_an_if(a, b, c, flag, K, BK: tl.constexpr):
    buf = tlx.local_alloc((64, BK), tl.float16, 1)
    m, n, kk = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, BK)
    acc = tl.zeros((64, 64), tl.float32)
    f = tl.load(flag)
    for k0 in range(0, K, BK):
        if f == 0:
            tlx.local_store(buf[0], tl.load(a + m[:, None] * K + (k0 + kk)[None, :]))
        x = tlx.local_load(buf[0])
        w = tl.load(b + (k0 + kk)[:, None] * 64 + n[None, :])
        acc = tl.dot(x, w, acc)
    tl.store(c + m[:, None] * 64 + n[None, :], acc)


@mimw.jit
def filled_under_an_if_by_pointers(a, b, c, flag, K, BK: tl.constexpr):
    buf = tle.gpu.alloc([64, BK], dtype=tl.float16)
    m, n, kk = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, BK)
    acc = tl.zeros((64, 64), tl.float32)
    f = tl.load(flag)
    for k0 in range(0, K, BK):
        p = tle.gpu.local_ptr(buf)
        if f == 0:
            tl.store(p, tl.load(a + m[:, None] * K + (k0 + kk)[None, :]))
        x = tl.load(p)
        w = tl.load(b + (k0 + kk)[:, None] * 64 + n[None, :])
        acc = tl.dot(x, w, acc)
    tl.store(c + m[:, None] * 64 + n[None, :], acc)


@mimw.jit
def read_before_a_loop_that_writes(a, b, c, flag, K, BK: tl.constexpr):
    buf = tlx.local_alloc((64, BK), tl.float16, 1)
    m, n, kk = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, BK)
    acc = tl.zeros((64, 64), tl.float32)
    tlx.local_store(buf[0], tl.load(a + m[:, None] * K + kk[None, :]))
    first = tlx.local_load(buf[0])
    for k0 in range(0, K, BK):
        tlx.local_store(buf[0], tl.load(a + m[:, None] * K + (k0 + kk)[None, :]))
        w = tl.load(b + (k0 + kk)[:, None] * 64 + n[None, :])
        acc = tl.dot(first, w, acc)
    last = tl.sum(tlx.local_load(buf[0]).to(tl.float32), 1)
    tl.store(c + m[:, None] * 64 + n[None, :], acc + last[:, None])


@mimw.jit
def unrolled(a, b, c, flag, K, BK: tl.constexpr):
    buf = tlx.local_alloc((64, BK), tl.float16, 2)
    m, n, kk = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, BK)
    acc = tl.zeros((64, 64), tl.float32)
    f = tl.load(flag)
    tlx.local_store(buf[0], tl.zeros((64, BK), tl.float16))
    tlx.local_store(buf[1], tl.zeros((64, BK), tl.float16))
    for i in tl.range(0, K // BK, loop_unroll_factor=2):
        if f == 0:
            tlx.local_store(buf[i % 2], tl.load(a + m[:, None] * K + (i * BK + kk)[None, :]))
        w = tl.load(b + (i * BK + kk)[:, None] * 64 + n[None, :])
        acc = tl.dot(tlx.local_load(buf[i % 2]), w, acc)
    tl.store(c + m[:, None] * 64 + n[None, :], acc)


@mimw.jit
def own_loop_beside_words(a, b, c, flag, K, BK: tl.constexpr):
    """The first loop is Triton's to pipeline, the second is not; a read of shared memory alone hinders nobody."""
    scale = tlx.local_alloc((64, 64), tl.float32, 1)
    m, n, kk = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, BK)
    acc = tl.zeros((64, 64), tl.float32)
    tlx.local_store(scale[0], tl.zeros((64, 64), tl.float32) + 2)
    for k0 in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k0 + kk)[None, :])
        w = tl.load(b + (k0 + kk)[:, None] * 64 + n[None, :])
        acc = tl.dot(x, w, acc) + 0 * tlx.local_load(scale[0])
    tlx.local_store(scale[0], acc)
    for k0 in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k0 + kk)[None, :])
        w = tl.load(b + (k0 + kk)[:, None] * 64 + n[None, :])
        acc = tl.dot(x, w, acc)
        tlx.local_store(scale[0], acc)
    tl.store(c + m[:, None] * 64 + n[None, :], tlx.local_load(scale[0]))


@mimw.jit
def meeting_in_a_loop(a, b, c, flag, K, BK: tl.constexpr):
    """Two CTAs read each other's tile; the meetings keep them apart."""
    rank = tlx.cluster_cta_rank()
    mine = tlx.local_alloc((64, BK), tl.float16, 1)
    m, n, kk = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, BK)
    acc = tl.zeros((64, 64), tl.float32)
    for k0 in range(0, K, BK):
        tlx.remote_shmem_store(mine[0], tl.load(a + m[:, None] * K + (k0 + kk)[None, :]), rank ^ 1)
        tlx.cluster_barrier()
        w = tl.load(b + (k0 + kk)[:, None] * 64 + n[None, :])
        acc = tl.dot(tlx.local_load(mine[0]), w, acc)
        tlx.cluster_barrier()
    tl.store(c + (tl.program_id(0) * 64 + m)[:, None] * 64 + n[None, :], acc)


@mimw.jit
def between_reads(x, y, desc, K, WHAT: tl.constexpr):
    """One effect between two reads of a buffer and two of global memory."""
    buf = tlx.local_alloc((128, ), tl.int32, 2)
    tile = tlx.local_alloc((16, 64), tl.float16, 1)
    bars = tlx.alloc_barriers(2)
    at = tl.arange(0, 128)
    tlx.local_store(buf[0], at)
    before = tlx.local_load(buf[0]) + tl.load(x + at)
    if WHAT == "local_store":
        tlx.local_store(buf[1], at)
    elif WHAT == "local_scatter":
        tlx.local_scatter(buf[1], at, at, 0)
    elif WHAT == "local_atomic":
        tl.atomic_add(tle.gpu.local_ptr(tle.gpu.alloc([128], dtype=tl.int32)), at)
    elif WHAT == "store":
        tl.store(y + K + at, at)
    elif WHAT == "atomic":
        tl.atomic_add(y + K + at, at)
    elif WHAT == "acquire":
        tl.atomic_add(y + K, 1, sem="acquire")
    elif WHAT == "barrier_wait":
        tlx.barrier_wait(bars[0], 1)
    elif WHAT == "barrier_arrive":
        tlx.barrier_arrive(bars[0])
    elif WHAT == "barrier_expect":
        tlx.barrier_expect_bytes(bars[0], 0)
    elif WHAT == "tma_load":
        tlx.barrier_expect_bytes(bars[0], 2048)
        tlx.async_descriptor_load(desc, tile[0], [0, 0], bars[0])
    elif WHAT == "tma_store":
        tlx.async_descriptor_store(desc, tile[0], [0, 0])
    elif WHAT == "tma_store_wait":
        tlx.async_descriptor_store_wait(0)
    elif WHAT == "async_load":
        tlx.async_load(x + at, buf[1])
    elif WHAT == "async_wait":
        tlx.async_load_wait_group(0)
    elif WHAT == "fence_async":
        tlx.fence("async_shared")
    elif WHAT == "fence_gpu":
        tlx.fence("gpu")
    elif WHAT == "named_barrier_wait":
        tlx.named_barrier_wait(9, 128)
    elif WHAT == "named_barrier_arrive":
        tlx.named_barrier_arrive(9, 256)
    elif WHAT == "cluster_barrier":
        tlx.cluster_barrier()
    elif WHAT == "remote_store":
        tlx.remote_shmem_store(buf[1], at, tlx.cluster_cta_rank() ^ 1)
    elif WHAT == "asm":
        tl.inline_asm_elementwise("mov.u32 $0, $1;", "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1)
    elif WHAT == "debug_barrier":
        tl.debug_barrier()
    after = tlx.local_load(buf[0]) + tl.load(x + at)
    tl.store(y + at, before * 3 + after)


@mimw.jit
def unrolled_with_branches(x, y, flag_ptr):
    """Rounds of one loop that no pass leaves alike: i % 3 == 0 is known in some of them."""
    buf = tlx.local_alloc((64, ), tl.int32, 2)
    bar = tlx.alloc_barriers(1)
    at = tl.arange(0, 64)
    flag = tl.load(flag_ptr)
    came = 0
    for i in tl.range(0, 5, loop_unroll_factor=3):
        if flag < 100:
            tlx.local_store(buf[0], tl.load(x + i * 64 + at))
            tlx.barrier_arrive(bar)
            tlx.barrier_wait(bar, came & 1)
            came += 1
        if (i % 3 == 0) | (flag == 1):
            tlx.local_store(buf[1], tl.load(x + at))
            tlx.barrier_arrive(bar)
            tlx.barrier_wait(bar, came & 1)
            came += 1
            tl.store(y + i * 64 + at, tlx.local_load(buf[1]))
        tl.atomic_add(y + 5 * 64 + at, tlx.local_load(buf[0]))


@mimw.jit
def by_descriptor_beside_loads(x, y, desc, K):
    """A load by descriptor is a copy and the wait for it, a store a tile, a fence, a copy and the wait."""
    at = tl.arange(0, 64)
    buf = tlx.local_alloc((64, ), tl.int32, 1)
    tlx.local_store(buf[0], at)
    own = tl.make_tensor_descriptor(y + 64 * K, [K * 64], [1], [64])
    for i in tl.range(0, K, num_stages=2):
        tile = desc.load([i * 64])
        own.store([i * 64], tile + 1)
        tl.store(y + i * 64 + at, tile + tl.load(x + i * 64 + at))
    tl.store(y + 128 * K + at, tlx.local_load(buf[0]))
