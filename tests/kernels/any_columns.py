"""Products of tiles with any multiple of 8 columns: the kernel, and the arguments of a launch of it.

Shapes: A (BM, BK steps), B (BN, BK steps) or lying the other way, C (BM, BN); one program. The mistake that WAITS=False makes is a
product of what has not come; the last three kernels are refused when they are compiled.

Input: extents, an element type and how B lies. Output: what `mimw.simulate`, `mimw.compile` and a launch take. For example:

    args, meta, c, want = launch(128, 176, 64, warps=8)        c becomes want
"""

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw import TensorDescriptor


@mimw.jit
def multiply(a_desc, b_desc, c, steps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, NK: tl.constexpr, WARPS: tl.constexpr,
             WAITS: tl.constexpr = True, KM: tl.constexpr = False):
    """C = A B of one tile, in steps of BK: A as (M, K) or (K, M), B as (N, K) or (K, N), sums stored by pointers under no mask."""
    a = tlx.local_alloc((BK, BM) if KM else (BM, BK), tlx.dtype_of(a_desc), 2)
    b = tlx.local_alloc((BN, BK) if NK else (BK, BN), tlx.dtype_of(b_desc), 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(steps):
                tlx.barrier_wait(free[i % 2], (i // 2 & 1) ^ 1)
                tlx.barrier_expect_bytes(full[i % 2], (BM + BN) * BK * tlx.size_of(tlx.dtype_of(a_desc)))
                tlx.async_descriptor_load(a_desc, a[i % 2], [i * BK, 0] if KM else [0, i * BK], full[i % 2])
                if NK:
                    tlx.async_descriptor_load(b_desc, b[i % 2], [0, i * BK], full[i % 2])
                else:
                    tlx.async_descriptor_load(b_desc, b[i % 2], [i * BK, 0], full[i % 2])
        with tlx.async_task(num_warps=WARPS, num_regs=232):
            acc = tl.zeros((BM, BN), tl.int32 if tlx.dtype_of(a_desc) == tl.int8 else tl.float32)
            for i in range(steps):
                if WAITS:
                    tlx.barrier_wait(full[i % 2], i // 2 & 1)
                left, right = tlx.local_trans(a[i % 2]) if KM else a[i % 2], tlx.local_trans(b[i % 2]) if NK else b[i % 2]
                acc = tlx.async_dot_wait(0, tlx.async_dot(left, right, acc))
                tlx.barrier_arrive(free[i % 2])
            at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
            tl.store(c + at, acc * tl.where(acc > 0, 1.0, 0.5))


TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn, "fp32": np.float32, "int8": np.int8}


def launch(bm=64, bn=176, bk=64, element="fp16", nk=True, warps=4, steps=3, shallow=None, km=False):
    """(arguments, compile-time values, C, what C becomes)."""
    random, type_ = np.random.default_rng(bn), TYPES[element]
    scale = 20 if element == "int8" else 0.3
    a, b = ((random.standard_normal(shape) * scale).astype(type_) for shape in ((bm, bk * steps), (bn, bk * steps)))
    right = b if nk else np.ascontiguousarray(b.T)
    c = np.zeros((bm, bn), np.float32)
    sums = a.astype(np.float32) @ b.astype(np.float32).T
    a = TensorDescriptor.from_tensor(np.ascontiguousarray(a.T) if km else a, [bk, bm] if km else [bm, bk])
    args = a, TensorDescriptor.from_tensor(right, [bn, bk] if nk else [bk, bn]), c, steps
    return args, dict(BM=bm, BN=bn, BK=bk, NK=nk, WARPS=warps, KM=km), c, sums * np.where(sums > 0, 1, 0.5)


@mimw.jit
def stored_operand(x, b_desc, c, BN: tl.constexpr):
    """C = A B^T, of which threads store A: the fence in front of the product is the compiler's."""
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((BN, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_expect_bytes(full[0], BN * 128)
            tlx.async_descriptor_load(b_desc, b[0], [0, 0], full[0])
        with tlx.async_task(num_warps=4):
            tlx.local_store(a[0], tl.load(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]))
            tlx.barrier_wait(full[0], 0)
            sums = tlx.async_dot_wait(0, tlx.async_dot(a[0], tlx.local_trans(b[0])))
            tl.store(c + tl.arange(0, 64)[:, None] * BN + tl.arange(0, BN)[None, :], sums)


def launch_stored(bn=176):
    """(arguments, C, what C becomes) of `stored_operand`."""
    a, b = ((np.random.default_rng(rows).standard_normal((rows, 64)) * 0.3).astype(np.float16) for rows in (64, bn))
    c = np.zeros((64, bn), np.float32)
    return (a, TensorDescriptor.from_tensor(b, [bn, 64]), c), c, a.astype(np.float32) @ b.astype(np.float32).T


@mimw.jit
def by_slices(a_desc, b_desc, c, BN: tl.constexpr, H: tl.constexpr, BK: tl.constexpr):
    """C = A B^T, by H rows of B after the other, whose place is known only when it runs."""
    a, b = tlx.local_alloc((64, BK), tl.float16, 1), tlx.local_alloc((BN, BK), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_expect_bytes(full[0], (64 + BN) * BK * 2)
            tlx.async_descriptor_load(a_desc, a[0], [0, 0], full[0])
            tlx.async_descriptor_load(b_desc, b[0], [0, 0], full[0])
        with tlx.async_task(num_warps=4):
            tlx.barrier_wait(full[0], 0)
            for i in range(BN // H):
                right = tlx.local_trans(tlx.local_slice(b[0], [i * H, 0], [H, BK]))
                sums = tlx.async_dot_wait(0, tlx.async_dot(a[0], right))
                tl.store(c + tl.arange(0, 64)[:, None] * BN + i * H + tl.arange(0, H)[None, :], sums)


def launch_slices(bn=240, h=80, bk=128):
    """(arguments, compile-time values, C, what C becomes) of `by_slices`."""
    a, b = ((np.random.default_rng(rows).standard_normal((rows, bk)) * 0.3).astype(np.float16) for rows in (64, bn))
    c = np.zeros((64, bn), np.float32)
    args = TensorDescriptor.from_tensor(a, [64, bk]), TensorDescriptor.from_tensor(b, [bn, bk]), c
    return args, dict(BN=bn, H=h, BK=bk), c, a.astype(np.float32) @ b.astype(np.float32).T


@mimw.jit
def accumulated(c, BN: tl.constexpr):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((BN, 64), tl.float16, 1)
    sums = tlx.async_dot_wait(0, tlx.async_dot(a[0], tlx.local_trans(b[0])))
    tl.store(c + tl.arange(0, 64)[:, None] + tl.arange(0, BN)[None, :], sums)


@mimw.jit
def read_again(c, BN: tl.constexpr):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((BN, 64), tl.float16, 1)
    sums = tlx.async_dot_wait(0, tlx.async_dot(a[0], tlx.local_trans(b[0])))
    tl.store(c + tl.arange(0, 64)[:, None] + tl.arange(0, BN)[None, :], sums + tl.trans(tlx.local_load(b[0])))


@mimw.jit
def stored_rows(c, BN: tl.constexpr):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((BN, 64), tl.float16, 1)
    tlx.local_store(b[0], tl.load(c + tl.arange(0, BN)[:, None] + tl.arange(0, 64)[None, :]).to(tl.float16))
    sums = tlx.async_dot_wait(0, tlx.async_dot(a[0], tlx.local_trans(b[0])))
    tl.store(c + tl.arange(0, 64)[:, None] + tl.arange(0, BN)[None, :], sums)
