"""Everyday kernels that stage tiles in shared memory by TMA, pipes and asynchronous products, with extents that are no powers of
two.

Shapes: see each case. Each kernel is right, for sm_90a.

Input: nothing. Output: `CASES`; a case gives a kernel, its arguments, compile-time values and what the last array becomes. For
example:

    kernel, args, meta, want, result = arguments(CASES["gemm"])         mimw.simulate(kernel, (1, ), *args, **meta)
"""

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw import TensorDescriptor
from tests.kernels.odd_extents import numbers


def described(array, block):
    return TensorDescriptor.from_tensor(array, block)


@mimw.jit
def _gemm(a_desc, b_desc, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One task loads, another one multiplies: a ring of three slots."""
    a, b = tlx.local_alloc((BM, BK), tl.bfloat16, 3), tlx.local_alloc((BN, BK), tl.bfloat16, 3)
    full, free = tlx.alloc_barriers(3), tlx.alloc_barriers(3)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(tl.cdiv(k, BK)):
                tlx.barrier_wait(free[i % 3], (i // 3 & 1) ^ 1)
                tlx.barrier_expect_bytes(full[i % 3], (BM + BN) * BK * 2)
                tlx.async_descriptor_load(a_desc, a[i % 3], [0, i * BK], full[i % 3])
                tlx.async_descriptor_load(b_desc, b[i % 3], [0, i * BK], full[i % 3])
        with tlx.async_task(num_warps=4):
            acc = tl.zeros((BM, BN), tl.float32)
            for i in range(tl.cdiv(k, BK)):
                tlx.barrier_wait(full[i % 3], i // 3 & 1)
                acc = tlx.async_dot_wait(0, tlx.async_dot(a[i % 3], tlx.local_trans(b[i % 3]), acc))
                tlx.barrier_arrive(free[i % 3])
            columns = tl.arange(0, BN)
            bias = tl.sum(acc, 1) / n
            tl.store(c + tl.arange(0, BM)[:, None] * n + columns[None, :], acc - bias[:, None], mask=(columns < n)[None, :])


def gemm():

    a, b = numbers(64, 200).astype(ml_dtypes.bfloat16), numbers(170, 200, seed=1).astype(ml_dtypes.bfloat16)
    sums = a.astype(np.float32) @ b.astype(np.float32).T
    return _gemm, (described(a, [64, 64]), described(b, [176, 64]), np.zeros((64, 170), np.float32), 170, 200), dict(
        BM=64, BN=176, BK=64), sums - sums.mean(1, keepdims=True)


@mimw.jit
def _by_pipe(a_desc, b_desc, c_desc, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same by a pipe of TLE, and the result by TMA."""
    pipe = tle.pipe(capacity=2, a=tle.gpu.alloc([2, BM, BK], tl.float16), b=tle.gpu.alloc([2, BK, BN], tl.float16))
    out = tle.gpu.alloc([BM, BN], tl.float16)
    tle.gpu.warp_specialize([(_multiply, (pipe.reader(), out, c_desc, k, BM, BN, BK)),
                             (_bring, (pipe.writer(), a_desc, b_desc, k, BM, BN, BK))], [4], [64])


@mimw.jit
def _bring(writer, a_desc, b_desc, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    for i in range(tl.cdiv(k, BK)):
        slot = writer.acquire(i)
        tle.gpu.copy(a_desc, slot.a, [BM, BK], [0, i * BK])
        tle.gpu.copy(b_desc, slot.b, [BK, BN], [i * BK, 0])
        writer.commit(i)


@mimw.jit
def _multiply(reader, out, c_desc, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(tl.cdiv(k, BK)):
        slot = reader.wait(i).slot
        acc = tl.dot(tl.load(tle.gpu.local_ptr(slot.a)), tl.load(tle.gpu.local_ptr(slot.b)), acc)
        reader.release(i)
    tl.store(tle.gpu.local_ptr(out), acc.to(tl.float16))
    tle.gpu.copy(out, c_desc, [BM, BN], [0, 0])


def by_pipe():
    a, b = numbers(64, 160, dtype=np.float16), numbers(160, 96, seed=1, dtype=np.float16)
    c = np.zeros((64, 96), np.float16)
    return _by_pipe, (described(a, [64, 48]), described(b, [48, 96]), described(c, [64, 96]), 160), dict(
        BM=64, BN=96, BK=48), a.astype(np.float32) @ b.astype(np.float32)


@mimw.jit
def _attention(q_desc, k_desc, v_desc, out, keys, scale, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
    """Blocks of 80 keys by TMA; what lies behind the last key becomes zero where it lies."""
    q, k, v = (tle.gpu.alloc([BQ, D], tl.float16), tle.gpu.alloc([BK, D], tl.float16), tle.gpu.alloc([BK, D], tl.float16))
    full = tlx.alloc_barriers(2)
    tlx.barrier_expect_bytes(full[0], BQ * D * 2)
    tlx.async_descriptor_load(q_desc, q, [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    acc, total = tl.zeros((BQ, D), tl.float32), tl.zeros((BQ, ), tl.float32)
    for i in range(tl.cdiv(keys, BK)):
        tlx.barrier_expect_bytes(full[1], 2 * BK * D * 2)
        tlx.async_descriptor_load(k_desc, k, [i * BK, 0], full[1])
        tlx.async_descriptor_load(v_desc, v, [i * BK, 0], full[1])
        tlx.barrier_wait(full[1], i & 1)
        at = i * BK + tl.arange(0, BK)
        tl.store(tle.gpu.local_ptr(v), tl.zeros((BK, D), tl.float16), mask=(at >= keys)[:, None] & (tl.arange(0, D) < D)[None, :])
        tlx.fence("async_shared")
        scores = tlx.async_dot_wait(0, tlx.async_dot(q, tlx.local_trans(k))) * scale
        p = tl.exp(tl.where((at < keys)[None, :], scores, -float("inf")))
        total += tl.sum(p, 1)
        acc = tlx.async_dot_wait(0, tlx.async_dot(p.to(tl.float16), v, acc))
        tl.debug_barrier()
    tl.store(out + tl.arange(0, BQ)[:, None] * D + tl.arange(0, D)[None, :], acc / total[:, None])


def attention():
    """The rows behind the last key are NaN in memory."""
    q, k, v = (numbers(*shape, seed=at, dtype=np.float16) for at, shape in enumerate(((64, 64), (160, 64), (160, 64))))
    v[130:] = np.nan
    p = np.exp(q.astype(np.float32) @ k[:130].astype(np.float32).T * 0.1)
    want = p / p.sum(1, keepdims=True) @ v[:130].astype(np.float32)
    return _attention, (described(q, [64, 64]), described(k, [80, 64]), described(v, [80, 64]), np.zeros((64, 64), np.float32), 130,
                        0.1), dict(D=64, BQ=64, BK=80), want


@mimw.jit
def _norm(x, y, rows, columns, M: tl.constexpr, N: tl.constexpr):
    """Blocks by descriptors that the kernel makes; the largest of each row is subtracted."""
    from_, to = (tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [M, N]),
                 tl.make_tensor_descriptor(y, [rows, columns], [columns, 1], [M, N]))
    for row in range(0, rows, M):
        tile = from_.load([row, 0])
        to.store([row, 0], tile - tl.max(tile, 1, keep_dims=True))


def norm():
    x = np.abs(numbers(60, 72))
    y = np.zeros((60, 72), np.float32)
    return _norm, (x, y, 60, 72), dict(M=24, N=72), x - x.max(1, keepdims=True)


@mimw.jit
def _turned(x_desc, y_desc, M: tl.constexpr, N: tl.constexpr):
    """A tile comes by TMA and leaves transposed."""
    tile, out, full = tlx.local_alloc((M, N), tl.float16, 1), tlx.local_alloc((N, M), tl.float16, 1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], M * N * 2)
    tlx.async_descriptor_load(x_desc, tile[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.local_store(out[0], tl.trans(tlx.local_load(tile[0])) * 2)
    tlx.fence("async_shared")
    tlx.async_descriptor_store(y_desc, out[0], [0, 0])
    tlx.async_descriptor_store_wait(0)


def turned():
    x, y = numbers(48, 80, dtype=np.float16), np.zeros((80, 48), np.float16)
    return _turned, (described(x, [48, 80]), described(y, [80, 48])), dict(M=48, N=80), x.T.astype(np.float32) * 2


@mimw.jit
def _looked_up(table_desc, tokens, y, T: tl.constexpr, V: tl.constexpr, D: tl.constexpr):
    """A small table lies in shared memory, and rows of it are picked there."""
    table, full = tle.gpu.alloc([V, D], tl.float32), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], V * D * 4)
    tlx.async_descriptor_load(table_desc, table, [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    rows = tl.load(tokens + tl.arange(0, T))[:, None] + tl.zeros((T, D), tl.int32)
    columns = tl.arange(0, D)[None, :] + tl.zeros((T, D), tl.int32)
    tl.store(y + tl.arange(0, T)[:, None] * D + columns, tl.load(tle.gpu.local_ptr(table, (rows, columns))))


def looked_up():
    table, tokens = numbers(40, 24), np.random.default_rng(1).integers(0, 40, 12).astype(np.int32)
    return _looked_up, (described(table, [40, 24]), tokens, np.zeros((12, 24), np.float32)), dict(T=12, V=40, D=24), table[tokens]


CASES = {case.__name__: case for case in (gemm, by_pipe, attention, norm, turned, looked_up)}
