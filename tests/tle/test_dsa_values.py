"""What the words of `tle.dsa` give, by the rules of a GPU and of a chip that has these memories, and on a GPU."""

from functools import partial

import numpy as np
import pytest
import triton.language as tl
from triton.compiler.errors import CompilationError

import mimw
import mimw.tle as tle
from mimw.testing.machines import Gpu

UB, L1 = tle.dsa.ascend.UB, tle.dsa.ascend.L1


@pytest.fixture(params=["sm_90a", "ascend_910b", pytest.param("gpu", marks=pytest.mark.gpu)])
def launch(request):
    return Gpu().launch if request.param == "gpu" else partial(mimw.simulate, target=request.param)


@mimw.jit
def all_kinds(x, y, out, N: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of `out`: x + y, x - y, x * y, x / y, max, min, and (x + x) - y in place."""
    at = tl.arange(0, BLOCK)
    a = tle.dsa.alloc([N], x.dtype.element_ty, UB)
    b = tle.dsa.alloc((N, ), x.dtype.element_ty, UB)
    c = tle.dsa.alloc([N], x.dtype.element_ty, UB)
    tle.dsa.copy(x + at, a, [N])
    tle.dsa.copy(y + at, b, [N])
    tle.dsa.add(a, b, c)
    tle.dsa.copy(c, out + at, [N])
    tle.dsa.sub(a, b, c)
    tle.dsa.copy(c, out + N + at, [N])
    tle.dsa.mul(a, b, c)
    tle.dsa.copy(c, out + 2 * N + at, [N])
    tle.dsa.div(a, b, c)
    tle.dsa.copy(c, out + 3 * N + at, [N])
    tle.dsa.max(a, b, c)
    tle.dsa.copy(c, out + 4 * N + at, [N])
    tle.dsa.min(a, b, c)
    tle.dsa.copy(c, out + 5 * N + at, [N])
    tle.dsa.add(a, a, a)
    tle.dsa.sub(a, b, b)
    tle.dsa.copy(b, out + 6 * N + at, [N])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "int16"])
def test_arithmetic_of_buffers(launch, dtype):
    """Integers are divided towards zero, and wrap; floats of 16 bits are divided in fp32."""
    random, n = np.random.default_rng(3), 50
    whole = np.issubdtype(np.dtype(dtype), np.integer)
    low = 0 if dtype.startswith("u") else -9
    x, y = (random.integers(low, 100, n).astype(dtype) if whole else random.standard_normal(n).astype(dtype) for _ in range(2))
    y[y == 0] = 3
    out = np.zeros((7, n), dtype)
    launch(all_kinds, (1, ), x, y, out, n, 64)
    divided = np.trunc(x.astype(np.float64) / y).astype(dtype) if whole else (x.astype(np.float32) / y).astype(dtype)
    expected = [x + y, x - y, x * y, divided, np.maximum(x, y), np.minimum(x, y), x + x - y]
    np.testing.assert_allclose(out.astype(np.float64), np.array(expected).astype(np.float64), rtol=0 if whole else 2e-7)


@mimw.jit
def boxes(x, y, rows, columns, R: tl.constexpr, C: tl.constexpr):
    """A tail over a block of ones, then all of it out; the other way round, a tail of the pointers."""
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 32)[None, :]
    a = tle.dsa.alloc([R, C], tl.float32, UB)
    ones = tle.dsa.alloc([R, C], tl.float32, UB)
    tle.dsa.copy(x + 1000 + i * 0 + j * 0, ones, [R, C])
    tle.dsa.copy(x + 1000 + i * 0 + j * 0, a, [R, C])
    tle.dsa.copy(x + i * 32 + j, a, [rows, columns])
    tle.dsa.mul(a, ones, a)
    tle.dsa.copy(a, y + i * 32 + j, [R, C])
    tle.dsa.copy(a, y + 256 + i * 32 + j, [rows, 3])


@pytest.mark.parametrize("rows, columns", [(3, 17), (5, 0), (-1, 9)])
def test_a_tail_leaves_the_rest_as_it_is(launch, rows, columns):
    x, y = np.arange(1024, dtype=np.float32), np.full(512, -1, np.float32)
    launch(boxes, (1, ), x, y, rows, columns, 5, 20)
    expected = np.full((5, 20), 1e6)
    rows, columns = max(rows, 0), max(columns, 0)
    expected[:rows, :columns] = x[:256].reshape(8, 32)[:rows, :columns] * 1000
    whole, part = y.reshape(2, 8, 32)
    np.testing.assert_array_equal(whole[:5, :20], expected)
    assert (whole[5:] == -1).all() and (whole[:, 20:] == -1).all()
    np.testing.assert_array_equal(part[:rows, :3], expected[:rows, :3])
    assert (part[rows:] == -1).all() and (part[:, 3:] == -1).all()


@mimw.jit
def views(x, y, start, N: tl.constexpr):
    """A view of a view is written, the buffer is read; pointers into both."""
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([N], tl.int32, UB)
    tle.dsa.copy(x + at, a, [N])
    odd = tle.dsa.subview(a, [1], [20], [2])            # 1, 3, .. 39
    some = tle.dsa.subview(odd, [start], [5], [3])      # 1 + 2 * (start + 3 j)
    tle.dsa.mul(some, some, some)
    p = tle.dsa.local_ptr(some, [tl.arange(0, 4)])
    tl.store(p, tl.load(p) + 1)
    tl.store(y + 64 + tl.arange(0, 4), tl.load(tle.dsa.local_ptr(odd, [tl.arange(0, 4)])))
    tl.store(y + 80, tl.load(tle.dsa.local_ptr(some, [0])))
    tle.dsa.copy(a, y + at, [N])
    tle.dsa.copy(some, y + 96 + tl.arange(0, 8), [5])


def test_views(launch):
    x, y = np.arange(64, dtype=np.int32), np.zeros(128, np.int32)
    launch(views, (1, ), x, y, 2, 50)
    expected = x[:50].copy()
    where = 1 + 2 * (2 + 3 * np.arange(5))
    expected[where] **= 2
    expected[where[:4]] += 1
    np.testing.assert_array_equal(y[:50], expected)
    np.testing.assert_array_equal(y[64:68], expected[1:9:2])
    np.testing.assert_array_equal(y[96:101], expected[where])
    assert y[80] == expected[where[0]] and (y[50:64] == 0).all()


@mimw.jit
def slices(x, y, e, flags, start):
    full = tl.load(x + tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :])
    sub = tle.dsa.extract_slice(full, [start, 1], [2, 4], [3, 2])
    full = tle.dsa.insert_slice(full, sub * 10, (1, start), (2, 4), (2, 3))
    full = full.insert_slice(sub, [6, 12])
    tl.store(y + tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :], full)
    tl.store(e, tle.dsa.extract_element(full, (start, 3)))
    odd = tle.dsa.extract_slice(full > 50, [0, 0], [1, 8], [1, 1])
    tl.store(flags + tl.arange(0, 8), tl.reshape(odd, [8]))


def test_slices_of_tensors(launch):
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    y, e, flags = np.zeros_like(x), np.zeros(1, np.float32), np.zeros(8, np.int8)
    launch(slices, (1, ), x, y, e, flags, 2)
    sub, expected = x[2:6:3, 1:9:2], x.copy()
    expected[1:5:2, 2:14:3] = sub * 10
    expected[6:8, 12:16] = sub
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(flags, expected[0, :8] > 50)
    assert e[0] == expected[2, 3]


@mimw.jit
def values(x, y, flags):
    """A tensor taken before a write keeps its value; another shape; truth values; buffers that a loop and a branch hand on."""
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([64], tl.int32, UB)
    tle.dsa.copy(x + at, a, [64])
    before = tle.dsa.to_tensor(a, writable=False)
    square = tle.dsa.to_tensor(a, target_shape=[8, 8])
    tle.dsa.add(a, a, a)
    tl.store(y + at, before)
    tl.store(y + 64 + tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :], tl.trans(square))
    b = tle.dsa.to_buffer(before * 100)
    for i in range(3):
        a, b = b, a
    tle.dsa.copy(a, y + 128 + at, [64])
    if tl.load(x + 1) > 0:
        b = tle.dsa.to_buffer(before, UB)
    tle.dsa.copy(b, y + 192 + at, [64])
    marks = tle.dsa.to_buffer(before > 9, UB)
    tle.dsa.copy(marks, flags + at, [64])
    again = tle.dsa.alloc([64], tl.int1, UB)
    tle.dsa.copy(flags + at, again, [64])
    tl.store(y + 256 + at, tl.where(tle.dsa.to_tensor(again), 1, 2))


def test_values_and_buffers(launch):
    x, y, flags = np.arange(64, dtype=np.int32), np.zeros(320, np.int32), np.zeros(64, bool)
    launch(values, (1, ), x, y, flags)
    expected = [x, x.reshape(8, 8).T.reshape(-1), x * 100, x, np.where(x > 9, 1, 2)]
    np.testing.assert_array_equal(y, np.concatenate(expected))
    np.testing.assert_array_equal(flags, x > 9)


@mimw.jit
def three_axes(x, y, k):
    """A buffer of rank 3 as a whole, a slot of it as a view, and single elements."""
    i, j, k3 = tl.arange(0, 4)[:, None, None], tl.arange(0, 8)[None, :, None], tl.arange(0, 16)[None, None, :]
    a = tle.dsa.alloc([3, 5, 10], tl.float32, UB)
    tle.dsa.copy(x + i * 50 + j * 10 + k3, a, [3, 5, 10])
    slot = tle.dsa.subview(a, [1, 0, 0], [1, 5, 10], [1, 1, 1])
    tle.dsa.add(slot, slot, slot)
    where = [tl.full([4], 1, tl.int32), tl.arange(0, 4), tl.full([4], 2, tl.int32)]
    tl.store(y + 200 + tl.arange(0, 4), tl.load(tle.dsa.local_ptr(a, where)))
    tl.store(y + 210, tl.load(tle.dsa.local_ptr(a, [k, 2, 3])))
    tle.dsa.copy(a, y + i * 50 + j * 10 + k3, [3, 5, 10])


def test_three_axes(launch):
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    launch(three_axes, (1, ), x, y, 2)
    expected = x[:150].reshape(3, 5, 10).copy()
    expected[1] *= 2
    np.testing.assert_array_equal(y[:150].reshape(3, 5, 10), expected)
    np.testing.assert_array_equal(y[200:204], expected[1, :4, 2])
    assert y[210] == expected[2, 2, 3]


MESH = tle.device_mesh({"cluster": 2})


@mimw.jit
def other_cta(x, y):
    at, me = tl.arange(0, 64), tle.shard_id(MESH, 0)
    a = tle.dsa.alloc([50], tl.float32, UB)
    tle.dsa.copy(x + me * 64 + at, a, [50])
    tle.distributed_barrier(MESH)
    there = tle.remote(a, 1 - me, scope=MESH)
    tl.store(y + me * 64 + tl.arange(0, 32), tl.load(tle.dsa.local_ptr(there, [tl.arange(0, 32)])))
    tle.distributed_barrier(MESH)


@pytest.mark.parametrize("run", [mimw.simulate, pytest.param("gpu", marks=pytest.mark.gpu)])
def test_a_buffer_of_another_cta(run):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    (Gpu().launch if run == "gpu" else run)(other_cta, (1, ), x, y)
    np.testing.assert_array_equal(y.reshape(2, 64)[:, :32], x.reshape(2, 64)[::-1, :32])


@mimw.jit
def odd_tensors(x, y, N: tl.constexpr, M: tl.constexpr):
    a = tle.dsa.alloc([N, M], tl.float32, UB)
    tle.dsa.copy(x + tl.arange(0, 8)[:, None] * M + tl.arange(0, 16)[None, :], a, [N, M])
    t = tle.dsa.to_tensor(a)
    part = tle.dsa.extract_slice(t + 1, [1, 0], [3, 5], [2, 2])
    sums = tl.sum(t, 1, keep_dims=True).extract_slice([0, 0], [3, 1], [1, 1])
    whole = tle.dsa.insert_slice(t, part * sums, [0, 0], [3, 5], [1, 1])
    tle.dsa.copy(tle.dsa.to_buffer(whole, UB), y + tl.arange(0, 8)[:, None] * M + tl.arange(0, 16)[None, :], [N, M])


def test_tensors_of_any_extents_where_the_chip_has_them():
    x, y = np.arange(70, dtype=np.float32).reshape(7, 10), np.zeros((7, 10), np.float32)
    mimw.simulate(odd_tensors, (1, ), x, y, 7, 10, target="ascend_910b")
    expected = x.copy()
    expected[:3, :5] = (x[1:6:2, 0:9:2] + 1) * x.sum(1, keepdims=True)[:3]
    np.testing.assert_allclose(y, expected)
    with pytest.raises(CompilationError, match="powers of two") as caught:
        mimw.simulate(odd_tensors, (1, ), x, y, 7, 10, target="sm_90a")
    assert 'target="ascend_910b"' in str(caught.value) and "dsa.add" in str(caught.value)
