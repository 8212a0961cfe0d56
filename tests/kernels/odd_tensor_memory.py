"""Products in tensor memory whose columns are no power of two: a producer, one warp that multiplies, and a reader.

Shapes: A (M, K), B (N, K) or (K, N), out (M, N) fp32, in steps of BK along K; one program. `bytes_by_eights` is a
mistake, which is refused.

Input: extents, an element type and how B lies. Output: what `mimw.simulate` and `mimw.compile` take. For example:

    args, meta, out, want = launch(n=176)           out becomes want
"""

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw import TensorDescriptor


@mimw.jit
def product(a_desc, b_desc, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, NK: tl.constexpr,
            WAITS: tl.constexpr = True):
    """out = 2 A B, which goes back to tensor memory on its way, the first 16 columns once more."""
    a = tlx.local_alloc((M, BK), tlx.dtype_of(a_desc), 2)
    b = tlx.local_alloc((N, BK) if NK else (BK, N), tlx.dtype_of(b_desc), 2)
    sums = tlx.local_alloc((M, N), tl.float32, 2, tlx.storage_kind.tmem)
    full, free, done = tlx.alloc_barriers(2), tlx.alloc_barriers(2), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if WAITS:
                tlx.barrier_wait(done[0], 0)
            tlx.local_store(sums[0], tlx.local_load(sums[1]) * 2)
            part = tlx.subslice(sums[0], 0, 16)
            tlx.local_store(part, tlx.local_load(part) + 1)
            tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tlx.local_load(sums[0]))
        with tlx.async_task(num_warps=1):
            for k in range(0, tl.cdiv(K, BK)):
                tlx.barrier_wait(full[k % 2], k // 2 & 1)
                right = tlx.local_trans(b[k % 2]) if NK else b[k % 2]
                tlx.async_dot(a[k % 2], right, sums[1], use_acc=k > 0, mBarriers=[free[k % 2]])
            tlx.tcgen05_commit(done[0])
        with tlx.async_task(num_warps=1):
            for k in range(0, tl.cdiv(K, BK)):
                tlx.barrier_wait(free[k % 2], (k // 2 & 1) ^ 1)
                tlx.barrier_expect_bytes(full[k % 2], (M + N) * BK * tlx.size_of(tlx.dtype_of(a_desc)))
                tlx.async_descriptor_load(a_desc, a[k % 2], [0, k * BK], full[k % 2])
                if NK:
                    tlx.async_descriptor_load(b_desc, b[k % 2], [0, k * BK], full[k % 2])
                else:
                    tlx.async_descriptor_load(b_desc, b[k % 2], [k * BK, 0], full[k % 2])


TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn, "fp32": np.float32, "int8": np.int8}


def launch(n=176, bk=64, element="fp16", nk=True, steps=3, m=128):
    """(arguments, compile-time values, out, what out becomes)."""
    random, type_ = np.random.default_rng(n), TYPES[element]
    a, b = (random.integers(-3, 4, (rows, bk * steps)).astype(type_) for rows in (m, n))
    right, out = b if nk else np.ascontiguousarray(b.T), np.zeros((m, n), np.float32)
    want = 2 * (a.astype(np.float32) @ b.astype(np.float32).T) + (np.arange(n) < 16)
    describe = TensorDescriptor.from_tensor
    args = describe(a, [m, bk]), describe(right, [n, bk] if nk else [bk, n]), out, bk * steps
    return args, dict(M=m, N=n, BK=bk, NK=nk), out, want


@mimw.jit
def written(out, M: tl.constexpr, N: tl.constexpr, FENCED: tl.constexpr, MET: tl.constexpr = True):
    """Each element of out is 64 * 6: the product of what the task itself has stored. With FENCED=False the compiler fences; with
    MET=False each thread goes on behind its fence."""
    a, b = tlx.local_alloc((M, 64), tl.float16, 1), tlx.local_alloc((N, 64), tl.float16, 1)
    sums = tlx.local_alloc((M, N), tl.float32, 1, tlx.storage_kind.tmem)
    done, met = tlx.alloc_barriers(1), tlx.alloc_barriers(1) if MET else tlx.alloc_warp_barrier(1, num_warps=4)
    tlx.local_store(a[0], tl.full((M, 64), 2.0, tl.float16))
    tlx.local_store(b[0], tl.full((N, 64), 3.0, tl.float16))
    if FENCED:
        tlx.fence("async_shared")
        tlx.barrier_arrive(met[0])
    tlx.async_dot(a[0], tlx.local_trans(b[0]), sums[0], use_acc=False, mBarriers=[done[0]])
    tlx.barrier_wait(done[0], 0)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tlx.local_load(sums[0]))


@mimw.jit
def waited_for(a_desc, b_desc, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, NK: tl.constexpr):
    """out = A B, one task for all: each product is done when its word is over."""
    a, b = tlx.local_alloc((M, BK), tl.float16, 1), tlx.local_alloc((N, BK), tl.float16, 1)
    sums, full = tlx.local_alloc((M, N), tl.float32, 1, tlx.storage_kind.tmem), tlx.alloc_barriers(1)
    for k in range(0, tl.cdiv(K, BK)):
        tlx.barrier_expect_bytes(full[0], (M + N) * BK * 2)
        tlx.async_descriptor_load(a_desc, a[0], [0, k * BK], full[0])
        tlx.async_descriptor_load(b_desc, b[0], [0, k * BK], full[0])
        tlx.barrier_wait(full[0], k & 1)
        tlx.async_dot(a[0], tlx.local_trans(b[0]), sums[0], use_acc=k > 0)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tlx.local_load(sums[0]))


@mimw.jit
def from_tensor_memory(a, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Each row of out is three times the sum of that row of a, which goes to tensor memory."""
    left, right = tlx.local_alloc((M, K), tl.float16, 1, tlx.storage_kind.tmem), tlx.local_alloc((N, K), tl.float16, 1)
    sums, done = tlx.local_alloc((M, N), tl.float32, 1, tlx.storage_kind.tmem), tlx.alloc_barriers(1)
    tlx.local_store(left[0], tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]))
    tlx.local_store(right[0], tl.full((N, K), 3.0, tl.float16))
    tlx.async_dot(left[0], tlx.local_trans(right[0]), sums[0], use_acc=False, mBarriers=[done[0]])
    tlx.barrier_wait(done[0], 0)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tlx.local_load(sums[0]))


@mimw.jit
def bytes_by_eights(out, M: tl.constexpr, N: tl.constexpr):
    """72 columns, which 64 rows may have of any element but bytes."""
    a, b = tlx.local_alloc((M // 2, 64), tl.int8, 1), tlx.local_alloc((N - 104, 64), tl.int8, 1)
    sums, done = tlx.local_alloc((M // 2, N - 104), tl.int32, 1, tlx.storage_kind.tmem), tlx.alloc_barriers(1)
    tlx.async_dot(a[0], tlx.local_trans(b[0]), sums[0], use_acc=False, mBarriers=[done[0]])
    tlx.barrier_wait(done[0], 0)


REFUSED = {"columns of bytes": (bytes_by_eights, "multiple of 16 columns")}
