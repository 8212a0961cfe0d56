"""Products with A in registers: weights that are computed from sums, as in attention, of keys of any multiple of 16.

Shapes: Q (ROWS, 64), K (steps N, 64), V (steps N, D), or (D, steps N) with KEYS_LAST, O (ROWS, D); one program. The mistake that
WAITS=False makes is a product with values that have not come. `from_memory` loads A by pointers; the last kernels are refused when
they are compiled.

Input: extents, an element type and how V lies. Output: what `mimw.simulate`, `mimw.compile` and a launch take. For example:

    args, meta, o, want = launch(n=176, d=128)      o becomes want: softmax of base 2 over all keys, times V
"""

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw import TensorDescriptor


@mimw.jit
def weighted(q_desc, k_desc, v_desc, o, steps, ROWS: tl.constexpr, N: tl.constexpr, D: tl.constexpr, KEYS_LAST: tl.constexpr,
             WARPS: tl.constexpr, WAITS: tl.constexpr = True):
    """O = softmax(Q K^T) V, in blocks of N keys: the weights are the operand A of the second product."""
    ELEMENT: tl.constexpr = tlx.dtype_of(v_desc)
    q = tlx.local_alloc((ROWS, 64), tl.float16, 1)
    k = tlx.local_alloc((N, 64), tl.float16, 2)
    v = tlx.local_alloc((D, N) if KEYS_LAST else (N, D), ELEMENT, 2)
    full, values, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(steps):
                tlx.barrier_wait(free[i % 2], (i // 2 & 1) ^ 1)
                if i == 0:
                    tlx.barrier_expect_bytes(full[0], (ROWS + N) * 128)
                    tlx.async_descriptor_load(q_desc, q[0], [0, 0], full[0])
                else:
                    tlx.barrier_expect_bytes(full[i % 2], N * 128)
                tlx.async_descriptor_load(k_desc, k[i % 2], [i * N, 0], full[i % 2])
                tlx.barrier_expect_bytes(values[i % 2], N * D * tlx.size_of(ELEMENT))
                if KEYS_LAST:
                    tlx.async_descriptor_load(v_desc, v[i % 2], [0, i * N], values[i % 2])
                else:
                    tlx.async_descriptor_load(v_desc, v[i % 2], [i * N, 0], values[i % 2])
        with tlx.async_task(num_warps=WARPS, num_regs=232):
            highest, total = tl.full((ROWS, ), float("-inf"), tl.float32), tl.zeros((ROWS, ), tl.float32)
            acc = tl.zeros((ROWS, D), tl.float32)
            for i in range(steps):
                tlx.barrier_wait(full[i % 2], i // 2 & 1)
                scores = tlx.async_dot_wait(0, tlx.async_dot(q[0], tlx.local_trans(k[i % 2])))
                new = tl.maximum(highest, tl.max(scores, 1))
                p = tl.exp2(scores - new[:, None])
                shrink = tl.exp2(highest - new)
                highest, total = new, total * shrink + tl.sum(p, 1)
                acc = acc * shrink[:, None]
                if WAITS:
                    tlx.barrier_wait(values[i % 2], i // 2 & 1)
                right = tlx.local_trans(v[i % 2]) if KEYS_LAST else v[i % 2]
                acc = tlx.async_dot_wait(0, tlx.async_dot(p.to(ELEMENT), right, acc))
                tlx.barrier_arrive(free[i % 2])
            tl.store(o + tl.arange(0, ROWS)[:, None] * D + tl.arange(0, D)[None, :], acc / total[:, None])


TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn, "fp32": np.float32}


def launch(n=176, d=64, element="fp16", keys_last=False, rows=64, warps=4, steps=3):
    """(arguments, compile-time values, O, what O becomes)."""
    random = np.random.default_rng(n)
    q, k, v = ((random.standard_normal(shape) * factor).astype(type_) for shape, factor, type_ in
               (((rows, 64), 0.3, np.float16), ((n * steps, 64), 1, np.float16), ((n * steps, d), 1, TYPES[element])))
    o = np.zeros((rows, d), np.float32)
    scores = q.astype(np.float32) @ k.astype(np.float32).T
    p = np.exp2(scores - scores.max(1, keepdims=True))
    given = np.ascontiguousarray(v.T) if keys_last else v
    blocks = (q, [rows, 64]), (k, [n, 64]), (given, [d, n] if keys_last else [n, d])
    args = *(TensorDescriptor.from_tensor(array, block) for array, block in blocks), o, steps
    return (args, dict(ROWS=rows, N=n, D=d, KEYS_LAST=keys_last, WARPS=warps), o,
            p @ v.astype(np.float32) / p.sum(1, keepdims=True))


@mimw.jit
def from_memory(x, b_desc, c, K: tl.constexpr, N: tl.constexpr):
    """C = A B^T with A (64, K) by pointers, in another layout than that of a product."""
    ELEMENT: tl.constexpr = tlx.dtype_of(b_desc)
    b, full = tlx.local_alloc((N, K), ELEMENT, 1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_expect_bytes(full[0], N * K * tlx.size_of(ELEMENT))
            tlx.async_descriptor_load(b_desc, b[0], [0, 0], full[0])
        with tlx.async_task(num_warps=4):
            a = tl.load(x + tl.arange(0, 64)[:, None] * K + tl.arange(0, K)[None, :])
            tlx.barrier_wait(full[0], 0)
            sums = tlx.async_dot_wait(0, tlx.async_dot(a, tlx.local_trans(b[0])))
            tl.store(c + tl.arange(0, 64)[:, None] * N + tl.arange(0, N)[None, :], sums)


def launch_from_memory(k=48, n=72, type_=np.float16):
    """(arguments, compile-time values, C, what C becomes) of `from_memory`; numbers are small integers."""
    a, b = (np.random.default_rng(rows).integers(-5, 6, (rows, k)).astype(type_) for rows in (64, n))
    c = np.zeros((64, n), np.int32 if type_ is np.int8 else np.float32)
    return (a, TensorDescriptor.from_tensor(b, [n, k]), c), dict(K=k, N=n), c, a.astype(c.dtype) @ b.astype(c.dtype).T


@mimw.jit
def half_sums(c, K: tl.constexpr, N: tl.constexpr):
    b = tlx.local_alloc((N, K), tl.float16, 1)
    a = tl.zeros((64, K), tl.float16)
    sums = tlx.async_dot_wait(0, tlx.async_dot(a, tlx.local_trans(b[0]), out_dtype=tl.float16))
    tl.store(c + tl.arange(0, 64)[:, None] + tl.arange(0, N)[None, :], sums)


@mimw.jit
def of_fp8(c, K: tl.constexpr, N: tl.constexpr):
    b = tlx.local_alloc((N, K), tl.float8e4nv, 1)
    sums = tlx.async_dot_wait(0, tlx.async_dot(tl.zeros((64, K), tl.float8e4nv), tlx.local_trans(b[0])))
    tl.store(c + tl.arange(0, 64)[:, None] + tl.arange(0, N)[None, :], sums)
