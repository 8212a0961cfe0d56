"""`async_dot` over element types, operand views, sizes and warps; several in flight; with `tl.dot` beside it."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

BF16, E5M2, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn


@mimw.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr, ACC: tl.constexpr,
            PRECISION: tl.constexpr):
    """C = A @ B (+ C). A: "rows" (M, K), "columns" (a view of (K, M)) or "registers"; B: "rows" (K, N), "columns" (of (N, K))."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    at_a = m[:, None] * K + k[None, :]
    c_at = c + m[:, None] * N + n[None, :]
    if A == "columns":
        a_buffer = tlx.local_alloc((K, M), tlx.dtype_of(a), 1)
        tlx.local_store(a_buffer[0], tl.load(a + m[None, :] * K + k[:, None]))
        left = tlx.local_trans(a_buffer[0])
    elif A == "rows":
        a_buffer = tlx.local_alloc((M, K), tlx.dtype_of(a), 1)
        tlx.local_store(a_buffer[0], tl.load(a + at_a))
        left = a_buffer[0]
    else:
        left = tl.load(a + at_a)
    if B == "columns":
        b_buffer = tlx.local_alloc((N, K), tlx.dtype_of(b), 1)
        tlx.local_store(b_buffer[0], tl.load(b + k[None, :] * N + n[:, None]))
        right = tlx.local_trans(b_buffer[0])
    else:
        b_buffer = tlx.local_alloc((K, N), tlx.dtype_of(b), 1)
        tlx.local_store(b_buffer[0], tl.load(b + k[:, None] * N + n[None, :]))
        right = b_buffer[0]
    if ACC:
        acc = tl.load(c_at)
        acc = tlx.async_dot(left, right, acc, input_precision=PRECISION, out_dtype=tlx.dtype_of(c))
    else:
        acc = tlx.async_dot(left, right, input_precision=PRECISION, out_dtype=tlx.dtype_of(c))
    tl.store(c_at, tlx.async_dot_wait(0, acc))


def values(shape, dtype, seed):
    """Small integers: every product and sum is exact in every type, so results compare as equal."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def check(machine, m, n, k, a_type, b_type=None, c_type=np.float32, a_view="rows", b_view="rows", acc=False, warps=4,
          precision=None):
    a, b, c = values((m, k), a_type, 1), values((k, n), b_type or a_type, 2), values((m, n), c_type, 3)
    wanted = a.astype(np.float32) @ b.astype(np.float32) + (c.astype(np.float32) if acc else 0)
    machine.launch(product, (1, ), a, b, c, m, n, k, a_view, b_view, acc, precision, num_warps=warps)
    np.testing.assert_array_equal(c.astype(np.float32), wanted)


@pytest.mark.long(everywhere=["bfloat16-rows-registers-True", "float16-columns-columns-True", "float16-columns-rows-False"])
@pytest.mark.parametrize("acc", [False, True])
@pytest.mark.parametrize("a_view", ["rows", "columns", "registers"])
@pytest.mark.parametrize("b_view", ["rows", "columns"])
@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_16_bits(machine, dtype, a_view, b_view, acc):
    check(machine, 64, 64, 64, dtype, a_view=a_view, b_view=b_view, acc=acc)


TYPES_ALONG_K = [(np.float32, np.float32, np.float32), (E4M3, E4M3, np.float32), (E5M2, E5M2, np.float32),
                 (E4M3, E5M2, np.float32), (E5M2, E4M3, np.float32), (np.int8, np.int8, np.int32)]


@pytest.mark.long(everywhere=[
    "types0-registers-False", "types1-rows-True", "types2-rows-False", "types3-registers-False", "types4-rows-False",
    "types5-registers-True"])
@pytest.mark.parametrize("acc", [False, True])
@pytest.mark.parametrize("a_view", ["rows", "registers"])
@pytest.mark.parametrize("types", TYPES_ALONG_K)
def test_contiguous_along_k(machine, types, a_view, acc):
    """tf32, fp8 (mixed too) and int8: B is a view of an (N, K) buffer."""
    check(machine, 64, 32, 64, *types, a_view=a_view, b_view="columns", acc=acc)


@pytest.mark.parametrize("acc", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, E4M3])
def test_half_results(machine, dtype, acc):
    check(machine, 64, 32, 64, dtype, c_type=np.float16, b_view="columns", acc=acc)


@pytest.mark.parametrize("n", [8, 16, 32, 64, 128, 256])
def test_columns(machine, n):
    check(machine, 64, n, 32, np.float16)


@pytest.mark.long(everywhere=["128-8-rows", "256-16-registers", "64-4-rows"])
@pytest.mark.parametrize("a_view", ["rows", "registers"])
@pytest.mark.parametrize("m, warps", [(64, 4), (128, 4), (256, 4), (128, 8), (256, 8), (256, 16), (64, 8)])
def test_rows_and_warps(machine, m, warps, a_view):
    check(machine, m, 64, 32, np.float16, warps=warps, a_view=a_view)


@pytest.mark.parametrize("k", [16, 32, 128, 256])
def test_depths(machine, k):
    check(machine, 64, 32, k, BF16)


@mimw.jit
def attention_step(q, k, v, out, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Two dots in flight: the next scores while the last ones, through a softmax, multiply V."""
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q_tile = tlx.local_alloc((M, D), tl.float16, 1)
    k_tiles = tlx.local_alloc((N, D), tl.float16, 2)
    v_tiles = tlx.local_alloc((N, D), tl.float16, 2)
    tlx.local_store(q_tile[0], tl.load(q + m[:, None] * D + d[None, :]))
    for block in tl.static_range(2):
        rows = (block * N + n)[:, None] * D + d[None, :]
        tlx.local_store(k_tiles[block], tl.load(k + rows))
        tlx.local_store(v_tiles[block], tl.load(v + rows))
    first = tlx.async_dot(q_tile[0], tlx.local_trans(k_tiles[0]))
    first = tlx.async_dot_wait(0, first)
    p = tl.exp(first - tl.max(first, 1)[:, None])
    p = (p / tl.sum(p, 1)[:, None]).to(tl.float16)
    second = tlx.async_dot(q_tile[0], tlx.local_trans(k_tiles[1]))
    acc = tlx.async_dot(p, v_tiles[0])
    second = tlx.async_dot_wait(1, second)
    p = tl.exp(second - tl.max(second, 1)[:, None])
    p = (p / tl.sum(p, 1)[:, None]).to(tl.float16)
    acc = tlx.async_dot(p, v_tiles[1], acc)
    acc = tlx.async_dot_wait(0, acc)
    tl.store(out + m[:, None] * D + d[None, :], acc)


@pytest.mark.parametrize("m, warps", [(64, 4), (128, 8)])
def test_softmax_feeds_a_dot(machine, m, warps):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, 64), (128, 64), (128, 64)))
    out = np.zeros((m, 64), np.float32)
    machine.launch(attention_step, (1, ), q, k, v, out, m, 64, 64, num_warps=warps)
    wanted = 0
    for block in (slice(0, 64), slice(64, 128)):
        scores = q.astype(np.float32) @ k[block].astype(np.float32).T
        p = np.exp(scores - scores.max(1, keepdims=True))
        wanted = wanted + (p / p.sum(1, keepdims=True)) @ v[block].astype(np.float32)
    np.testing.assert_allclose(out, wanted, atol=4e-3)


@mimw.jit
def two_accumulators(a, b, c, d, STEPS: tl.constexpr):
    """Two accumulators in turns through a loop, with one group left running each time."""
    m, n, k = tl.arange(0, 64), tl.arange(0, 32), tl.arange(0, 32)
    a_tiles = tlx.local_alloc((64, 32), tl.float16, STEPS)
    b_tiles = tlx.local_alloc((32, 32), tl.float16, STEPS)
    for step in tl.static_range(STEPS):
        tlx.local_store(a_tiles[step], tl.load(a + step * 64 * 32 + m[:, None] * 32 + k[None, :]))
        tlx.local_store(b_tiles[step], tl.load(b + step * 32 * 32 + k[:, None] * 32 + n[None, :]))
    first = tl.zeros((64, 32), tl.float32)
    second = tl.zeros((64, 32), tl.float32)
    for step in range(STEPS):
        first = tlx.async_dot(a_tiles[step], b_tiles[step], first)
        second = tlx.async_dot(a_tiles[step], tlx.local_trans(b_tiles[step]), second)
        first = tlx.async_dot_wait(1, first)
    first = tlx.async_dot_wait(0, first)
    second = tlx.async_dot_wait(0, second)
    at = m[:, None] * 32 + n[None, :]
    tl.store(c + at, first)
    tl.store(d + at, second)


def test_accumulators_in_flight(machine):
    a, b = values((3, 64, 32), np.float16, 1), values((3, 32, 32), np.float16, 2)
    c, d = np.zeros((64, 32), np.float32), np.zeros((64, 32), np.float32)
    machine.launch(two_accumulators, (1, ), a, b, c, d, 3)
    wide = a.astype(np.float32), b.astype(np.float32)
    np.testing.assert_array_equal(c, (wide[0] @ wide[1]).sum(0))
    np.testing.assert_array_equal(d, (wide[0] @ wide[1].transpose(0, 2, 1)).sum(0))


@mimw.jit
def plain_dots(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ASYNC: tl.constexpr):
    """`tl.dot` of tiles read from buffers, in the default task and in another; with ASYNC an async_dot beside it."""
    a_tile = tlx.local_alloc((M, K), tlx.dtype_of(a), 1)
    b_tile = tlx.local_alloc((K, N), tlx.dtype_of(a), 1)
    ready = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
            tlx.local_store(a_tile[0], tl.load(a + m[:, None] * K + k[None, :]))
            tlx.local_store(b_tile[0], tl.load(b + k[:, None] * N + n[None, :]))
            tlx.fence("async_shared")
            tlx.barrier_arrive(ready[0])
            total = tl.dot(tlx.local_load(a_tile[0]), tlx.local_load(b_tile[0]))
            if ASYNC:
                total += tlx.async_dot_wait(0, tlx.async_dot(a_tile[0], b_tile[0]))
            tl.store(c + m[:, None] * N + n[None, :], total)
        with tlx.async_task(num_warps=4):
            m, n = tl.arange(0, M), tl.arange(0, N)
            tlx.barrier_wait(ready[0], 0)
            total = tl.dot(tlx.local_load(a_tile[0]), tlx.local_load(b_tile[0]))
            total = tl.dot(tlx.local_load(a_tile[0]), tlx.local_load(b_tile[0]), total)
            tl.store(c + M * N + m[:, None] * N + n[None, :], total)


SIZES = [(16, 16, 16, False), (32, 16, 64, False), (16, 256, 32, False), (64, 64, 64, True), (128, 64, 16, True),
         (256, 16, 32, True)]


@pytest.mark.long(everywhere=[
    "128-64-16-True-bfloat16", "16-256-32-False-float16", "256-16-32-True-float16", "32-16-64-False-bfloat16",
    "64-64-64-True-float16"])
@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("m, n, k, beside", SIZES)
def test_plain_dots_of_buffers(machine, m, n, k, beside, dtype):
    a, b, c = values((m, k), dtype, 1), values((k, n), dtype, 2), np.zeros((2, m, n), np.float32)
    machine.launch(plain_dots, (1, ), a, b, c, m, n, k, beside)
    once = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c, np.stack([(1 + beside) * once, 2 * once]))
